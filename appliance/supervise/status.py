"""status.json: what the supervisor tells everyone else. Written by one process, atomically; read by many.

Standard library only: this file also runs inside every engine image.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

SCHEMA = 1
FILE = "status.json"

STARTING, READY, WEDGED, EXITED, STOPPED = "starting", "ready", "wedged", "exited", "stopped"


@dataclass(frozen=True)
class Counters:
    """Totals since the engine started (a restart sets them back to zero). None: the engine does not count it.

    `at` is the wall clock when the reading was begun: all that had ended by then is in it.
    acceptance length = 1 + accepted / steps.
    """

    at: float
    engine_starts: int
    generated: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Exit:
    """How the engine last ended: an exit code or a signal, why in words, and its last lines.

    `wedged`: it was ended by the supervisor, for lack of progress or of tokens.
    """

    code: int | None
    signal: int | None
    reason: str
    tail: tuple[str, ...]
    wedged: bool = False


@dataclass(frozen=True)
class Status:
    """One snapshot. Times are wall-clock seconds; `pid_start` is the supervisor's start in clock ticks since
    boot (field 22 of /proc/PID/stat), which with `pid` names a process beyond doubt.

    `state`: starting, ready, wedged (alive, but no tokens come), exited (given up), stopped (asked to).
    `starts` counts engine starts: 1 means never restarted. `progress` is when anything last moved.
    """

    stack: str
    digest: str
    pid: int
    pid_start: int
    engine_pid: int | None
    state: str
    phase: str
    since: float
    progress: float
    updated: float
    starts: int
    exit: Exit | None = None
    counters: Counters | None = None

    def to_json(self) -> str:
        return (
            json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2, sort_keys=True, ensure_ascii=False)
            + "\n"
        )


def parse(text: str) -> Status:
    """Read a status back. Raises ValueError where it is not one of this schema."""
    raw = json.loads(text)
    if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
        raise ValueError(f"not a status.json of schema {SCHEMA}")
    try:
        ended, counters = raw.pop("exit"), raw.pop("counters")
        if ended:
            ended = Exit(**{**ended, "tail": tuple(ended["tail"])})
        if counters:
            positions = counters["accepted_per_position"]
            counters = Counters(
                **{**counters, "accepted_per_position": None if positions is None else tuple(positions)}
            )
        return Status(**raw, exit=ended or None, counters=counters or None)
    except (TypeError, KeyError) as error:
        raise ValueError(f"status.json: {error}") from error


def read(folder: Path) -> Status | None:
    """The status in a state folder, None where none was written yet. Raises ValueError on a foreign file."""
    try:
        return parse((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def write(folder: Path, status: Status) -> None:
    """Replace the status in one step: a reader sees the old one or the new one, never half.

    Raises OSError; then nothing of the new one stays.
    """
    fresh = folder / f".{FILE}.{os.getpid()}"
    try:
        fresh.write_text(status.to_json(), encoding="utf-8")
        fresh.replace(folder / FILE)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def clean(folder: Path) -> None:
    """Remove what writers that were killed in mid-write left. Only for the one who holds the folder's lock."""
    for stale in folder.glob(f".{FILE}.*"):
        with suppress(OSError):
            stale.unlink()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), stat field 22); None where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    after_name = stat.rpartition(")")[2].split()
    return None if after_name[0] in "ZX" else int(after_name[19])
