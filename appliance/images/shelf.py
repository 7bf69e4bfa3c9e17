"""The images of ours that a docker engine has, beside those that are wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.errors import MachineFault
from appliance.images.local import ImageInfo, find
from appliance.images.versions import NAMESPACE, ImageName, versions
from appliance.machine.command import CommandFailed, run

State = Literal["here", "not here", "base", "other"]


@dataclass(frozen=True)
class Shelved:
    """An image: `presets` that it serves (none for a tool), `here` where this engine has it. What nothing asks for is
    `other`: an older build of ours, or one on a base of one's own."""

    reference: str
    state: State
    presets: tuple[str, ...]
    here: ImageInfo | None


def images_here() -> tuple[ImageInfo, ...]:
    """The images of ours that this engine has, and their local bases, by name. Raises MachineFault."""
    argv = ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", f"{NAMESPACE}/*"]
    try:
        names = run(argv, quiet_s=30, each=lambda _: None, leash=False)
    except CommandFailed as error:
        raise MachineFault(
            "docker could not list its images", error.words(2), "see that `docker info` works"
        ) from None
    found = (find(name) for name in sorted(names) if _ours(name))
    return tuple(one for one in found if one)


def _ours(reference: str) -> bool:
    image, _, tag = reference.removeprefix(f"{NAMESPACE}/").partition(":")
    return (image in versions().images and tag != "<none>") or reference in _bases()


def _bases() -> set[str]:
    """The names of local bases, each for any platform."""
    return {
        name
        for base in versions().bases.values()
        if base.local
        for name in (base.local, f"{base.local}-amd64", f"{base.local}-arm64")
    }


def shelf(wanted: Mapping[ImageName, Sequence[str]], here: Sequence[ImageInfo]) -> tuple[Shelved, ...]:
    """Those that are wanted, each with its presets, in their order; then what else of ours is here. Pure."""
    found, names = {one.reference: one for one in here}, {name.reference for name in wanted}
    asked = [
        Shelved(
            name.reference,
            "here" if name.reference in found else "not here",
            tuple(presets),
            found.get(name.reference),
        )
        for name, presets in wanted.items()
    ]
    others = [one for one in here if one.reference not in names]
    more = [
        Shelved(one.reference, "base" if one.reference in _bases() else "other", (), one) for one in others
    ]
    return (*asked, *more)
