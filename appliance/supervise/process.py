"""The engine as a process: started, signalled, and swept away with all that it left behind. Linux only.

The supervisor is a child subreaper (prctl(2)), so orphans of the engine become its children and are found.
Standard library only: this file also runs inside every engine image.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from appliance.supervise.plan import Plan

PR_SET_CHILD_SUBREAPER = 36
SWEEP_S = 2.0
GUARDS = 5
_HERE = Path(__file__).resolve().parent


def become_subreaper() -> None:
    """Adopt the orphans of one's descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _helper(name: str) -> list[str]:
    return [sys.executable, "-S", "-I", str(_HERE / name)]


class Guard:
    """The helper that kills the engine's group if this process is killed, and holds `lock` until then."""

    def __init__(self, lock: int) -> None:
        self._lock = lock
        self._group = 0
        self._revivals = 0
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, group: int) -> None:
        """Name the group to kill; 0 for none."""
        self._group = group
        assert self._process.stdin is not None
        with suppress(OSError):  # killed by someone, and not yet replaced
            os.write(self._process.stdin.fileno(), f"{group}\n".encode())

    def revive(self) -> str:
        """Replace it where someone has ended it, GUARDS times at most: what happened, or nothing.

        Without it, only the engine itself is bound to this process, not what the engine started.
        """
        if self._revivals > GUARDS or self._process.poll() is None:
            return ""
        self._revivals += 1
        if self._revivals > GUARDS:
            return "the guard was ended once more: going on without one"
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process = self._start()
        except OSError as error:
            self._revivals = GUARDS + 1
            return f"the guard was ended and cannot be started again: {error}"
        self.watch(self._group)
        return "the guard was ended: started another"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SWEEP_S)

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            _helper("guard.py"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            pass_fds=(self._lock,),
            bufsize=0,
        )


class Engine:
    """One started engine. `output` is the descriptor its standard output and error come from.

    Create it in the main thread: its death signal is bound to the creating thread.
    """

    def __init__(self, plan: Plan, folder: Path, guard: Guard) -> None:
        """Start it in `folder`, in a session of its own. Raises OSError."""
        self._guard = guard
        self.output, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*_helper("leash.py"), str(os.getpid()), *plan.argv],
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                cwd=folder,
                env={**os.environ, **plan.env},
                start_new_session=True,
            )
        except OSError:
            os.close(self.output)
            raise
        finally:
            os.close(write_end)
        self.pid = self._process.pid
        guard.watch(self.pid)

    def ended(self) -> bool:
        """Whether it ended. It is not reaped yet, so its number still names it and its group."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def terminate(self) -> None:
        """Ask it to end; what it started is its own to end."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill its whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def bytes_read(self) -> int:
        """Bytes that it and its descendants have read so far, by read(2) or by page faults (proc(5), io)."""
        return sum(_bytes_read(pid) for pid in _family(_processes(), {self._guard.pid}))

    def reap_orphans(self) -> None:
        """Collect the exit codes of orphans that ended."""
        for pid, (parent, state) in _processes().items():
            if parent == os.getpid() and state == "Z" and pid not in (self.pid, self._guard.pid):
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def sweep(self) -> None:
        """Kill its group and every orphan; what hangs in the kernel is left after SWEEP_S seconds."""
        deadline = time.monotonic() + SWEEP_S
        while True:
            self.kill()
            left = _family(_processes(), {self._guard.pid})
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap_orphans()
            if not left or time.monotonic() > deadline:
                return
            time.sleep(0.01)

    def reap(self) -> int | None:
        """After `sweep`: its exit code, or minus its signal; None where it cannot be killed."""
        self._guard.watch(0)
        return self._process.poll()


def _processes() -> dict[int, tuple[int, str]]:
    """Every process: its parent and its state letter (proc(5), stat fields 4 and 3)."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed, of many
        if name.isdecimal():
            with suppress(OSError):
                stat = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
                state, parent = stat.rpartition(")")[2].split()[:2]
                found[int(name)] = (int(parent), state)
    return found


def _family(processes: dict[int, tuple[int, str]], spared: set[int]) -> list[int]:
    """The living descendants of this process."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in processes.items():
        if pid not in spared:
            children.setdefault(parent, []).append(pid)
    family = []
    parents = [os.getpid()]
    while parents:
        born = children.get(parents.pop(), [])
        family += [pid for pid in born if processes[pid][1] not in "ZX"]
        parents += born
    return family


def _bytes_read(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    except OSError:  # gone, or not ours to read
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar:", "read_bytes:")))
