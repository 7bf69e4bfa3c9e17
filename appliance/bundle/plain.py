"""Files of a bundle, which nobody vouches for yet: read without following links, and never more than is due."""

import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from appliance.core.errors import MachineFault, Mismatch
from appliance.models.parallel import Stopped

CHUNK = 1 << 20


def hash_plain(file: Path, moved: Callable[[int], None], stop: threading.Event) -> str:
    """The sha256 of a plain file, which is no link. Raises OSError, Stopped."""
    digest = hashlib.sha256()
    with open_plain(file) as stream:
        while chunk := stream.read(CHUNK):
            if stop.is_set():
                raise Stopped
            digest.update(chunk)
            moved(len(chunk))
    return digest.hexdigest()


def open_plain(file: Path) -> io.FileIO:
    """A file for reading, not followed where it is a link."""
    return io.FileIO(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))


def small(file: Path, most: int) -> bytes | None:
    """The content of a plain file of at most `most` bytes; None where there is nothing. Raises Mismatch,
    MachineFault."""
    try:
        told = file.lstat()
        if not stat.S_ISREG(told.st_mode) or told.st_size > most:
            raise Mismatch(f"{file} is not what a bundle has there", "it is no plain file, or far too large",
                           "get the bundle anew")  # fmt: skip
        with open_plain(file) as stream:
            return stream.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(file, error) from None


def unreadable(path: Path, error: OSError) -> MachineFault:
    return MachineFault(f"{path} cannot be read", error.strerror or str(error),
                        "see to the medium (dmesg tells of read errors) and to the rights")  # fmt: skip
