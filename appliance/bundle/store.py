"""The blobs of a bundle that is being written: each appears whole or not at all, cut where the medium wants it.

What a run that was ended left whole is kept by the next; half files are not.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from appliance.bundle.journal import Journal, Stamp
from appliance.bundle.layout import BLOBS, blob_path
from appliance.bundle.manifest import Blob
from appliance.bundle.plain import CHUNK, open_plain
from appliance.core.errors import MachineFault, Mismatch

FRESH = ".new-"
Moved = Callable[[int], None]


def _silent(_count: int) -> None:
    """Nobody listens."""


class Store:
    """A folder's blobs. `parts` are those of the blobs that were cut, in order."""

    def __init__(self, folder: Path, part_bytes: int, seen: Journal) -> None:
        self.folder, self._part_bytes, self._seen = folder, part_bytes, seen
        self.parts: dict[str, tuple[Blob, ...]] = {}
        self.held: set[str] = set()

    def open(self) -> None:
        """Make the folder, and remove the half files of a run that was ended. Raises OSError."""
        blobs = self.folder / BLOBS
        blobs.mkdir(parents=True, exist_ok=True)
        for stale in blobs.glob(f"{FRESH}*"):
            stale.unlink()

    def holds(self, blob: Blob, moved: Moved = _silent) -> bool:
        """Whether a content lies here whole; it is hashed where the journal does not know it. Raises OSError."""
        if blob.sha256 in self.held:
            return True
        sizes = self._sizes(blob.bytes)
        names = [blob_path(blob.sha256, number if len(sizes) > 1 else None) for number in range(len(sizes))]
        files = [self.folder / name for name in names]
        if any(
            not file.is_file() or file.stat().st_size != size for file, size in zip(files, sizes, strict=True)
        ):
            return False
        known = [self._seen.known(name, file) for name, file in zip(names, files, strict=True)]
        digests = [one for one in known if one] if all(known) else self._hashed(blob, names, moved)
        if digests:
            self._keep(blob, [Blob(sha256=one, bytes=size) for one, size in zip(digests, sizes, strict=True)])
        return bool(digests)

    def put(self, chunks: Iterable[bytes], expected: Blob, moved: Moved = _silent) -> None:
        """Write a content that is known. Raises Mismatch where it is not the expected one, OSError."""
        with self.writing() as cut:
            for chunk in chunks:
                cut.write(chunk)
                moved(len(chunk))
            found = cut.finish()
            if found != expected:
                raise Mismatch(
                    "a file changed while it was read",
                    f"its sha256 is {found.sha256} ({found.bytes} bytes), not {expected.sha256} ({expected.bytes})",
                    "see that nothing writes to it, check it (spark-spec models verify), and run this again",
                )
            self.keep(cut)

    @contextlib.contextmanager
    def writing(self) -> "Iterator[Cut]":
        """A content on its way here; what was not given to `keep` is gone afterwards."""
        cut = Cut(self.folder / BLOBS, self._part_bytes)
        try:
            yield cut
        finally:
            cut.discard()

    def keep(self, cut: "Cut") -> Blob:
        """Give a finished content its name. Raises OSError."""
        blob = cut.finish()
        for number, (file, part) in enumerate(zip(cut.files, cut.parts, strict=True)):
            name = blob_path(blob.sha256, number if len(cut.parts) > 1 else None)
            file.replace(self.folder / name)
            self._seen.keep(name, Stamp.of(self.folder / name), part.sha256)
        self._keep(blob, cut.parts)
        self._seen.save()
        return blob

    def sweep(self) -> None:
        """Remove the blobs that nothing of this bundle names, of an earlier one in the same folder. Raises OSError."""
        named = {Path(blob_path(one)).name for one in self.held - set(self.parts)}
        named |= {
            Path(blob_path(one, number)).name
            for one, parts in self.parts.items()
            for number in range(len(parts))
        }
        for file in (self.folder / BLOBS).iterdir():
            if file.name not in named:
                file.unlink()

    def _keep(self, blob: Blob, parts: list[Blob]) -> None:
        self.held.add(blob.sha256)
        if len(parts) > 1:
            self.parts[blob.sha256] = tuple(parts)

    def _sizes(self, total: int) -> list[int]:
        whole, rest = divmod(total, self._part_bytes)
        return [self._part_bytes] * whole + ([rest] if rest or not whole else [])

    def _hashed(self, blob: Blob, names: list[str], moved: Moved) -> list[str]:
        """The digest of each part; none where together they are another content."""
        whole, digests = hashlib.sha256(), []
        for name in names:
            before, part = Stamp.of(self.folder / name), hashlib.sha256()
            with open_plain(self.folder / name) as stream:
                while chunk := stream.read(CHUNK):
                    whole.update(chunk)
                    part.update(chunk)
                    moved(len(chunk))
            digests.append(part.hexdigest())
            self._seen.keep(name, before, part.hexdigest())
        return digests if whole.hexdigest() == blob.sha256 else []


class Cut:
    """A content on its way to the disk, in parts of a size."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most
        self._whole, self._bytes = hashlib.sha256(), 0
        self.parts: list[Blob] = []
        self.files: list[Path] = []
        self._next()

    def _next(self) -> None:
        self.files.append(self._folder / f"{FRESH}{os.getpid()}-{id(self)}.{len(self.files):03d}")
        self._stream = self.files[-1].open("wb", buffering=0)
        self._part, self._room = hashlib.sha256(), self._most

    def write(self, chunk: bytes) -> None:
        """Add to it. Raises OSError."""
        self._whole.update(chunk)
        self._bytes += len(chunk)
        rest = memoryview(chunk)
        while rest:
            if not self._room:
                self._close()
                self._next()
            piece, rest = rest[: self._room], rest[self._room :]
            self._part.update(piece)
            self._room -= len(piece)
            while piece:
                piece = piece[self._stream.write(piece) or 0 :]

    def finish(self) -> Blob:
        """What was written, all of it on the disk. Raises OSError."""
        if not self._stream.closed:
            self._close()
        return Blob(sha256=self._whole.hexdigest(), bytes=self._bytes)

    def _close(self) -> None:
        os.fsync(self._stream.fileno())
        self._stream.close()
        self.parts.append(Blob(sha256=self._part.hexdigest(), bytes=self._most - self._room))

    def discard(self) -> None:
        """Remove what has not got its name."""
        self._stream.close()
        for file in self.files:
            file.unlink(missing_ok=True)


def unwritable(folder: Path, error: OSError) -> MachineFault:
    """The fault of a medium that does not take a file."""
    return MachineFault(
        f"{folder} cannot be written", f"{error.filename or folder}: {error.strerror or error}",
        "see to its room (df -h) and rights, and run this again: what is whole there is kept",
    )  # fmt: skip
