"""An image is here, or is brought here: local, else a registry's, else built; said before it is done."""

from pathlib import Path

from appliance.core.errors import FetchFault, MachineFault
from appliance.core.talk import Talk
from appliance.images.base import obtain
from appliance.images.build import build
from appliance.images.local import ImageInfo, Origin, find, fitting
from appliance.images.pull import pull
from appliance.images.records import record
from appliance.images.versions import ImageName, versions
from appliance.machine.command import CommandFailed, run


def ensure(wanted: ImageName, platform: str, registry: str | None, talk: Talk) -> ImageInfo:
    """See to it that an image is here for a platform, such as linux/arm64.

    One of ours is looked for in `registry` (HOST[:PORT]/PATH) where one is set, and built where it is not
    found; any other is pulled. Raises MachineFault (docker, or an image of another architecture), FetchFault,
    Mismatch.
    """
    reference = wanted.reference
    here = find(reference)
    if here and not _stale(here, wanted):
        return fitting(here, platform)
    if wanted.image is None or wanted.base is None:
        talk.say(f"image {reference} is not here: pulling it")
        pull(reference, platform, talk)
        return _present(reference, platform, "registry")
    if registry and _from_registry(f"{registry}/{reference}", reference, platform, talk):
        return _present(reference, platform, "registry")
    state = "stands on an older base" if here else "is not here"
    talk.say(f"image {reference} {state}: building it for {platform}{_cost(wanted.image, platform)}")
    base = obtain(wanted.base, platform, registry, talk)
    build(wanted.image, reference, base, platform, talk)
    return _present(reference, platform, "built")


def ensure_recorded(
    wanted: ImageName, platform: str, registry: str | None, state: Path, talk: Talk
) -> ImageInfo:
    """As `ensure`; and one of ours that was not here before is recorded in the state folder, for `images verify`."""
    image = ensure(wanted, platform, registry, talk)
    if wanted.image and image.origin != "local":
        record(state, image.reference)
    return image


def _stale(here: ImageInfo, wanted: ImageName) -> bool:
    """Whether the base of an image of ours has another content by now, under the name it had: engines' tags move."""
    if here.base is None or wanted.base is None or wanted.base.local is not None:
        return False
    base = find(wanted.base.public)
    return base is not None and base.id != here.base


def _cost(image: str, platform: str) -> str:
    """What a build fetches besides its base, as far as that is known; an engine's base brings all it needs."""
    fetched = versions().images[image].fetch.get(platform)
    return f" ({fetched / 1e6:.0f} MB to fetch besides its base)" if fetched else ""


def _from_registry(remote: str, reference: str, platform: str, talk: Talk) -> bool:
    """Pull our image from one's own registry and give it its local name. False, said, where that fails."""
    try:
        pull(remote, platform, talk)
    except FetchFault as error:
        talk.say(f"{error.what}: {error.why}")
        return False
    _present(remote, platform, "registry")
    argv = ["docker", "tag", remote, reference]
    talk.command(" ".join(argv))
    try:
        run(argv, quiet_s=30, each=talk.say)
    except CommandFailed as error:
        raise MachineFault(f"{remote} could not be named {reference}", error.words(2), "see above") from None
    return True


def _present(reference: str, platform: str, origin: Origin) -> ImageInfo:
    """The image that must be here now. Raises FetchFault where it is not, MachineFault as `fitting` does."""
    found = find(reference, origin)
    if found is None:
        raise FetchFault(
            f"the image {reference} is not here", "docker does not know it after all", "try again"
        )
    return fitting(found, platform)
