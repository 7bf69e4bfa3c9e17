"""What an engine is to the rest of the house: tables and pure functions. The loops are elsewhere."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from appliance.catalog.stack import Stack
from appliance.supervise.plan import CounterTable, Phase


@dataclass(frozen=True)
class Place:
    """Where an engine will run, as it will see it: inside a container or on the host itself.

    `target` and `draft` are paths of the model files; `programs` is the folder with our own engine
    programs; `host` and `port` are what the engine binds.
    """

    python: str
    programs: str
    target: str
    draft: str | None
    host: str
    port: int


@dataclass(frozen=True)
class Launch:
    """A start: argv, added environment, and the config files (name -> text) put beside supervise.json."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Death:
    """A known way to die: a pattern over the last log lines, and what to tell the person."""

    pattern: str
    why: str
    fix: str


class Engine(Protocol):
    """One engine's tables. A module in this room offers one instance, named ENGINE."""

    name: str
    health_path: str
    chat_path: str
    counters: CounterTable | None
    phases: tuple[Phase, ...]
    deaths: tuple[Death, ...]
    local_modules: tuple[str, ...]  # Python modules that it needs where it runs as a local process

    def version(self) -> str:
        """The engine version this launcher runs, as written in the manifest."""

    def launch(self, stack: Stack, place: Place) -> Launch:
        """The engine's command line and files for a stack. Pure. Raises ConfigFault where it cannot be."""


def diagnose(tail: Iterable[str], deaths: Sequence[Death]) -> Death | None:
    """The first of `deaths`, in the table's order, whose pattern is in a line of `tail`; or None."""
    lines = list(tail)
    return next((death for death in deaths if any(re.search(death.pattern, line) for line in lines)), None)
