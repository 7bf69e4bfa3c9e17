"""Run a command to its end: its lines are kept, silence is bounded, an interrupt leaves no process."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from appliance.supervise import leash

KEEP = 200
GRACE_S = 30


class CommandFailed(Exception):
    """A command that did not end well; `tail` are its last lines."""

    def __init__(self, argv: Sequence[str], reason: str, tail: Sequence[str]) -> None:
        super().__init__(f"{argv[0]}: {reason}")
        self.reason = reason
        self.tail = tuple(tail)

    def words(self, lines: int = 12) -> str:
        """Its last words, or the bare reason where it had none."""
        return "\n".join(self.tail[-lines:]) or self.reason


def leashed(argv: Sequence[str]) -> list[str]:
    """The same command, killed by the kernel as soon as this process is dead."""
    return [sys.executable, "-S", "-I", leash.__file__, str(os.getpid()), *argv]


def run(
    argv: Sequence[str],
    *,
    quiet_s: float,
    each: Callable[[str], None],
    held: int | None = None,
    leash: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> list[str]:
    """Run a command; returns its last lines, stdout and stderr together, `each` sees them as they come.

    Where this process is killed, the command dies with it; but one that is given `held`, the handle of a lock,
    goes on to its end and keeps the lock until then, and a short question needs no `leash`. Raises CommandFailed
    where it cannot start, exits other than 0, or is silent for `quiet_s` seconds.
    """
    lines: list[str] = []
    try:
        process = subprocess.Popen(
            leashed(argv) if leash and held is None else argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if held is None else (held,),
            env=env,
            cwd=cwd,
        )
    except OSError as error:
        raise CommandFailed(argv, error.strerror or str(error), ()) from None
    try:
        for line in _lines(process, quiet_s):
            lines = [*lines[-KEEP:], line]
            each(line)
        code = process.wait(timeout=quiet_s)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise CommandFailed(argv, f"no sign of life for {quiet_s:g} s", lines) from None
    finally:
        _end(process)
    if code:
        raise CommandFailed(argv, f"exit code {code}", lines)
    return lines


def _lines(process: "subprocess.Popen[bytes]", quiet_s: float) -> Iterator[str]:
    """Its lines until it closes its output; carriage returns of progress bars end lines too."""
    assert process.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as ready, process.stdout as stream:
        ready.register(stream, selectors.EVENT_READ)
        while True:
            if not ready.select(quiet_s):
                raise TimeoutError
            chunk = os.read(stream.fileno(), 65536)
            *whole, pending = (pending + chunk).replace(b"\r", b"\n").split(b"\n")
            yield from (text for line in whole if (text := line.decode(errors="replace").rstrip()))
            if not chunk:
                break
    if pending:
        yield pending.decode(errors="replace")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what still runs, it and its children, and reap it. It gets a while to clean up after itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=GRACE_S)
