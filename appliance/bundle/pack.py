"""An image out of docker into a bundle: each layer compressed once, the config as it is, and its bill of materials."""

import contextlib
import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import IO, Any

import zstandard

from appliance.bundle.manifest import Blob, BundledImage, Layer
from appliance.bundle.store import Cut, Store
from appliance.images.export import SavedFile, saved
from appliance.images.layers import Contents, contents
from appliance.images.packages import Read, reader
from appliance.images.sbom import bill

LEVEL = 3
THREADS = 2  # any number but none gives the same bytes
CHUNK = 1 << 20


def pack(
    reference: str, store: Store, known: Mapping[str, Layer], moved: Callable[[int], None]
) -> BundledImage:
    """Put an image that is here into a bundle. `known` are layers by their diff id that were compressed before: one
    that the store holds is not compressed again. `moved` hears the bytes that docker has given.

    Raises MachineFault, OSError (the medium).
    """
    layers: dict[str, Layer] = {}
    packers: dict[str, _Packer] = {}

    def tap(file: SavedFile, stream: IO[bytes]) -> IO[bytes]:
        made = known.get(PurePosixPath(file.path).name)
        if made and store.holds(Blob(sha256=made.sha256, bytes=made.bytes)):
            layers[file.path] = made
            return stream
        packers[file.path] = _Packer(stream, writing.enter_context(store.writing()))
        return io.BufferedReader(packers[file.path], CHUNK)

    with contextlib.ExitStack() as writing, saved(reference, moved) as files:
        read: Contents[Read] = contents(files, reader, tap)
        layers |= {path: packer.layer(store) for path, packer in packers.items()}
    return BundledImage(
        reference=reference,
        config=_small(read.raw_config, store),
        layers=tuple(layers[path] for path in read.layers),
        sbom=_small(bill(reference, read).encode(), store),
    )


def _small(content: bytes, store: Store) -> Blob:
    blob = Blob(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    if not store.holds(blob):
        store.put([content], blob)
    return blob


class _Packer(io.RawIOBase):
    """A layer's tar that is compressed into a bundle while it is read. It has to be read to its end."""

    def __init__(self, stream: IO[bytes], cut: Cut) -> None:
        self._stream, self._cut = stream, cut
        self._packed = zstandard.ZstdCompressor(level=LEVEL, threads=THREADS).compressobj()
        self._digest, self._bytes, self._ended = hashlib.sha256(), 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        if chunk:
            self._digest.update(chunk)
            self._bytes += len(chunk)
            self._cut.write(self._packed.compress(chunk))
        elif not self._ended:
            self._ended = True
            self._cut.write(self._packed.flush())
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def layer(self, store: Store) -> Layer:
        """Keep what was compressed, and say what it is. Raises OSError."""
        assert self._ended, "a layer is read to its end"
        blob = store.keep(self._cut)
        return Layer(
            sha256=blob.sha256, bytes=blob.bytes, diff_id=self._digest.hexdigest(), unpacked=self._bytes
        )
