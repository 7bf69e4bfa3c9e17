"""An image is here, or is brought here: local, else a registry's, else built; said before it is done."""

from pathlib import Path

from appliance.core.errors import FetchFault
from appliance.core.talk import Talk
from appliance.images.base import obtain
from appliance.images.build import build
from appliance.images.local import ImageInfo, Origin, find, fitting, tag
from appliance.images.pull import pull
from appliance.images.records import record
from appliance.images.versions import ImageName, versions


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
    if registry and (found := _tried(registry, reference, platform, talk)):
        return found
    state = "stands on an older base" if here else "is not here"
    talk.say(f"image {reference} {state}: building it for {platform}{_cost(wanted.image, platform)}")
    base = obtain(wanted.base, platform, registry, talk)
    build(wanted.image, reference, base, platform, talk)
    return _present(reference, platform, "built")


def ensure_recorded(
    wanted: ImageName, platform: str, registry: str | None, state: Path, talk: Talk
) -> ImageInfo:
    """As `ensure`; and one of ours that was not here before is recorded in the state folder, for `images verify`."""
    return _recorded(ensure(wanted, platform, registry, talk), wanted, state)


def fetch(wanted: ImageName, platform: str, registry: str | None, talk: Talk) -> ImageInfo:
    """Pull an image that is not here, and build nothing: ours from `registry`, or what it stands on where none is set.

    Raises FetchFault, MachineFault as `ensure` does.
    """
    if here := find(wanted.reference):
        return fitting(here, platform)
    if registry and wanted.base:
        return _from_registry(registry, wanted.reference, platform, talk)
    public = wanted.base.public if wanted.base else wanted.reference
    here = find(public)
    if here is None or here.platform != platform:
        pull(public, platform, talk)
    return _present(public, platform, "registry")


def fetch_recorded(
    wanted: ImageName, platform: str, registry: str | None, state: Path, talk: Talk
) -> ImageInfo:
    """As `fetch`, and recorded as `ensure_recorded` does."""
    return _recorded(fetch(wanted, platform, registry, talk), wanted, state)


def _recorded(image: ImageInfo, wanted: ImageName, state: Path) -> ImageInfo:
    if wanted.image and image.reference == wanted.reference and image.origin != "local":
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


def _tried(registry: str, reference: str, platform: str, talk: Talk) -> ImageInfo | None:
    """Our image from one's own registry. None, said, where it cannot be had there."""
    try:
        return _from_registry(registry, reference, platform, talk)
    except FetchFault as error:
        talk.say(f"{error.what}: {error.why}")
        return None


def _from_registry(registry: str, reference: str, platform: str, talk: Talk) -> ImageInfo:
    """Pull our image from a registry and give it its local name. Raises FetchFault, MachineFault."""
    remote = f"{registry}/{reference}"
    pull(remote, platform, talk)
    _present(remote, platform, "registry")
    tag(remote, reference, talk)
    return _present(reference, platform, "registry")


def _present(reference: str, platform: str, origin: Origin) -> ImageInfo:
    """The image that must be here now. Raises FetchFault where it is not, MachineFault as `fitting` does."""
    found = find(reference, origin)
    if found is None:
        raise FetchFault(
            f"the image {reference} is not here", "docker does not know it after all", "try again"
        )
    return fitting(found, platform)
