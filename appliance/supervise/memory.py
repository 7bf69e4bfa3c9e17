"""How much memory the machine can still give, as its kernel sees it: the GPU's share too where memory is unified.

Standard library only: this file also runs inside every engine image.
"""

import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")  # the host's, in a container too


def fields(text: str) -> dict[str, int]:
    """The bytes that /proc/meminfo tells, by its own names (proc(5)); what it counts otherwise is left out."""
    return {name: int(count) * 1024 for name, count in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}


def available() -> int | None:
    """MemAvailable in bytes; None where the kernel does not say."""
    try:
        return fields(MEMINFO.read_text(encoding="ascii")).get("MemAvailable")
    except (OSError, ValueError):
        return None
