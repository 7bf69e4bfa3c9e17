"""What is known of a model file on the disk: written after it was checked, so that it is hashed only once."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.core.paths import write_atomic

CHUNK = 1 << 20


@dataclass(frozen=True)
class Record:
    """A checked file: its content, and the size in bytes and mtime by which a change would be noticed."""

    sha256: str
    bytes: int
    mtime_ns: int


def path_of(file: Path) -> Path:
    """Where the record of a model file is."""
    return file.with_name(f".{file.name}.checked")


def read(file: Path) -> Record | None:
    """The record of a file, where the file is still as it was when it was checked; else None."""
    try:
        record = Record(**json.loads(path_of(file).read_text(encoding="utf-8")))
        seen = file.stat()
    except (OSError, ValueError, TypeError):
        return None
    return record if (seen.st_size, seen.st_mtime_ns) == (record.bytes, record.mtime_ns) else None


def write(file: Path, sha256: str) -> None:
    """Record that a file was checked. Raises OSError."""
    seen = file.stat()
    text = json.dumps(asdict(Record(sha256, seen.st_size, seen.st_mtime_ns)), sort_keys=True)
    write_atomic(path_of(file), text + "\n")


def hash_file(file: Path, progress: Callable[[int], None] = lambda _: None) -> str:
    """The sha256 of a file, in hex; `progress` hears the bytes done. Raises OSError."""
    digest, done = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress(done)
    return digest.hexdigest()
