"""images/versions.yaml, strictly; and the tag of an image, computed from what goes into it."""

import hashlib
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


class Base(Strict):
    """What an image stands on: a local name that can be made without a registry, or a public image."""

    local: str
    public: str
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None
    python: str

    def pinned(self) -> str:
        """The public image, by digest where that is known."""
        return f"{self.public}@{self.digest}" if self.digest else self.public

    def short(self) -> str:
        """For a tag: twelve digits of the digest, or the local tag where no digest is known."""
        return self.digest[7:19] if self.digest else self.local.rpartition(":")[2]


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


def reference(image: str) -> str:
    """The full name of an image of ours: version of the appliance, base, and a hash over all it is made of.

    The same on every platform, as rendered stacks are; no docker and no network are needed to tell it.
    """
    made_of = versions().images[image]
    base = versions().bases[made_of.base]
    parts = [("base", base.model_dump_json()), ("Dockerfile", dockerfile(image).read_text(encoding="utf-8"))]
    parts += [(name, versions().wheels[name].model_dump_json()) for name in made_of.wheels]
    parts += [(place, source.read_text(encoding="utf-8")) for source, place in program(image)]
    digest = hashlib.sha256()
    for name, content in parts:
        for text in (name.encode(), content.encode()):
            digest.update(len(text).to_bytes(8, "big") + text)
    return f"{NAMESPACE}/{image}:{appliance.__version__}-{base.short()}-{digest.hexdigest()[:12]}"


def image_of(reference_: str) -> str | None:
    """The name of our image that a reference means; None where it is someone else's."""
    return next((image for image in versions().images if reference(image) == reference_), None)
