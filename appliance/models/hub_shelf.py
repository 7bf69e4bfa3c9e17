"""A repository's folder in the hub's cache: may it be written, and what others left in it."""

import contextlib
import fcntl
import glob
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.core.paths import write_atomic
from appliance.models.folder import check_writable, make, megabytes, not_ours, only_one

Say = Callable[[str], None]


@contextlib.contextmanager
def opened(folder: Path, say: Say) -> Iterator[None]:
    """Hold the lock of a repository's folder, which is made where it is not there; nobody else of us fetches,
    adds or removes it meanwhile. Raises MachineFault, before anything else, where it may not be written;
    NoProgress where another holds the lock for too long."""
    hub = folder.parent
    check_ours(folder)
    make(folder)
    make(hub / ".locks")
    with only_one(hub / ".locks" / folder.name, say, lambda: _weight(folder)):
        yield


def _weight(folder: Path) -> int:
    """Bytes in the blobs: while they grow, whoever fetches them is alive."""
    total = 0
    for blob in (folder / "blobs").glob("*"):
        with contextlib.suppress(OSError):
            total += blob.stat().st_size
    return total


def check_ours(folder: Path) -> None:
    """Raise MachineFault, with the command that changes it, where a part of the folder may not be written: a
    container that ran as root leaves such ones."""
    hub = folder.parent
    check_writable(hub, hub)
    parts = [hub / ".locks", hub / ".locks" / folder.name, folder]
    parts += [Path(where) for where, _, _ in os.walk(folder)]
    for part in parts:
        if part.is_dir() and not os.access(part, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise not_ours(part)


def sweep(folder: Path, say: Say) -> None:
    """Remove the half files of downloads that were killed, and say how many bytes they were. The library begins each
    file anew, so they are of no use. One that another program is writing (it holds the library's lock of that
    file) is left alone."""
    for removed in folder.parent.glob(
        f".{glob.escape(folder.name)}.removed-*"
    ):  # by a removal that was killed
        shutil.rmtree(removed, ignore_errors=True)
    locks = folder.parent / ".locks" / folder.name
    gone = 0
    for part in (folder / "blobs").glob("*.incomplete"):
        if _held(locks / f"{part.name.partition('.')[0]}.lock"):
            say(f"another program is downloading {folder.name}: {part.name} is left to it")
            continue
        gone += part.stat().st_size
        part.unlink()
    if gone:
        say(f"removed {megabytes(gone)} of files that an interrupted download left half: "
            "each of these begins anew, the hub's library cannot continue it")  # fmt: skip


def _held(lock: Path) -> bool:
    """Whether a process holds a lock file. One that we may not open is taken for held."""
    try:
        with lock.open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def strays(folder: Path) -> list[Path]:
    """Blobs whose content lies outside of the repository's folder. The library keeps contents that several
    repositories share in a store beside it, and a container sees the folder alone."""
    home = folder.resolve()
    links = [blob for blob in (folder / "blobs").glob("*") if blob.is_symlink() and blob.exists()]
    return [blob for blob in links if home not in blob.resolve().parents]


def bring_home(folder: Path, say: Say) -> None:
    """Put contents that lie outside of the folder into it: as hard links, which cost no room, else as copies."""
    found = strays(folder)
    for blob in found:
        content, fresh = blob.resolve(), blob.with_name(f"{blob.name}.home.incomplete")
        fresh.unlink(missing_ok=True)
        place(content, fresh)
        fresh.replace(blob)
    if found:
        say(f"{len(found)} files of {folder.name} lay in the hub library's shared store, outside of its folder: "
            "linked into it")  # fmt: skip


def place(content: Path, target: Path) -> None:
    """Put a file's content where it is not yet: a hard link where that can be and all may read it, else a copy that
    all may read: the engine's user is another one. Raises OSError."""
    if content.stat().st_mode & 0o044 == 0o044:
        with contextlib.suppress(OSError):
            target.hardlink_to(content)
            return
    shutil.copyfile(content, target)
    target.chmod(0o644)


def discard(folder: Path, revision: str, path: str) -> None:
    """Remove a file of a snapshot with its content."""
    pointer = folder / "snapshots" / revision / path
    with contextlib.suppress(OSError):
        pointer.resolve(strict=True).unlink()
    pointer.unlink(missing_ok=True)


def set_main(folder: Path, revision: str) -> None:
    """Let refs/main name a revision. Raises OSError."""
    make(folder / "refs")
    write_atomic(folder / "refs" / "main", revision)
