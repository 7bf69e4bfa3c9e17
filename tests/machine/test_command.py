"""A command's lines are kept, its silence has an end, and an interrupt leaves no process behind."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.machine.command import CommandFailed, run
from appliance.supervise.status import start_ticks


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_both_streams_and_progress_bars_are_lines() -> None:
    seen: list[str] = []
    code = r"import sys; print('a\rb'); sys.stdout.flush(); print('c', file=sys.stderr); print('d', end='')"
    assert run(_python(code), quiet_s=60, each=seen.append) == ["a", "b", "c", "d"] == seen


def test_a_failure_tells_its_code_and_last_words() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(_python("for i in range(999): print(i)\nraise SystemExit(7)"), quiet_s=60, each=_ignore)
    assert caught.value.reason == "exit code 7"
    assert caught.value.words(2) == "997\n998"


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(CommandFailed) as caught:
        run(["/no/such/command"], quiet_s=60, each=_ignore)
    assert "No such file" in caught.value.words()


def test_silence_has_an_end() -> None:
    pids: list[str] = []
    with pytest.raises(CommandFailed, match="no sign of life"):
        run(_python(_TELL_AND_SLEEP), quiet_s=2, each=pids.append)
    assert start_ticks(int(pids[0])) is None


def test_an_interrupt_ends_the_command_after_its_own_cleaning(tmp_path: Path) -> None:
    trap = f"trap 'touch {tmp_path}/cleaned; exit 130' TERM; echo $$; sleep 300 & wait"
    pids: list[str] = []

    def interrupt(line: str) -> None:
        pids.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["bash", "-c", trap], quiet_s=60, each=interrupt)
    assert (tmp_path / "cleaned").exists()
    assert start_ticks(int(pids[0])) is None


_TELL_AND_SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"


def _ignore(line: str) -> None:
    del line


def test_a_command_dies_with_the_process_that_runs_it(tmp_path: Path) -> None:
    pid = _started_by_a_killed_process(tmp_path, held=False)
    _eventually(lambda: start_ticks(pid) is None)


def test_a_command_that_is_given_a_lock_goes_on_and_keeps_it(tmp_path: Path) -> None:
    pid = _started_by_a_killed_process(tmp_path, held=True)
    with (tmp_path / "lock").open() as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(pid, signal.SIGKILL)
        _eventually(lambda: not fcntl.flock(lock, fcntl.LOCK_EX))


def _started_by_a_killed_process(folder: Path, *, held: bool) -> int:
    """The pid of a long command whose starter was killed at once."""
    script = (
        "import fcntl, os, sys\nfrom appliance.machine.command import run\n"
        "lock = os.open(sys.argv[1] + '/lock', os.O_RDWR | os.O_CREAT)\nfcntl.flock(lock, fcntl.LOCK_EX)\n"
        "run(['sh', '-c', 'echo $$ > ' + sys.argv[1] + '/new; mv ' + sys.argv[1] + '/new ' + sys.argv[1] + '/pid;"
        f" exec sleep 60'], quiet_s=60, each=len, held={'lock' if held else None})"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(folder)]) as starter:
        _eventually((folder / "pid").exists)
        starter.kill()
    return int((folder / "pid").read_text())


def _eventually(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)
