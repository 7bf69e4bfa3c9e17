"""bundle.json: all that a bundle brings, strictly. The format's description for people is docs/bundle.md.

Every content is a blob, named by the sha256 of its bytes as they lie in the bundle, whether it is a layer of an image
or a file of a model. The manifest names all blobs that the stack needs; `carried` are those that lie in this folder,
the others have been sent before, with the parent.
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError

from appliance.catalog.stack import Strict
from appliance.core.errors import ConfigFault, Mismatch
from appliance.core.text import shown

SCHEMA = 1
LARGEST = 64 << 20  # bytes of a bundle.json: some 100,000 files
_NAME = re.compile(r"[A-Za-z0-9._+-][A-Za-z0-9._+@ -]{0,200}")


def _inside(path: str) -> str:
    """A path that stays below its folder on every file system, FAT among them."""
    parts = PurePosixPath(path).parts
    if (
        not parts
        or "/".join(parts) != path
        or any(not _NAME.fullmatch(one) or one in (".", "..") for one in parts)
    ):
        raise ValueError(f"{shown(path)} is no path below a folder")
    return path


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Inside = Annotated[str, AfterValidator(_inside)]
Bytes = Annotated[int, Field(ge=0)]
Platform = Annotated[str, Field(pattern=r"^linux/(amd64|arm64)$")]


class Blob(Strict):
    """A content: the sha256 of its bytes in the bundle, and their count."""

    sha256: Sha256
    bytes: Bytes


class NamedFile(Blob):
    """A content with the path it is put at, below the folder that its kind has."""

    path: Inside


class HubBlob(NamedFile):
    """A file of a repository of the hub; `cached` is its blob's name in the hub's cache: a sha256, or git's sha1."""

    cached: Annotated[str, Field(pattern=r"^([0-9a-f]{64}|[0-9a-f]{40})$")]


class HubModel(Strict):
    """A snapshot of a repository; `origin` as in the record that `models pull` or `models add` wrote."""

    repo: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    origin: Literal["hub", "folder"]
    files: Annotated[tuple[HubBlob, ...], Field(min_length=1)]


class Layer(Blob):
    """A layer of an image, compressed with zstd in the bundle; `diff_id` is the sha256 of it uncompressed, and
    `unpacked` its bytes then."""

    diff_id: Sha256
    unpacked: Bytes


class BundledImage(Strict):
    """An image: the name it gets, its config as docker saved it, its layers from the base up, and its SBOM."""

    reference: Annotated[str, Field(pattern=r"^[a-z0-9][A-Za-z0-9_./:@-]{0,300}$")]
    config: Blob
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    sbom: Blob


class PresetSet(Strict):
    """A preset that the bundle was made for, with what was set beside it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    sets: tuple[str, ...]


class Launcher(Strict):
    """The launcher with what it needs: `wheels` lie in wheels/ and are installed without an index, with `extras`."""

    version: str
    python: tuple[str, ...]
    extras: tuple[str, ...]
    wheels: Annotated[tuple[NamedFile, ...], Field(min_length=1)]


class Bundle(Strict):
    """All of bundle.json. `plain` are files beside the blobs (install.py, the runbook, what OCI tools read); `parts`
    the pieces, in order, of each carried blob that was cut; `parent` the sha256 of the bundle.json before."""

    schema_version: Literal[1]
    appliance: str
    platform: Platform
    presets: tuple[PresetSet, ...]
    parent: Sha256 | None
    models: tuple[HubModel, ...]
    files: tuple[NamedFile, ...]
    vocabulary: tuple[NamedFile, ...]
    images: tuple[BundledImage, ...]
    launcher: Launcher | None
    plain: tuple[NamedFile, ...]
    carried: tuple[Sha256, ...]
    parts: dict[Sha256, tuple[Blob, ...]]

    def blobs(self) -> dict[str, int]:
        """All contents that are kept as blobs, with their bytes. Raises ValueError where one has two sizes."""
        found: dict[str, int] = {}
        for blob in self._blobs():
            if found.setdefault(blob.sha256, blob.bytes) != blob.bytes:
                raise ValueError(f"the content {blob.sha256} has two sizes")
        return found

    def _blobs(self) -> Iterator[Blob]:
        for model in self.models:
            yield from model.files
        yield from self.files
        yield from self.vocabulary
        for image in self.images:
            yield image.config
            yield from image.layers
            yield image.sbom


def to_text(bundle: Bundle) -> str:
    """The manifest's only text: sorted keys, so that the same content has the same bytes and the same signature."""
    return json.dumps(bundle.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"


def parse(raw: bytes, name: str) -> Bundle:
    """The manifest of its bytes; `name` is for messages. Raises Mismatch where it is not one, ConfigFault where a newer
    appliance wrote it."""
    try:
        data = json.loads(raw)
        version = data.get("schema_version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > SCHEMA:
            raise ConfigFault(
                f"{name} is of a newer kind",
                f"it has schema {version}, this appliance reads {SCHEMA}",
                "install the launcher that the bundle carries: python3 install.py",
            )
        bundle = Bundle.model_validate_json(raw)
        _consistent(bundle)
    except (ValueError, ValidationError, RecursionError) as error:
        raise Mismatch(f"{name} is no bundle's manifest", _first(error), "get the bundle anew") from None
    return bundle


def _consistent(bundle: Bundle) -> None:
    """What types cannot say. Raises ValueError."""
    known = bundle.blobs()
    strangers = sorted(set(bundle.carried) - set(known))
    if strangers:
        raise ValueError(f"it carries {strangers[0]}, which nothing needs")
    if bundle.parent is None and set(known) != set(bundle.carried):
        raise ValueError("it has no parent, and does not carry all that it needs")
    for sha256, parts in bundle.parts.items():
        if sha256 not in bundle.carried or sum(part.bytes for part in parts) != known[sha256]:
            raise ValueError(f"the parts of {sha256} are not as long as it is")
    for names in ([file.path for file in group] for group in (bundle.files, bundle.vocabulary, bundle.plain)):
        if len({name.lower() for name in names}) != len(names):
            raise ValueError("two of its files have one name")


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        one = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
    return str(error)
