"""The memory of this machine, which on a Spark CPU and GPU share, and the page cache that files take of it."""

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import MachineFault
from appliance.supervise.memory import MEMINFO, fields

WINDOW = 1 << 30  # bytes of a file that are looked at at a time


@dataclass(frozen=True)
class Memory:
    """Bytes: all there is, what can be had without swapping, and how much of it is free at this moment. Most of the
    page cache is in the second already, and not in the third (proc(5), MemAvailable)."""

    total: int
    available: int
    free: int


def read_memory(path: Path = MEMINFO) -> Memory:
    """The memory of this machine. nvidia-smi does not know it on a Spark. Raises MachineFault."""
    try:
        return parse_meminfo(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise MachineFault("this machine does not tell its memory", str(error), f"see {path}") from None


def parse_meminfo(text: str) -> Memory:
    """What /proc/meminfo says. Raises ValueError where it lacks a line."""
    found = fields(text)
    try:
        return Memory(found["MemTotal"], found["MemAvailable"], found["MemFree"])
    except KeyError as error:
        raise ValueError(f"there is no line {error.args[0]}") from None


def cached_bytes(path: Path) -> int | None:
    """How much of a file lies in the page cache; None where that may not be known: the kernel tells the owner, or
    who may write it (mincore(2))."""
    try:
        with path.open("rb") as stream:
            told = os.fstat(stream.fileno())
            if told.st_uid != os.geteuid() and not os.access(path, os.W_OK):
                return None
            return sum(
                _resident(stream.fileno(), start, min(WINDOW, told.st_size - start))
                for start in range(0, told.st_size, WINDOW)
            )
    except OSError:
        return None


def give_back(paths: Iterable[Path]) -> None:
    """Ask the kernel to drop files from the page cache. It needs no root, and harms nobody: what is mapped stays.
    What cannot be opened is left."""
    for path in paths:
        with contextlib.suppress(OSError), path.open("rb") as stream:
            os.fdatasync(stream.fileno())  # what is not on the disk yet cannot be dropped
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _resident(descriptor: int, start: int, length: int) -> int:
    """Bytes of a part of a file that are in memory, by mincore(2) on a mapping that touches none of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        pages = -(-length // mmap.PAGESIZE)
        seen = ctypes.create_string_buffer(pages)
        if libc.mincore(address, length, seen):
            raise OSError(ctypes.get_errno(), "mincore")
        inside = sum(byte & 1 for byte in seen.raw)
        return min(inside * mmap.PAGESIZE, length)
    finally:
        libc.munmap(address, length)
