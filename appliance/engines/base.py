"""What an engine is to the rest of the house: tables and pure functions. The loops are elsewhere."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from appliance.catalog.entries import Entry
from appliance.catalog.stack import RuntimeName, Stack
from appliance.supervise.plan import CounterTable, Phase

CONTAINER_HARMONY = "/harmony"  # the harmony vocabulary, where an engine needs it


@dataclass(frozen=True)
class Place:
    """Where an engine will run, as it will see it: inside a container or on the host itself.

    `target` and `draft` are paths of the model files, or of a hub's snapshot folders; `programs` is the folder
    with our own engine programs, `config` the one with the files of its launch, `state` one it may write to;
    `host` and `port` are what the engine binds.
    """

    python: str
    programs: str
    config: str
    state: str
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


@dataclass(frozen=True)
class Pair:
    """The models of a stack, as the catalog knows them."""

    target: Entry
    draft: Entry | None


class Engine(Protocol):
    """One engine's tables. A module in this room offers one instance, named ENGINE."""

    name: str
    formats: tuple[str, ...]  # of models that it reads
    runtimes: tuple[RuntimeName, ...]
    gpu: bool  # whether it needs one
    health_path: str
    chat_path: str
    counters: CounterTable | None
    phases: tuple[Phase, ...]
    deaths: tuple[Death, ...]
    local_modules: tuple[str, ...]  # Python modules that it needs where it runs as a local process

    def version(self, stack: Stack) -> str:
        """The engine version that serves this stack, as written in the manifest and as its image is tagged."""

    def check(self, stack: Stack, pair: Pair) -> tuple[str, ...]:
        """Warnings about a stack. Pure. Raises ConfigFault where this version of the engine cannot serve it."""

    def launch(self, stack: Stack, pair: Pair, place: Place) -> Launch:
        """The engine's command line and files for a stack that passed `check`. Pure."""


def diagnose(tail: Iterable[str], deaths: Sequence[Death]) -> Death | None:
    """The first of `deaths`, in the table's order, whose pattern is in a line of `tail`; or None."""
    lines = list(tail)
    return next((death for death in deaths if any(re.search(death.pattern, line) for line in lines)), None)
