"""Texts for messages: whatever is shown stays on one line, can be shown, and is not long."""

import reprlib
from typing import Any

_LONGEST = 300
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def one_line(text: str) -> str:
    """The text on one line, cut where it is long, with a ? for each character that cannot be shown."""
    plain = "".join(mark if mark.isprintable() else "?" for mark in " ".join(text.split()))
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


def shown(value: Any) -> str:
    """A value as Python writes it, shortened; on one line, since control characters are written as escapes."""
    return _SHORT.repr(value)


def printable(text: str) -> str:
    """The text as it is. Raises ValueError where it has control characters, lone surrogates or the like."""
    if not text.isprintable():
        odd = next(mark for mark in text if not mark.isprintable())
        raise ValueError(f"it has a character that cannot be shown: {odd!r}")
    return text
