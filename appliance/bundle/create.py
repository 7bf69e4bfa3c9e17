"""Write a bundle: contents first, each whole; the manifest last, so that a folder with one is complete."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import appliance
from appliance.bundle import keys
from appliance.bundle.journal import Journal
from appliance.bundle.launcher import PYTHONS, collect
from appliance.bundle.layout import MANIFEST, SIGNATURE, SUMS, sums
from appliance.bundle.manifest import (
    LARGEST,
    Blob,
    Bundle,
    BundledImage,
    Launcher,
    NamedFile,
    parse,
    to_text,
)
from appliance.bundle.pack import pack
from appliance.bundle.plain import CHUNK, small
from appliance.bundle.store import FRESH, Store, unwritable
from appliance.bundle.wanted import Wanted, room
from appliance.core.errors import ConfigFault, MachineFault
from appliance.core.paths import data
from appliance.core.talk import Talk
from appliance.images.local import find

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MARK = ".spark-spec-bundle"  # in a folder that is being written
PLAIN = ("install.py", "RUNBOOK.md")
WHEELS = "wheels"


@dataclass(frozen=True)
class Order:
    """How a bundle is to be written: `extras` are the launcher's, None for no launcher at all; `parent` is the manifest
    of what the other side has already, with its bytes."""

    folder: Path
    platform: str
    part_bytes: int
    parent: tuple[Bundle, bytes] | None
    extras: tuple[str, ...] | None
    key: "Ed25519PrivateKey | None"


@dataclass(frozen=True)
class Item:
    """A thing of a bundle: its bytes (an image's before it is packed), and whether any of it has to be written."""

    kind: str
    name: str
    bytes: int
    new: bool


def items(wanted: Wanted, order: Order) -> tuple[Item, ...]:
    """What a bundle will hold, as far as is known before it is written."""
    there = set(order.parent[0].blobs()) if order.parent else set()
    found = []
    for name in wanted.images:
        here = find(name)
        new = here is None or here.id.removeprefix("sha256:") not in there
        found.append(Item("image", name, here.size if here else 0, new))
    for model in wanted.models:
        found.append(_item("model", model.repo, model.files, there))
    found += [_item("model", one.path, (one,), there) for one in wanted.files]
    found += [_item("vocabulary", one.path, (one,), there) for one in wanted.vocabulary]
    return tuple(found)


def _item(kind: str, name: str, files: Iterable[NamedFile], there: set[str]) -> Item:
    each = list(files)
    return Item(kind, name, sum(one.bytes for one in each), any(one.sha256 not in there for one in each))


def check_folder(folder: Path) -> None:
    """Raise ConfigFault where a folder has something else in it than a bundle, whole or begun."""
    if folder.exists() and not folder.is_dir():
        raise ConfigFault(f"{folder} is no folder", "a bundle is one", "name another place")
    names = {one.name for one in folder.iterdir()} if folder.is_dir() else set()
    if names and not names & {MARK, MANIFEST}:
        raise ConfigFault(f"{folder} is not empty", f"it has {sorted(names)[0]}, which is no bundle's",
                          "name a new folder below it")  # fmt: skip


def create(wanted: Wanted, order: Order, state: Path, talk: Talk) -> Bundle:
    """Write all of it. What a run that was ended left whole is kept.

    Raises ConfigFault, MachineFault (room, docker, the medium), FetchFault (wheels), Mismatch (a file changed).
    """
    folder = order.folder
    check_folder(folder)
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    store = Store(folder, order.part_bytes, Journal(state / "bundles" / f"to-{name}.json"))
    before = _earlier(folder)
    try:
        _check_room(wanted, order, before)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
        (folder / MANIFEST).unlink(missing_ok=True)  # it is not complete while it is written
        (folder / SIGNATURE).unlink(missing_ok=True)
        store.open()
        return _written(wanted, order, store, before, talk)
    except OSError as error:
        raise unwritable(folder, error) from None


def _written(wanted: Wanted, order: Order, store: Store, before: Bundle | None, talk: Talk) -> Bundle:
    there = set(order.parent[0].blobs()) if order.parent else set()
    images = tuple(_image(name, store, there, before, order, talk) for name in wanted.images)
    asked = {digest: blob for digest, blob in wanted.contents.items() if digest not in there}
    _copy(asked, wanted.sources, store, talk)
    launcher = _launcher(order, talk) if order.extras is not None else None
    bundle = Bundle(
        schema_version=1,
        appliance=appliance.__version__,
        platform=order.platform,
        presets=wanted.presets,
        parent=hashlib.sha256(order.parent[1]).hexdigest() if order.parent else None,
        models=wanted.models,
        files=wanted.files,
        vocabulary=wanted.vocabulary,
        images=images,
        launcher=launcher,
        plain=tuple(_plain(order.folder)),
        carried=(),
        parts={},
    )
    carried = tuple(sorted(store.held & set(bundle.blobs()) - there))
    bundle = bundle.model_copy(
        update={"carried": carried, "parts": {one: store.parts[one] for one in carried if one in store.parts}}
    )
    store.held.intersection_update(carried)
    store.sweep()
    _finish(bundle, order)
    return bundle


def _image(
    name: str, store: Store, there: set[str], before: Bundle | None, order: Order, talk: Talk
) -> BundledImage:
    """An image, packed; or as it was packed before, where docker says that it is the same and all of it is there."""
    earlier = [*(before.images if before else ()), *(order.parent[0].images if order.parent else ())]
    here = find(name)
    for image in earlier:
        if here and here.id == f"sha256:{image.config.sha256}" and _lies(image, store, there):
            return image.model_copy(update={"reference": name})
    size = here.size if here else 1
    known = {layer.diff_id: layer for image in earlier for layer in image.layers if layer.sha256 not in there}
    packed = pack(
        name, store, known, lambda done: talk.progress(f"packing {name}", min(done, size - 1), size)
    )
    talk.progress(f"packing {name}", size, size)
    return packed


def _lies(image: BundledImage, store: Store, there: set[str]) -> bool:
    """Whether all contents of an image are in the folder or on the other side."""
    blobs = (image.config, image.sbom, *image.layers)
    return all(one.sha256 in there or store.holds(Blob(sha256=one.sha256, bytes=one.bytes)) for one in blobs)


def _copy(asked: Mapping[str, Blob], sources: Mapping[str, Path], store: Store, talk: Talk) -> None:
    total, done = sum(one.bytes for one in asked.values()), 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        talk.progress("writing the models", min(done, total - 1), total)

    for digest, blob in asked.items():
        begun = done
        if not store.holds(blob, moved):
            done = begun
            store.put(_chunks(sources[digest]), blob, moved)
        done = begun
        moved(blob.bytes)
    if asked:
        talk.progress("writing the models", total, total)


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def _launcher(order: Order, talk: Talk) -> Launcher:
    with tempfile.TemporaryDirectory(prefix="spark-spec-wheels-") as name:
        wheels = collect(Path(name), order.platform, order.extras or (), talk)
        place = order.folder / WHEELS
        place.mkdir(exist_ok=True)
        for stale in place.iterdir():
            stale.unlink()
        named = []
        for wheel in wheels:
            content = wheel.read_bytes()
            _put(place / wheel.name, content)
            named.append(_named(f"{WHEELS}/{wheel.name}", content))
    return Launcher(
        version=appliance.__version__, python=PYTHONS, extras=order.extras or (), wheels=tuple(named)
    )


def _plain(folder: Path) -> Iterable[NamedFile]:
    """What people and Python read, from the templates."""
    for name in PLAIN:
        content = (data("templates") / "bundle" / name).read_bytes()
        _put(folder / name, content)
        yield _named(name, content)


def _named(path: str, content: bytes) -> NamedFile:
    return NamedFile(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def _put(file: Path, content: bytes) -> None:
    """A small file, whole and on the disk. Its mode is left alone: FAT refuses one that it cannot have."""
    if file.is_file() and file.read_bytes() == content:
        return
    fresh = file.with_name(f"{FRESH}{file.name}")
    with fresh.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(file)


def _finish(bundle: Bundle, order: Order) -> None:
    """The manifest and what vouches for it; with it in place the bundle is complete."""
    text = to_text(bundle)
    _put(order.folder / SUMS, sums(bundle, text).encode())
    if order.key is not None:
        _put(order.folder / SIGNATURE, keys.sign(order.key, text.encode()).encode())
    _put(order.folder / MANIFEST, text.encode())
    (order.folder / MARK).unlink()


def _earlier(folder: Path) -> Bundle | None:
    """The bundle that is in the folder already: what of it is the same need not be made again."""
    raw = small(folder / MANIFEST, LARGEST)
    return parse(raw, str(folder / MANIFEST)) if raw is not None else None


def _check_room(wanted: Wanted, order: Order, before: Bundle | None) -> None:
    """Raise MachineFault where the medium is too small, before a byte is written to it."""
    there = set(order.parent[0].blobs()) if order.parent else set()
    there |= set(before.carried) if before else set()
    models = sum(blob.bytes for digest, blob in wanted.contents.items() if digest not in there)
    known = {image.config.sha256 for image in (before.images if before else ())}
    found = [
        image for image in map(find, wanted.images) if image and image.id.removeprefix("sha256:") not in known
    ]
    images = sum(image.size for image in found)
    free = room(order.folder)
    if models + images > free:
        raise MachineFault(
            f"the bundle does not fit into {order.folder}",
            f"up to {(models + images) / 1e9:.2f} GB (models {models / 1e9:.2f}, images {images / 1e9:.2f} before they "
            f"are packed), and {free / 1e9:.2f} GB are free",
            "take a larger medium; --parent BUNDLE leaves out what the other side has",
        )
