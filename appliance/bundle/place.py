"""Models and vocabulary of a bundle into their folders, as if they had been fetched: each file whole or not at all."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.bundle.contents import read
from appliance.bundle.manifest import Blob, Bundle, HubBlob, HubModel, NamedFile
from appliance.core.errors import FetchFault
from appliance.models import record
from appliance.models.folder import make
from appliance.models.hub_files import HubFile, Record, digest_of, named_hash, write_record
from appliance.models.hub_shelf import opened, set_main
from appliance.models.place import hub_folder

Moved = Callable[[int], None]
Say = Callable[[str], None]


def place_file(folder: Path, bundle: Bundle, file: NamedFile, target: Path, moved: Moved) -> None:
    """A file at its place, unless it is there. Raises FetchFault (nor in the bundle), Mismatch, OSError."""
    known = record.read(target)
    if known is None or known.sha256 != file.sha256:
        if not _same(target, file):
            _written(folder, bundle, file, target, moved)
        record.write(target, file.sha256)


def place_model(folder: Path, bundle: Bundle, model: HubModel, hub: Path, say: Say, moved: Moved) -> None:
    """A snapshot in the hub's cache, with its record; refs/main names it. Raises as `place_file` does."""
    cache = hub / hub_folder(model.repo)
    snapshot = cache / "snapshots" / model.revision
    with opened(cache, say):
        for file in model.files:
            blob = cache / "blobs" / file.cached
            if not (blob.is_file() and _is(blob, file)):
                _written(folder, bundle, file, blob, moved)
            _linked(snapshot / file.path, blob)
        checked = {file.path: (snapshot / file.path).stat().st_mtime_ns for file in model.files}
        write_record(
            cache, Record(model.repo, model.revision, model.origin, tuple(map(_known, model.files)), checked)
        )
        set_main(cache, model.revision)


def place_vocabulary(folder: Path, bundle: Bundle, file: NamedFile, target: Path, moved: Moved) -> None:
    """A file of the vocabulary, which has no record: it is hashed before each start."""
    if not _same(target, file):
        _written(folder, bundle, file, target, moved)


def _known(file: HubBlob) -> HubFile:
    named = named_hash(file.cached)
    assert named, "the manifest lets only hashes through"
    return HubFile(file.path, file.bytes, *named)


def _is(blob: Path, file: HubBlob) -> bool:
    """Whether a blob of the cache has the content that its name says."""
    named = named_hash(file.cached)
    return named is not None and blob.stat().st_size == file.bytes and digest_of(blob, named[0]) == named[1]


def _same(target: Path, file: NamedFile) -> bool:
    return (
        target.is_file() and target.stat().st_size == file.bytes and record.hash_file(target) == file.sha256
    )


def _linked(link: Path, blob: Path) -> None:
    """The snapshot's file: a link to its blob, as the hub's library lays it."""
    make(link.parent)
    if link.is_symlink() and link.resolve() == blob.resolve():
        return
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(os.path.relpath(blob, link.parent))
    fresh.replace(link)


def _written(folder: Path, bundle: Bundle, file: NamedFile, target: Path, moved: Moved) -> None:
    """A content out of the bundle, put in place when all of it is on the disk and right."""
    if file.sha256 not in bundle.carried:
        raise FetchFault(
            f"{target} is not here, and this bundle does not bring it",
            f"it holds what has changed since the one before it (manifest {bundle.parent})",
            "import that one first",
        )
    make(target.parent)
    fresh = target.with_name(f".{target.name}.import.incomplete")
    try:
        with fresh.open("wb") as stream:
            os.fchmod(stream.fileno(), 0o644)  # the engine's user is another one
            for chunk in _heard(read(folder, bundle, Blob(sha256=file.sha256, bytes=file.bytes)), moved):
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _heard(chunks: Iterator[bytes], moved: Moved) -> Iterator[bytes]:
    for chunk in chunks:
        moved(len(chunk))
        yield chunk
