"""What a runtime is: it starts a release, says what it sees of it, gives its logs, and stops it."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from appliance.supervise.status import Status


@dataclass(frozen=True)
class Observed:
    """What is there of a stack right now.

    `exists`: something of it is there, running or ended. `digest` is that of the release it was started from.
    `restarts`: how often the runtime itself started it again. `where` names it for a person and for
    `status --json`: pid, or container and image ids.
    """

    exists: bool = False
    alive: bool = False
    digest: str | None = None
    status: Status | None = None
    exit_code: int | None = None
    restarts: int = 0
    where: Mapping[str, str] = field(default_factory=dict)


ABSENT = Observed()


class Runtime(Protocol):
    """One stack on one runtime."""

    name: str

    def start(self, folder: Path, digest: str) -> None:
        """Start the release in `folder`. Raises MachineFault or EngineDied where it cannot be started."""

    def observe(self) -> Observed:
        """What is there. Cheap enough to ask several times a second."""

    def stop(self) -> bool:
        """End and remove all that was started, and only that. False where nothing was there."""

    def logs(self, *, follow: bool, lines: int | None) -> Iterator[str]:
        """The engine's lines, the last `lines` first; following ends when the engine ends."""


_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
              "LD_LIBRARY_PATH", "VIRTUAL_ENV")  # fmt: skip


def plain_environment() -> dict[str, str]:
    """The environment an engine gets: what a program needs to run, and none of the user's secrets."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
