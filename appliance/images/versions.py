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
from appliance.catalog.stack import Strict
from appliance.core.errors import ConfigFault
from appliance.core.paths import PACKAGE, data

NAMESPACE = "spark-spec"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Platform = Annotated[str, Field(pattern=r"^linux/(amd64|arm64)$")]


Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


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
    """The base for an engine's version, or the one that was named instead, which is taken as it is."""
    if named:
        return BaseImage(None, named, "own-base")
    tag = base.tag or version
    digest = base.digests.get(tag)
    short = digest[7:19] if digest else base.local.rpartition(":")[2] if base.local else tag
    return BaseImage(base.local, f"{base.public}:{tag}" + (f"@{digest}" if digest else ""), short)


class WheelFile(Strict):
    """One platform's wheel; `tag` is pip's name of the platform, `bytes` its size."""

    tag: str
    sha256: Sha256
    bytes: Annotated[int, Field(gt=0)]


class Wheel(Strict):
    """A wheel that is unpacked into an image."""

    version: str
    files: dict[Platform, WheelFile]


class Image(Strict):
    """An image of ours: its base, its wheels, and the files of this package it holds (pattern -> folder)."""

    base: str
    wheels: list[str]
    program: dict[str, str]


class Versions(Strict):
    """All of images/versions.yaml."""

    bases: dict[str, Base]
    wheels: dict[str, Wheel]
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


def program(image: str) -> list[tuple[Path, str]]:
    """The package's files in an image, each with its path below /opt/spark-spec, in a stable order."""
    pairs = [
        (source, f"{folder}/{source.name}")
        for pattern, folder in versions().images[image].program.items()
        for source in PACKAGE.glob(pattern)
    ]
    return sorted(pairs, key=lambda pair: pair[1])


def dockerfile(image: str) -> Path:
    """The Dockerfile of an image of ours."""
    return data("images") / image / "Dockerfile"


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
    parts = [
        ("base", json.dumps(asdict(base))),
        ("Dockerfile", dockerfile(image).read_text(encoding="utf-8")),
    ]
    parts += [(name, versions().wheels[name].model_dump_json()) for name in made_of.wheels]
    parts += [(place, source.read_text(encoding="utf-8")) for source, place in program(image)]
    digest = hashlib.sha256()
    for name, content in parts:
        for text in (name.encode(), content.encode()):
            digest.update(len(text).to_bytes(8, "big") + text)
    tag = f"{appliance.__version__}-{base.short}-{digest.hexdigest()[:12]}"
    return ImageName(f"{NAMESPACE}/{image}:{tag}", image, base)
