"""The files of a repository of the hub: which an engine needs, what they should be, and what was found of them.

The hub names each file's content by a hash: sha256 for what lies in its large-file storage, git's own sha1 for the
rest. In the cache the blobs have these hashes as names.
"""

import fnmatch
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault
from appliance.core.paths import write_atomic
from appliance.core.text import shown
from appliance.models.record import CHUNK

Algorithm = Literal["sha256", "git-sha1"]
Origin = Literal["hub", "folder"]

SCHEMA = 1
_SHA256, _SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubFile:
    """A file of a snapshot: its path there, its size in bytes, and the hash that it should have."""

    path: str
    bytes: int
    algorithm: Algorithm
    digest: str


@dataclass(frozen=True)
class Listing:
    """What the hub says of one revision of a repository: all its files, its licence and gating as far as told."""

    repo: str
    revision: str
    files: tuple[HubFile, ...]
    license: str | None
    gated: bool | None

    def wanted(self, source: HubSource) -> tuple[HubFile, ...]:
        """The files an engine needs, small ones first. Raises FetchFault where there are none."""
        found = [file for file in self.files if needed(file.path, source)]
        if not found:
            raise FetchFault(
                f"{self.repo} has none of the files that an engine reads",
                f"at {self.revision} nothing there is called {' or '.join(source.files)}",
                "see what the repository holds; the catalog's `files` name what is taken of it",
            )
        return tuple(sorted(found, key=lambda file: (file.bytes, file.path)))


@dataclass(frozen=True)
class Record:
    """What is known of a snapshot here: its files, and the mtime of those that were checked and found right."""

    repo: str
    revision: str
    origin: Origin
    files: tuple[HubFile, ...]
    checked: dict[str, int]


def needed(path: str, source: HubSource) -> bool:
    """Whether an engine reads a file. A * stands for any characters of one name, so `*.json` means those in the
    repository's root: copies for other programs lie in folders."""
    names = path.split("/")

    def any_of(patterns: Iterable[str]) -> bool:
        return any(_matches(names, pattern.split("/")) for pattern in patterns)

    return any_of(source.files) and not any_of(source.unneeded)


def _matches(names: list[str], patterns: list[str]) -> bool:
    return len(names) == len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))


def safe(path: str) -> str:
    """The path as it is. Raises FetchFault where it would lead out of its folder."""
    parts = PurePosixPath(path).parts
    if not path.isprintable() or "\\" in path or path.startswith("/") or ".." in parts or not parts:
        raise FetchFault(f"the hub lists a file called {shown(path)}", "no file may be called so",
                         "use another repository")  # fmt: skip
    return path


def named_hash(name: str) -> tuple[Algorithm, str] | None:
    """The hash that a blob's name is; None where it is none."""
    if _SHA256.fullmatch(name):
        return "sha256", name
    return ("git-sha1", name) if _SHA1.fullmatch(name) else None


def digest_of(file: Path, algorithm: Algorithm, moved: Callable[[int], None] = lambda _: None) -> str:
    """The hash of a file, in hex; `moved` hears of each piece's bytes. Raises OSError."""
    buffer = memoryview(bytearray(CHUNK))
    with file.open("rb", buffering=0) as stream:
        if algorithm == "sha256":
            digest = hashlib.sha256()
        else:
            digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
            moved(count)
    return digest.hexdigest()


def record_path(folder: Path, revision: str) -> Path:
    """Where the record of a snapshot is, in its models--org--name."""
    return folder / ".spark-spec" / f"{revision}.json"


def read_record(folder: Path, revision: str) -> Record | None:
    """The record of a snapshot; None where there is none that can be used."""
    try:
        raw = json.loads(record_path(folder, revision).read_text(encoding="utf-8"))
        if raw.pop("schema") != SCHEMA:
            return None
        return Record(
            **raw | {"files": tuple(HubFile(**one) for one in raw["files"]), "checked": dict(raw["checked"])}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_record(folder: Path, record: Record) -> None:
    """Replace the record in one step. Raises OSError."""
    path = record_path(folder, record.revision)
    path.parent.mkdir(exist_ok=True, parents=True)
    write_atomic(path, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1) + "\n")


def forget(folder: Path, record: Record, paths: Iterable[str]) -> None:
    """Record that these files are not known to be right. Raises OSError."""
    gone = set(paths)
    write_record(folder, replace(record, checked={k: v for k, v in record.checked.items() if k not in gone}))


def unchecked(folder: Path, record: Record) -> list[HubFile]:
    """The files that are not here as they were when they were checked."""
    snapshot = folder / "snapshots" / record.revision

    def same(file: HubFile) -> bool:
        try:
            seen = (snapshot / file.path).stat()
        except OSError:
            return False
        return (seen.st_size, seen.st_mtime_ns) == (file.bytes, record.checked.get(file.path))

    return [file for file in record.files if not same(file)]
