"""The bytes of an image, streamed out of the engine: nothing of it is kept, however large it is.

What comes is the tar of `docker save`. Engine 25 and later write an OCI layout (blobs/sha256/HEX) with docker's own
manifest.json beside it; older ones a folder a layer (HEX/layer.tar), a second layer of the same content being a link.
Both name the config and the layers in manifest.json, which comes last but for files that sort after it.
"""

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import normpath
from typing import IO, TYPE_CHECKING, Any

from appliance.core.errors import MachineFault
from appliance.core.text import one_line
from appliance.images.local import ImageInfo, find
from appliance.machine.docker import docker_root, sdk

if TYPE_CHECKING:
    from docker import DockerClient

MANIFEST = "manifest.json"
QUIET_S = 120
SLOWEST = 20e6  # bytes/s: the engine is silent while it writes the image to its own disk


@dataclass(frozen=True)
class SavedFile:
    """A file of a saved image, `size` in bytes. `stream` is to be read before the next file is asked for; where the
    file is a link, `same_as` is the path of the file that it stands for, and the stream is empty."""

    path: str
    size: int
    stream: IO[bytes]
    same_as: str | None = None


@dataclass(frozen=True)
class SavedImage:
    """What manifest.json says: the paths of the config and of the layers, from the base up."""

    config: str
    layers: tuple[str, ...]


def read_manifest(raw: bytes) -> SavedImage:
    """The only image of a manifest.json. Raises ValueError where it is not what docker writes."""
    try:
        (one,) = json.loads(raw)
        return SavedImage(str(one["Config"]), tuple(map(str, one["Layers"])))
    except (LookupError, TypeError) as error:
        raise ValueError(f"it is no manifest of one image: {error}") from None


@contextmanager
def saved(reference: str, moved: Callable[[int], None] = lambda _: None) -> Iterator[Iterator[SavedFile]]:
    """The files of an image that is here, in the order the engine sends them; leaving the block ends the transfer.
    `moved` hears the bytes that have come.

    Raises MachineFault where the image is not here, docker has no disk for its own copy, is silent for too long, or
    breaks off; also out of the iteration, and out of reading a stream.
    """
    image = find(reference)
    if image is None:
        raise MachineFault(
            f"the image {reference} is not here",
            "docker does not know it",
            "spark-spec images build PRESET gets a preset's image; docker image ls tells what is here",
        )
    with closing(sdk(QUIET_S + int(image.size / SLOWEST))) as client, _faults(client, image):
        free = _free(client)
        if free is not None and free < image.size:
            raise _full(image, free)
        with closing(client.api.get_image(reference)) as chunks:
            yield _files(Chunks(chunks, moved))


@contextmanager
def _faults(client: "DockerClient", image: ImageInfo) -> Iterator[None]:
    """What can break under way, in words."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (DockerException, RequestException, HTTPError, tarfile.TarError) as error:
        why = one_line(str(getattr(error, "explanation", None) or error))
        if "no space left" in why:
            raise _full(image, _free(client)) from None
        raise MachineFault(
            f"the image {image.reference} could not be read out of docker",
            why,
            "see that `docker info` works and its disk is sound, then run this again",
        ) from None


def _files(stream: "Chunks") -> Iterator[SavedFile]:
    """The members of the tar. Raises tarfile.ReadError where it ends early: tarfile takes rubbish for an end."""
    whole = False
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in members(archive):
            whole = whole or member.name == MANIFEST
            if member.issym() or member.islnk():
                where = PurePosixPath(member.name).parent if member.issym() else PurePosixPath()
                yield SavedFile(member.name, 0, io.BytesIO(), normpath(where / member.linkname))
            elif content := archive.extractfile(member):
                yield SavedFile(member.name, member.size, content)
    if not whole:
        raise tarfile.ReadError(f"docker's stream ended before {MANIFEST}")


def members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of a tar that is read once; unlike its own iterator, this one keeps none."""
    while (member := archive.next()) is not None:
        yield member
        archive.members.clear()  # type: ignore[attr-defined]


class Chunks(io.RawIOBase):
    """Chunks of bytes as a file that is read in order; `moved` hears how many have come."""

    def __init__(self, chunks: Iterator[bytes], moved: Callable[[int], None] = lambda _: None) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")
        self._moved, self._done = moved, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next((chunk for chunk in self._chunks if chunk), b""))
            self._done += len(self._rest)
            self._moved(self._done)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _free(client: "DockerClient") -> int | None:
    """Bytes free where docker keeps its data; None where that is another machine, or it may not be known."""
    root = docker_root(client)
    try:
        return shutil.disk_usage(root).free if root else None
    except OSError:
        return None


def _full(image: ImageInfo, free: int | None) -> MachineFault:
    there = "an unknown amount is" if free is None else f"{free / 1e9:.1f} GB are"
    return MachineFault(
        f"docker has no room to save the image {image.reference}",
        f"it writes all of it to its own disk first: {image.size / 1e9:.1f} GB, and {there} free there",
        "free some disk: docker system df shows what images and build caches take",
    )
