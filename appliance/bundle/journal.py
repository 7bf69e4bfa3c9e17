"""What was hashed of a bundle, so that an import after a check does not read 200 GB again."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from appliance.core.paths import write_atomic


@dataclass(frozen=True)
class Stamp:
    """What changes with a file's content: its size in bytes, its times, its place."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, file: Path) -> "Stamp":
        """That of a file. Raises OSError."""
        told = file.lstat()
        return cls(told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino, told.st_dev)


class Journal:
    """Which files of one bundle were hashed and how they looked then, kept in the state folder: an import after a
    check, or after one that was killed, does not read the medium again. A file that looks otherwise is hashed anew."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known: dict[str, tuple[Stamp, str]] = {}
        try:
            said = json.loads(path.read_text(encoding="utf-8")) if path else {}
            self._known = {name: (Stamp(*stamp), str(digest)) for name, (stamp, digest) in said.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._known = {}  # without it all is hashed

    def holds(self, path: str, file: Path, sha256: str) -> bool:
        """Whether a file was found to have this content, and looks as it did then."""
        return self.known(path, file) == sha256

    def known(self, path: str, file: Path) -> str | None:
        """What a file's content was found to be, where it looks as it did then."""
        known = self._known.get(path)
        try:
            return known[1] if known and known[0] == Stamp.of(file) else None
        except FileNotFoundError:
            return None

    def keep(self, path: str, stamp: Stamp, sha256: str) -> None:
        """A file that looked so was found to have this content."""
        with self._lock:
            self._known[path] = (stamp, sha256)

    def save(self) -> None:
        """Write it; where that cannot be, the next check reads all."""
        if self._path is None:
            return
        said = {
            name: [[one.size, one.mtime_ns, one.ctime_ns, one.inode, one.device], digest]
            for name, (one, digest) in sorted(self._known.items())
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, json.dumps(said))
        except OSError:
            return


def journal(state: Path, digest: str) -> Journal:
    """That of the bundle with this manifest."""
    return Journal(state / "bundles" / f"{digest}.json")
