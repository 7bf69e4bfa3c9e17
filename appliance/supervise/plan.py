"""supervise.json: what the launcher tells the supervisor. Rendered by the launcher, read here.

Standard library only: this file also runs inside every engine image.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class CounterTable:
    """Where an engine keeps its counters and what it calls them.

    `names` maps our names to the engine's. Ours: `generated` (tokens emitted), `steps` (verify steps that
    had a draft), `drafted`, `accepted` (draft tokens), `accepted_per_position` (a labelled series),
    `progress` (anything that moves while the engine works), `active` (requests in flight, a gauge), `answers`
    (requests answered; from them and `generated` follows `accepted` where an engine does not count it).
    A name the engine does not keep is left out: unknown, not zero.
    """

    path: str
    format: str
    names: dict[str, str]


@dataclass(frozen=True)
class Phase:
    """A regular expression over log lines, and what a person should read when it matches.

    `phase` may use the pattern's groups, in the manner of `re.Match.expand`: `loading weights \\1/\\2`.
    """

    pattern: str
    phase: str


@dataclass(frozen=True)
class Snapshot:
    """A model in a hub cache: `folder` is its models--org--name there; no `revision` means refs/main's."""

    repo: str
    folder: str
    revision: str | None


@dataclass(frozen=True)
class File:
    """A file that must be there, with the content of this sha256; `role` says what it is to a person."""

    path: str
    sha256: str
    role: str


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds and counts. Nothing waits or loops without one."""

    restarts: int = 2
    backoff_s: float = 1.0
    stall_s: float = 300.0
    wedge_s: float = 60.0
    probe_every_s: float = 60.0
    stop_s: float = 20.0
    stable_s: float = 600.0
    memory_floor: int = 0  # bytes of the machine's MemAvailable; 0: not looked at


@dataclass(frozen=True)
class Plan:
    """Everything the supervisor needs to run one engine; the engine's working directory is the plan's own.

    `base_url` is where the supervisor reaches the engine; `chat_body` is the request whose answer makes
    the engine ready: a real token through `/v1/chat/completions`. `snapshots` are laid out and `files` checked
    before each start.
    """

    stack: str
    digest: str
    engine: str
    argv: tuple[str, ...]
    env: dict[str, str]
    base_url: str
    health_path: str
    chat_path: str
    chat_body: dict[str, Any]
    counters: CounterTable | None = None
    phases: tuple[Phase, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    files: tuple[File, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> str:
        """Deterministic text: sorted keys, two spaces, a closing newline."""
        return (
            json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2, sort_keys=True, ensure_ascii=False)
            + "\n"
        )


def parse(text: str) -> Plan:
    """Read a plan back. Raises ValueError where it is not one of this schema."""
    raw = json.loads(text)
    if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
        raise ValueError(f"not a supervise.json of schema {SCHEMA}")
    try:
        counters = raw.pop("counters")
        return Plan(
            **{
                **raw,
                "argv": tuple(raw["argv"]),
                "counters": CounterTable(**counters) if counters else None,
                "phases": tuple(Phase(**phase) for phase in raw["phases"]),
                "snapshots": tuple(Snapshot(**one) for one in raw["snapshots"]),
                "files": tuple(File(**one) for one in raw["files"]),
                "limits": Limits(**raw["limits"]),
            }
        )
    except (TypeError, KeyError) as error:
        raise ValueError(f"supervise.json: {error}") from error


def read(path: Path) -> Plan:
    """Read a plan from a file. Raises OSError or ValueError."""
    return parse(path.read_text(encoding="utf-8"))
