"""Import a bundle: all of it is checked, then images one at a time, models, vocabulary; and a line is kept of it."""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.bundle.check import Opened, problems, refused
from appliance.bundle.journal import journal
from appliance.bundle.load import expected, is_here, load
from appliance.bundle.manifest import BundledImage, NamedFile
from appliance.bundle.place import place_file, place_model, place_vocabulary
from appliance.catalog.stack import Paths
from appliance.core.errors import MachineFault
from appliance.core.talk import Talk
from appliance.machine.docker import docker_root

AUDIT = "imports.jsonl"


@dataclass(frozen=True)
class Receipt:
    """What came of an import: the manifest by its sha256, who signed it, and what is in place now."""

    manifest: str
    key: str | None
    presets: tuple[str, ...]
    images: tuple[str, ...]
    models: tuple[str, ...]


def receive(opened: Opened, platform: str, paths: Paths, jobs: int, talk: Talk) -> Receipt:
    """Check a bundle and put all of it in place. What is there already stays, and what a run that was ended put in
    place is not done again. Nothing of the bundle's folder is changed.

    Raises Mismatch (not whole), MachineFault (platform, room, docker), FetchFault (its parent is not here).
    """
    bundle, folder = opened.bundle, opened.folder
    if bundle.platform != platform:
        raise MachineFault(
            f"the bundle {folder} is for another machine", f"it is for {bundle.platform}, this is {platform}",
            f"make one with --platform {platform}",
        )  # fmt: skip
    with _only_one(paths.state):
        found = problems(opened, jobs, journal(paths.state, opened.digest), talk.progress)
        if found:
            raise refused(opened, found)
        _check_room(opened, paths)
        for image in bundle.images:
            _load(opened, image, paths.state, talk)
        _place(opened, paths, talk)
        receipt = Receipt(
            opened.digest,
            opened.key,
            tuple(one.name for one in bundle.presets),
            tuple(one.reference for one in bundle.images),
            (*(one.repo for one in bundle.models), *(one.path for one in bundle.files)),
        )
        _audit(paths.state, receipt)
    return receipt


def _load(opened: Opened, image: BundledImage, state: Path, talk: Talk) -> None:
    wanted = expected(opened.folder, opened.bundle, image)
    if is_here(image, wanted):
        talk.say(f"image {image.reference} is here already")
        return
    total, done = sum(one.bytes for one in image.layers), 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        talk.progress(f"loading {image.reference}", min(done, total - 1), total)

    load(opened.folder, opened.bundle, image, wanted, state, moved)
    talk.say(f"image {image.reference} is loaded")


def _place(opened: Opened, paths: Paths, talk: Talk) -> None:
    bundle, folder = opened.bundle, opened.folder
    every: list[NamedFile] = [
        *bundle.files,
        *bundle.vocabulary,
        *(file for one in bundle.models for file in one.files),
    ]
    total, done = sum(one.bytes for one in every), 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        talk.progress("putting models in place", min(done, total - 1), total)

    try:
        for file in bundle.files:
            place_file(folder, bundle, file, paths.models / file.path, moved)
        for model in bundle.models:
            place_model(folder, bundle, model, paths.hub, talk.say, moved)
        for file in bundle.vocabulary:
            place_vocabulary(folder, bundle, file, paths.harmony / file.path, moved)
    except OSError as error:
        raise MachineFault(
            f"{error.filename or paths.models} cannot be written", error.strerror or str(error),
            "see to its rights and the disk, and import again: what is in place stays",
        ) from None  # fmt: skip


def _check_room(opened: Opened, paths: Paths) -> None:
    """Raise MachineFault where a disk is too small, before anything is put there. Docker writes an image twice: what
    it was given, and what it unpacks of that."""
    bundle, asked = opened.bundle, dict[int, list[tuple[str, Path, int]]]()
    here = {
        paths.models: [(paths.models / one.path, one.bytes) for one in bundle.files],
        paths.hub: [
            (paths.hub / f"models--{model.repo.replace('/', '--')}" / "blobs" / one.cached, one.bytes)
            for model in bundle.models
            for one in model.files
        ],
    }
    for folder, files in here.items():
        missing = sum(size for file, size in files if not file.exists())
        _ask(asked, "models", folder, missing)
    largest = max((sum(one.unpacked for one in image.layers) for image in bundle.images), default=0)
    absent = [image for image in bundle.images if not is_here(image, expected(opened.folder, bundle, image))]
    if absent and (root := docker_root()):
        every = sum(one.unpacked for image in absent for one in image.layers)
        _ask(asked, "docker", root, every + largest)
    for wishes in asked.values():
        needed, free = sum(size for _, _, size in wishes), shutil.disk_usage(wishes[0][1]).free
        if needed > free:
            told = ", ".join(
                f"{label} in {folder}: {size / 1e9:.2f} GB" for label, folder, size in wishes if size
            )
            raise MachineFault(
                f"the disk under {wishes[0][1]} is too small for the bundle", f"{told}; {free / 1e9:.2f} GB are free",
                "free some, or move the folders: paths.hub, paths.models",
            )  # fmt: skip


def _ask(asked: dict[int, list[tuple[str, Path, int]]], label: str, folder: Path, size: int) -> None:
    place = next(one for one in (folder, *folder.parents) if one.exists())
    asked.setdefault(place.stat().st_dev, []).append((label, place, size))


@contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """One import at a time. Raises MachineFault where another one runs."""
    folder = state / "bundles"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise MachineFault(
            "another import is at work", f"it holds {folder / 'lock'}", "wait for it"
        ) from None


def _audit(state: Path, receipt: Receipt) -> None:
    line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "uid": os.getuid(), "event": "import"}
    with (state / AUDIT).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line | vars(receipt)) + "\n")
