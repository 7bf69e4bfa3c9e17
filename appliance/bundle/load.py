"""An image of a bundle into docker: made into what `docker load` takes on its way, and looked at afterwards."""

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, cast

import zstandard

from appliance.bundle.contents import read
from appliance.bundle.manifest import Bundle, BundledImage, Layer
from appliance.bundle.plain import CHUNK
from appliance.core.errors import MachineFault, Mismatch, SparkSpecError
from appliance.core.text import one_line
from appliance.images.export import Chunks
from appliance.images.identity import Identity, differences, identity
from appliance.images.records import identity_here, record
from appliance.machine.docker import sdk

QUIET_S = 120
SLOWEST = 20e6  # bytes/s: docker is silent while it unpacks what it got
TAR_END = bytes(2 * tarfile.BLOCKSIZE)


def expected(folder: Path, bundle: Bundle, image: BundledImage) -> Identity:
    """What an image of the bundle is, by its config. Raises Mismatch where that does not fit its layers."""
    raw = b"".join(read(folder, bundle, image.config))
    try:
        found = identity(json.loads(raw))
    except ValueError as error:
        raise Mismatch(
            f"the config of {image.reference} is none", str(error), "get the bundle anew"
        ) from None
    if found.platform != bundle.platform or found.layers != tuple(
        f"sha256:{one.diff_id}" for one in image.layers
    ):
        raise Mismatch(
            f"the config of {image.reference} does not fit the bundle",
            f"it is for {found.platform} and has {len(found.layers)} layers",
            "get the bundle anew from who made it",
        )
    return found


def is_here(image: BundledImage, wanted: Identity) -> bool:
    """Whether docker has this very image under its name."""
    here = identity_here(image.reference)
    return here is not None and not differences(wanted, here)


def load(
    folder: Path,
    bundle: Bundle,
    image: BundledImage,
    wanted: Identity,
    state: Path,
    moved: Callable[[int], None],
) -> None:
    """Load an image, and keep the record of it. `moved` hears the bytes of the bundle that were read.

    Raises MachineFault (docker), Mismatch (a content that changed, or another image came of it).
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    faults: list[BaseException] = []
    unpacked = sum(layer.unpacked for layer in image.layers)
    try:
        with closing(sdk(QUIET_S + int(unpacked / SLOWEST))) as client:
            for event in client.api.load_image(_kept(_tar(folder, bundle, image, moved), faults)):  # type: ignore[no-untyped-call]
                if "error" in event:
                    raise _not_loaded(image, str(event["error"]))
    except (DockerException, RequestException, OSError) as error:
        # What breaks in the stream arrives as a broken connection.
        if faults and isinstance(faults[0], SparkSpecError):
            raise faults[0] from None
        raise _not_loaded(image, str(getattr(error, "explanation", None) or (faults or [error])[0])) from None
    found = identity_here(image.reference)
    told = ("docker does not know it",) if found is None else differences(wanted, found)
    if told:
        raise Mismatch(f"another image than the bundle's came of {image.reference}", "; ".join(told),
                       f"docker rmi {image.reference}, and import again")  # fmt: skip
    record(state, image.reference)


def _not_loaded(image: BundledImage, words: str) -> MachineFault:
    return MachineFault(
        f"the image {image.reference} could not be loaded", one_line(words)[:500],
        "see that `docker info` works and its disk has room (docker system df), and import again",
    )  # fmt: skip


def _kept(chunks: Iterator[bytes], faults: list[BaseException]) -> Iterator[bytes]:
    """The same chunks; what ends them early is kept."""
    try:
        yield from chunks
    except Exception as error:
        faults.append(error)
        raise


def _tar(folder: Path, bundle: Bundle, image: BundledImage, moved: Callable[[int], None]) -> Iterator[bytes]:
    """What `docker save` would have written: manifest.json, the config, and each layer unpacked."""
    config = f"{image.config.sha256}.json"
    layers = [f"{layer.diff_id}/layer.tar" for layer in image.layers]
    manifest = [{"Config": config, "RepoTags": [image.reference], "Layers": layers}]
    yield from _member("manifest.json", json.dumps(manifest).encode())
    yield from _member(config, b"".join(read(folder, bundle, image.config)))
    sent = set()
    for name, layer in zip(layers, image.layers, strict=True):
        # One content may stand in an image twice; what was sent before, docker has from an earlier image.
        if name not in sent and layer.sha256 in bundle.carried:
            sent.add(name)
            yield from _layer(name, folder, bundle, layer, moved)
    yield TAR_END


def _member(name: str, content: bytes) -> Iterator[bytes]:
    yield _header(name, len(content)) + content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT)


def _layer(
    name: str, folder: Path, bundle: Bundle, layer: Layer, moved: Callable[[int], None]
) -> Iterator[bytes]:
    """A layer, unpacked as it is read. Raises Mismatch where it is not as long as the manifest says."""
    yield _header(name, layer.unpacked)
    size, packed = 0, _heard(read(folder, bundle, layer), moved)
    stream = zstandard.ZstdDecompressor().stream_reader(cast(IO[bytes], Chunks(packed)))
    try:
        while plain := stream.read(CHUNK):  # in pieces: a small file may unpack to any size
            size += len(plain)
            if size > layer.unpacked:
                raise _odd(layer, f"it unpacks to more than {layer.unpacked} bytes")
            yield plain
    except zstandard.ZstdError as error:
        raise _odd(layer, str(error)) from None
    if next(packed, None) is not None:
        raise _odd(layer, "it goes on after its end")
    if size != layer.unpacked:
        raise _odd(layer, f"it unpacks to {size} bytes, not {layer.unpacked}")
    yield bytes(-size % tarfile.BLOCKSIZE)


def _heard(chunks: Iterator[bytes], moved: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        moved(len(chunk))
        yield chunk


def _odd(layer: Layer, why: str) -> Mismatch:
    return Mismatch(
        f"the layer {layer.sha256} is not what the bundle says", why, "get the bundle anew from who made it"
    )
