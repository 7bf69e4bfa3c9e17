"""A checkpoint's folder into the hub's cache, as if its hub had given it: a trained head, a model that was copied."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from appliance.core.errors import ConfigFault, FetchFault, MachineFault, UsageFault
from appliance.core.text import shown
from appliance.models.folder import check_room
from appliance.models.hub import lacking
from appliance.models.hub_files import HubFile, Record, digest_of, write_record
from appliance.models.hub_shelf import opened, place, set_main
from appliance.models.place import hub_folder

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]
OWN = "local"  # the organisation of models that have no name of a hub
REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def name_of(folder: Path) -> str:
    """The name of a folder's model where none is given: its own, below `local`. Raises UsageFault."""
    own = re.sub(r"[^\w.-]+", "-", folder.resolve().name, flags=re.ASCII).strip("-._")
    if not own:
        raise UsageFault(
            f"{shown(str(folder))} gives no name", "it has no letter in it", "add --name ORG/NAME"
        )
    return f"{OWN}/{own}"


def add(source: Path, repo: str, hub: Path, say: Say, progress: Progress) -> Path:
    """The snapshot made of a folder's files: hard links where that can be, else copies; whole or not at all, and its
    revision is made of its content. Returns its path.

    Raises UsageFault (name), ConfigFault (no whole checkpoint; the name is taken), MachineFault, NoProgress.
    """
    if not REPO.fullmatch(repo) or "--" in repo:
        raise UsageFault(f"a model cannot be called {shown(repo)}", "a name is ORG/NAME, of letters, digits, . _ and -",
                         "add --name ORG/NAME")  # fmt: skip
    _check(source)
    try:
        return _add(source, repo, hub / hub_folder(repo), say, progress)
    except OSError as error:
        raise MachineFault(f"{source} cannot be added as {repo}", str(error),
                           "see to the rights of both folders and to the disk") from error  # fmt: skip


def _check(source: Path) -> None:
    try:
        why = lacking(source) if source.is_dir() else "a folder to be"
    except OSError as error:
        raise MachineFault(f"{source} cannot be read", str(error), "see to its rights") from error
    if why:
        raise ConfigFault(f"{source} is no whole checkpoint", f"it lacks {why}",
                          "name the folder with config.json and the weights")  # fmt: skip


def _add(source: Path, repo: str, folder: Path, say: Say, progress: Progress) -> Path:
    paths = _paths(source)
    files = _hashed(source, paths, progress)
    text = "".join(f"{file.digest}  {file.path}\n" for file in files)
    revision = hashlib.sha256(text.encode()).hexdigest()[:40]
    snapshot = folder / "snapshots" / revision
    with opened(folder, say):
        _check_free(folder, repo, revision)
        if not snapshot.is_dir():
            fresh = folder / "snapshots" / f".{revision}.new"
            shutil.rmtree(fresh, ignore_errors=True)
            _lay(source, files, folder, fresh)
            fresh.replace(snapshot)
        checked = {file.path: (snapshot / file.path).stat().st_mtime_ns for file in files}
        write_record(folder, Record(repo, revision, "folder", files, checked))
        set_main(folder, revision)
    return snapshot


def _check_free(folder: Path, repo: str, revision: str) -> None:
    """Raise ConfigFault where the name belongs to another model that is here."""
    others = [one.name for one in (folder / "snapshots").glob("[!.]*") if one.name != revision]
    if others:
        raise ConfigFault(f"{repo} is here already, with other content", f"its revision {others[0]}",
                          f"give another name, or remove that one: spark-spec models rm {repo}")  # fmt: skip


def _paths(source: Path) -> list[str]:
    """The files to take, below the folder: no hidden ones, which are of tools."""
    found = []
    for where, folders, names in os.walk(source):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [str((Path(where) / name).relative_to(source)) for name in names if not name.startswith(".")]
    for path in found:
        if not (source / path).is_file() or not path.isprintable() or "\\" in path:
            raise ConfigFault(f"{shown(path)} cannot be taken from {source}", "it is no plain file, or oddly called",
                              "move it out of the folder")  # fmt: skip
    return sorted(found)


def _hashed(source: Path, paths: list[str], progress: Progress) -> tuple[HubFile, ...]:
    sizes = {path: (source / path).stat().st_size for path in paths}
    total, done = sum(sizes.values()), 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        progress(f"reading {source.name}", min(done, total - 1), total)

    files = tuple(
        HubFile(path, sizes[path], "sha256", digest_of(source / path, "sha256", moved)) for path in paths
    )
    progress(f"reading {source.name}", total, total)
    return files


def _lay(source: Path, files: tuple[HubFile, ...], folder: Path, snapshot: Path) -> None:
    """The blobs, and a snapshot of links to them. A content that changes meanwhile is a fault."""
    blobs = folder / "blobs"
    blobs.mkdir(exist_ok=True)
    if source.stat().st_dev != blobs.stat().st_dev:
        check_room(blobs, sum(file.bytes for file in files), source.name)
    for file in files:
        blob, fresh = blobs / file.digest, blobs / f"{file.digest}.add.incomplete"
        if not blob.exists():
            fresh.unlink(missing_ok=True)
            place((source / file.path).resolve(), fresh)
            if fresh.stat().st_size != file.bytes:
                raise FetchFault(f"{source / file.path} changed while it was added", "it has another size now",
                                 "add the folder when nobody writes into it")  # fmt: skip
            fresh.replace(blob)
        link = snapshot / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        # One level up for each folder down: the link is laid where the snapshot will be.
        link.symlink_to(Path(*[".."] * (2 + file.path.count("/")), "blobs", file.digest))
