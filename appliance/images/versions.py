"""images/versions.yaml, strictly; and the tag of an image, computed from what goes into it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

import appliance
from appliance.catalog.lock import Digest, locked
from appliance.catalog.stack import Strict
from appliance.core.errors import ConfigFault, UsageFault
from appliance.core.paths import PACKAGE, data

NAMESPACE = "spark-spec"
Platform = Annotated[str, Field(pattern=r"^linux/(amd64|arm64)$")]


class Base(Strict):
    """What an image stands on: a public image, and a local name where one can be made without a registry.

    `tag` is null where the engine's version is the tag; `digests` are those of the tags that were read from their
    registry, `python` the version in it, for wheels.
    """

    local: str | None
    public: str
    tag: str | None
    digests: dict[str, Digest]
    python: str | None


@dataclass(frozen=True)
class BaseImage:
    """A base for one version: the references that will do, the first that is here first, and its name in a tag."""

    local: str | None
    public: str
    short: str


def base_image(base: Base, version: str, named: str | None = None) -> BaseImage:
    """The base for an engine's version, by its digest where one is locked or known; or the one that was named instead,
    which is taken as it is."""
    if named:
        return BaseImage(None, named, "own-base")
    tag = base.tag or version
    held = locked().bases.get(f"{base.public}:{tag}")
    digest = held.digest if held else base.digests.get(tag)
    short = digest[7:19] if digest else base.local.rpartition(":")[2] if base.local else tag
    return BaseImage(base.local, f"{base.public}:{tag}" + (f"@{digest}" if digest else ""), short)


class Image(Strict):
    """An image of ours: its base, and the files of this package it holds (pattern -> folder).

    `fetch` are the bytes of the wheels that its requirements.txt locks, for each platform they are locked for;
    `dockerfile` is the folder with its Dockerfile, where that is another image's.
    """

    base: str
    dockerfile: str | None = None
    fetch: dict[Platform, Annotated[int, Field(gt=0)]]
    program: dict[str, str]


class Versions(Strict):
    """All of images/versions.yaml."""

    bases: dict[str, Base]
    images: dict[str, Image]


@cache
def versions() -> Versions:
    """What images are made of. Raises ConfigFault where the file is not as it must be."""
    return load(data("images") / "versions.yaml")


def load(path: Path) -> Versions:
    """Read one such file. Raises ConfigFault."""
    try:
        return Versions.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigFault(
            f"{path} cannot be used", str(error), "restore the file as it was shipped"
        ) from None


def program(image: str) -> list[tuple[str, Path]]:
    """The package's files in an image: the path below /opt/spark-spec and the file, in a stable order."""
    pairs = [
        (f"{folder}/{source.name}", source)
        for pattern, folder in versions().images[image].program.items()
        for source in PACKAGE.glob(pattern)
    ]
    return sorted(pairs)


def dockerfile(image: str) -> Path:
    """The Dockerfile of an image of ours."""
    return data("images") / (versions().images[image].dockerfile or image) / "Dockerfile"


def requirements(image: str) -> Path | None:
    """The file that locks the wheels of an image, each with its hashes; None where it has none."""
    return data("images") / image / "requirements.txt" if versions().images[image].fetch else None


def extra_files(image: str) -> list[Path]:
    """The other files of an image's own folder, which its context has in files/."""
    known = ("Dockerfile", "requirements.in", "requirements.txt")
    folder = data("images") / image
    return sorted(path for path in folder.glob("*") if path.is_file() and path.name not in known)


def bake_file() -> Path:
    """The one file that says how each image is built."""
    return data("images") / "docker-bake.hcl"


@dataclass(frozen=True)
class ImageName:
    """An image by its full name; `image` and `base` where it is one of ours, None where it is someone else's."""

    reference: str
    image: str | None = None
    base: BaseImage | None = None


def own(image: str, version: str, named_base: str | None = None) -> ImageName:
    """An image of ours: its tag has the version of the appliance, the base, and a hash over all it is made of.

    The same on every platform, as rendered stacks are; no docker and no network are needed to tell it.
    """
    made_of = versions().images[image]
    base = base_image(versions().bases[made_of.base], version, named_base)
    files = [("Dockerfile", dockerfile(image)), ("docker-bake.hcl", bake_file()), *program(image)]
    files += [(path.name, path) for path in (requirements(image), *extra_files(image)) if path]
    parts = [("base", json.dumps(asdict(base)))]
    parts += [(name, source.read_text(encoding="utf-8")) for name, source in files]
    digest = hashlib.sha256()
    for name, content in parts:
        for text in (name.encode(), content.encode()):
            digest.update(len(text).to_bytes(8, "big") + text)
    tag = f"{appliance.__version__}-{base.short}-{digest.hexdigest()[:12]}"
    return ImageName(f"{NAMESPACE}/{image}:{tag}", image, base)


def named(image: str, version: str | None, base: str | None) -> ImageName:
    """An image of ours asked for by name. Raises UsageFault where it stands on an engine of an untold version, or an
    engine's version is told of one that stands on none."""
    engine_s = versions().bases[versions().images[image].base].tag is None
    if engine_s and not (version or base):
        raise UsageFault(
            f"the image {image} stands on its engine's own image, of which the version is not told",
            "no preset says it here",
            f"spark-spec images build {image} --engine VERSION (as engine.version), or --base IMAGE",
        )
    if version and not engine_s:
        raise UsageFault(f"the image {image} has no engine's version", f"--engine {version}", "leave it out")
    return own(image, version or "", base)
