"""Images of this Docker engine: what is here, and is it for the platform that was asked for."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from appliance.core.errors import MachineFault
from appliance.core.talk import Talk
from appliance.machine.command import CommandFailed, run

BASE_LABEL = "spark-spec.base.id"
Origin = Literal["local", "registry", "built"]


@dataclass(frozen=True)
class ImageInfo:
    """An image that is here. `size` in bytes on this engine's disk; `origin`: how it was obtained; `base`: the id of
    the image that it was built on, where it is one of ours."""

    reference: str
    id: str
    platform: str
    size: int
    origin: Origin
    base: str | None = None


def find(reference: str, origin: Origin = "local") -> ImageInfo | None:
    """An image of this engine, or None. Raises MachineFault where docker itself fails."""
    facts = inspect(reference)
    if facts is None:
        return None
    try:
        platform = f"{facts['Os']}/{facts['Architecture']}"
        base = (facts.get("Config", {}).get("Labels") or {}).get(BASE_LABEL)
        return ImageInfo(reference, str(facts["Id"]), platform, int(facts["Size"]), origin, base)
    except (ValueError, LookupError, TypeError):
        raise unlike(reference, json.dumps(facts)) from None


def inspect(reference: str) -> dict[str, Any] | None:
    """What docker says of an image of this engine; None where it has none. Raises MachineFault where docker fails."""
    try:
        lines = run(
            ["docker", "image", "inspect", "--format", "{{json .}}", reference],
            quiet_s=30,
            each=_ignore,
            leash=False,
        )
    except CommandFailed as error:
        if "no such image" in error.words().lower():
            return None
        raise MachineFault(
            f"docker could not look for the image {reference}", error.words(2), "see that `docker info` works"
        ) from None
    try:
        facts = json.loads(lines[-1])
    except (ValueError, IndexError):
        facts = None
    if not isinstance(facts, dict):
        raise unlike(reference, " ".join(lines))
    return facts


def unlike(reference: str, said: str) -> MachineFault:
    """The fault of an answer that is not what docker says of an image."""
    return MachineFault(
        f"docker could not look for the image {reference}",
        f"its answer is not what docker says of an image: {' '.join(said.split())[:80] or 'nothing'}",
        f"see what this docker command is: docker image inspect {reference}",
    )


def digests_here(reference: str) -> tuple[str, ...]:
    """The digests under which an image that is here was pulled as that name; none for one that was built or loaded."""
    name = reference.partition("@")[0]
    repository = name[: name.rindex(":")] if ":" in name.rpartition("/")[2] else name
    argv = ["docker", "image", "inspect", "--format", "{{json .RepoDigests}}", reference]
    try:
        told = json.loads(run(argv, quiet_s=30, each=_ignore, leash=False)[-1])
    except (CommandFailed, ValueError, LookupError):
        return ()
    pairs = (str(one).partition("@") for one in told or ())
    return tuple(digest for known, _, digest in pairs if known == repository)


def fitting(image: ImageInfo, platform: str) -> ImageInfo:
    """The image itself where it is for a platform. Raises MachineFault where it is for another one."""
    if image.platform != platform:
        raise MachineFault(
            f"the image {image.reference} cannot run here",
            f"it is for {image.platform}, this needs {platform}",
            f"remove it (docker rmi {image.reference}) and run this again, or name an image for {platform}",
        )
    return image


def tag(reference: str, other: str, talk: Talk) -> None:
    """Give an image that is here another name too. Raises MachineFault."""
    _docker(["docker", "tag", reference, other], f"{reference} could not be named {other}", talk)


def untag(reference: str, talk: Talk) -> None:
    """Take a name from an image; the image goes where it was its last. Raises MachineFault."""
    _docker(["docker", "rmi", reference], f"the name {reference} could not be removed", talk)


def _docker(argv: list[str], what: str, talk: Talk) -> None:
    talk.command(" ".join(argv))
    try:
        run(argv, quiet_s=30, each=_ignore)
    except CommandFailed as error:
        raise MachineFault(what, error.words(2), "see that `docker info` works") from None


def _ignore(line: str) -> None:
    del line
