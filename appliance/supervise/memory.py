"""How much memory the machine can still give, as its kernel sees it: the GPU's share too where memory is unified.

Standard library only: this file also runs inside every engine image.
"""

from pathlib import Path

MEMINFO = Path("/proc/meminfo")  # the host's, in a container too


def available() -> int | None:
    """MemAvailable in bytes; None where the kernel does not say."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
