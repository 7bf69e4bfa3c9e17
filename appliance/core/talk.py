"""How rooms speak to a person without printing: only the command line prints."""

from typing import Protocol


class Talk(Protocol):
    """Lines and progress, for standard error."""

    def say(self, line: str) -> None:
        """A line of what is happening."""

    def command(self, line: str) -> None:
        """A command that is being run, such that a person could paste it."""

    def progress(self, label: str, done: int, total: int | None) -> None:
        """How far a transfer is, in bytes; `done == total` ends it."""

    def phase(self, text: str) -> None:
        """Where something long stands; the same text again is no news."""
