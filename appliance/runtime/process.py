"""Local processes: one supervisor a stack, detached, known by its pid and start time."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from appliance.core.errors import EngineDied, MachineFault
from appliance.core.paths import write_atomic
from appliance.runtime.base import ABSENT, Observed, plain_environment
from appliance.supervise import plan, status

LOG = "engine.log"
RECORD = "process.json"
SUPERVISOR_LOCK = "supervisor.lock"
STOP_MARGIN_S = 10.0
SETTLE_S = 10.0


class ProcessRuntime:
    """The process runtime of one stack, in its run folder."""

    name = "process"

    def __init__(self, run: Path) -> None:
        self.run = run

    def start(self, folder: Path, digest: str) -> None:
        """Start a supervisor and record it. It does nothing before it hears "go", which it hears only after its
        pid is on the disk: a launcher killed in between leaves no process that nobody knows of."""
        self.run.mkdir(parents=True, exist_ok=True)
        for stale in (status.FILE, RECORD):
            _remove(self.run / stale)
        command = [sys.executable, "-m", "appliance.supervise", str(folder / "engine" / "supervise.json"),
                   "--state", str(self.run), "--log", str(self.run / LOG), "--wait-go"]  # fmt: skip
        with (self.run / "supervisor.out").open("wb") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, cwd="/", env=plain_environment(),
            )  # fmt: skip
        assert child.stdin is not None
        started = status.start_ticks(child.pid)
        record = {"pid": child.pid, "start": started, "digest": digest, "folder": str(folder)}
        write_atomic(self.run / RECORD, json.dumps(record) + "\n")
        try:
            child.stdin.write(b"go\n")
            child.stdin.close()
        except BrokenPipeError:
            raise EngineDied(
                "the supervisor ended at once", self._output(), "this is a fault of spark-spec"
            ) from None

    def observe(self) -> Observed:
        record = self._record()
        if record is None:
            return ABSENT
        pid, alive = int(str(record["pid"])), self._alive(record)
        seen = self._status()
        if seen is not None and seen.pid != pid:
            seen = None
        return Observed(
            exists=True,
            alive=alive,
            digest=str(record["digest"]),
            status=seen,
            where={"pid": str(pid)}
            | ({"engine_pid": str(seen.engine_pid)} if seen and seen.engine_pid else {}),
        )

    def stop(self) -> bool:
        record = self._record()
        if record is not None and self._alive(record):
            self._end(record)
        if self.run.is_dir():
            self._settle()
        for leftover in (RECORD, status.FILE, "supervisor.out"):
            _remove(self.run / leftover)
        return record is not None

    def logs(self, *, follow: bool, lines: int | None) -> Iterator[str]:
        path = self.run / LOG
        if not path.exists():
            return
        stream = path.open(encoding="utf-8", errors="replace")
        try:
            yield from deque((line.rstrip("\n") for line in stream), maxlen=lines)
            while follow:
                line = stream.readline()
                if line:
                    yield line.rstrip("\n")
                elif _rotated(stream, path):
                    stream.close()
                    stream = path.open(encoding="utf-8", errors="replace")
                elif not self.observe().alive:
                    return
                else:
                    time.sleep(0.2)
        finally:
            stream.close()

    def _record(self) -> Mapping[str, object] | None:
        """What was started, by our own record; where that is damaged, by the supervisor's status."""
        try:
            record = json.loads((self.run / RECORD).read_text(encoding="utf-8"))
            return {"pid": int(record["pid"]), "start": int(record["start"]),
                    "digest": str(record["digest"]), "folder": str(record["folder"])}  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            seen = self._status()
        if seen is None:
            return None
        return {"pid": seen.pid, "start": seen.pid_start, "digest": seen.digest, "folder": ""}

    def _status(self) -> status.Status | None:
        """The supervisor's status; None where there is none, or a damaged one."""
        try:
            return status.read(self.run)
        except (OSError, ValueError):
            return None

    @staticmethod
    def _alive(record: Mapping[str, object]) -> bool:
        return status.start_ticks(int(str(record["pid"]))) == record["start"]

    def _end(self, record: Mapping[str, object]) -> None:
        """SIGTERM, a bounded wait, SIGKILL; the engine cannot outlive its supervisor."""
        pid = int(str(record["pid"]))
        for number, patience in (
            (signal.SIGTERM, self._grace(record) + STOP_MARGIN_S),
            (signal.SIGKILL, 5.0),
        ):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            except PermissionError:
                raise MachineFault(
                    f"process {pid} cannot be ended", "it belongs to another user",
                    "take the stack down as the user who started it",
                ) from None  # fmt: skip
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                if not self._alive(record):
                    return
                time.sleep(0.02)
        raise MachineFault(
            f"process {pid} does not end", "it survived SIGKILL", "look at it with ps; reboot if it stays"
        )

    def _settle(self) -> None:
        """Wait until a dead supervisor's guard, which holds its lock, has ended the engine's processes too."""
        deadline = time.monotonic() + SETTLE_S
        with (self.run / SUPERVISOR_LOCK).open("ab") as lock:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    time.sleep(0.02)
        raise MachineFault(
            "the engine does not end",
            f"a supervisor or its guard still holds {self.run / SUPERVISOR_LOCK}",
            f"see who it is (fuser -v '{self.run / SUPERVISOR_LOCK}') and end it",
        )

    @staticmethod
    def _grace(record: Mapping[str, object]) -> float:
        try:
            return plan.read(Path(str(record["folder"])) / "engine" / "supervise.json").limits.stop_s
        except (OSError, ValueError):
            return plan.Limits().stop_s

    def _output(self) -> str:
        text = (self.run / "supervisor.out").read_text(encoding="utf-8", errors="replace").strip()
        return text[-500:] or "it printed nothing"


def _remove(path: Path) -> None:
    """Remove a file of ours, whatever someone put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _rotated(stream: TextIO, path: Path) -> bool:
    """Whether the log we read was put aside and a new one begun."""
    try:
        return path.stat().st_ino != os.fstat(stream.fileno()).st_ino
    except FileNotFoundError:
        return False
