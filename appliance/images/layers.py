"""Chosen files of an image, read out of its layers in one pass: nothing else is kept.

A layer is a tar of changes to what lies below (the OCI image specification's layer.md): a file replaces one of its
name; `.wh.NAME` removes NAME, and `.wh..wh..opq` in a folder all that lower layers have in it. What was a folder and
is now a link is gone too. Layers come in any order, so each is read for itself, and put on the others at the end.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from posixpath import basename, dirname
from typing import IO, Any, Generic, TypeVar, cast

from appliance.core.errors import MachineFault
from appliance.images.export import MANIFEST, Chunks, SavedFile, members, read_manifest

BLOCK = 512
LARGEST_JSON = 16 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"

Found = TypeVar("Found")
Readers = Callable[[str], Callable[[IO[bytes]], Found] | None]


Tap = Callable[[SavedFile, IO[bytes]], IO[bytes]]


@dataclass(frozen=True)
class Contents(Generic[Found]):
    """An image's config, as read and as its bytes, and what was read of its chosen files, by their paths without a
    leading slash; `layers` are the paths of its layers among the saved files, from the base up."""

    config: Mapping[str, Any]
    files: Mapping[str, Found]
    raw_config: bytes = b""
    layers: tuple[str, ...] = ()


@dataclass
class Layer(Generic[Found]):
    """What one layer says: of the chosen files in it, and of what it hides of the layers below. A folder in `emptied`
    stays, but nothing that lower layers have in it; of a path in `hidden` nothing stays."""

    files: dict[str, Found] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)

    def over(self, below: Mapping[str, Found]) -> dict[str, Found]:
        """The chosen files with this layer on top."""
        return {path: one for path, one in below.items() if not self._hides(path)} | self.files

    def _hides(self, path: str) -> bool:
        if path in self.hidden:
            return True
        while path := dirname(path):
            if path in self.hidden or path in self.emptied:
                return True
        return "" in self.emptied


def _untapped(_file: SavedFile, stream: IO[bytes]) -> IO[bytes]:
    return stream


def contents(files: Iterable[SavedFile], readers: Readers[Found], tap: Tap = _untapped) -> Contents[Found]:
    """The chosen files of a saved image. `readers` gives, for a path, what reads that file, or None; `tap` may put
    itself before a layer's uncompressed tar, which is read through it to its last byte.

    Raises MachineFault where the image's own files are not what docker writes.
    """
    layers: dict[str, Layer[Found]] = {}
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for file in files:
        if file.same_as:
            links[file.path] = file.same_as
            continue
        head = file.stream.read(BLOCK)
        whole = _joined(head, file.stream)
        if head[257:262] == b"ustar" or head.startswith((GZIP, ZSTD)) or head == bytes(BLOCK):
            stream = tap(file, unpacked(head, whole))
            layers[file.path] = read_layer(stream, readers)
            while stream.read(1 << 20):
                pass  # tar ends before its file does
        elif file.size <= LARGEST_JSON:
            texts[file.path] = whole.read()
    try:
        image = read_manifest(texts[MANIFEST])
        config = json.loads(texts[image.config])
        found: dict[str, Found] = {}
        paths = tuple(links.get(path, path) for path in image.layers)
        for path in paths:
            found = layers[path].over(found)
    except (ValueError, KeyError) as error:
        raise MachineFault(
            "the saved image cannot be read", f"docker's {MANIFEST} does not fit its files: {error}",
            "see that docker's disk is sound: docker image inspect",
        ) from None  # fmt: skip
    return Contents(config, found, texts[image.config], paths)


def read_layer(stream: IO[bytes], readers: Readers[Found]) -> Layer[Found]:
    """Read one layer, an uncompressed tar. Raises tarfile.TarError."""
    layer: Layer[Found] = Layer()
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in members(archive):
            path = _plain(member.name)
            name, folder = basename(path), dirname(path)
            if name == OPAQUE:
                layer.emptied.add(folder)
            elif name.startswith(WHITEOUT):
                layer.hidden.add(f"{folder}/{name[len(WHITEOUT) :]}".lstrip("/"))
            elif member.issym():
                layer.hidden.add(path)
            elif read := readers(path):
                if content := archive.extractfile(member) if member.isreg() else None:
                    layer.files[path] = read(content)
                elif member.islnk() and (same := _plain(member.linkname)) in layer.files:
                    layer.files[path] = layer.files[same]
    return layer


def unpacked(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """A layer's tar, whatever it is compressed with: its first bytes tell. Engines whose images lie in containerd's
    store save layers as they were pulled."""
    if head.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if head.startswith(ZSTD):
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    return stream


def _joined(head: bytes, stream: IO[bytes]) -> IO[bytes]:
    """A stream with the bytes before it that were read already."""
    return io.BufferedReader(Chunks(chain([head], iter(lambda: stream.read(1 << 16), b""))))


def _plain(name: str) -> str:
    """A member's path as it is compared: `./var/lib/` and `/var/lib` are var/lib."""
    return name.removeprefix("./").strip("/")
