"""The base of our images: one that is here, else a registry's, else the public one, else made here."""

import shlex
from collections.abc import Callable

from appliance.core.errors import FetchFault, MachineFault, SparkSpecError
from appliance.core.paths import data
from appliance.core.talk import Talk
from appliance.images.local import find, fitting
from appliance.images.pull import pull
from appliance.images.versions import BaseImage
from appliance.machine.command import CommandFailed, run
from appliance.machine.facts import platform as this_platform

QUIET_S = 300.0


def obtain(base: BaseImage, platform: str, registry: str | None, talk: Talk) -> str:
    """The reference of a base image that is here for a platform, fetched or made where it was not.

    Raises FetchFault with all that was tried where none can be had, MachineFault where the only one here is for
    another platform.
    """
    local = base.local and local_name(base.local, platform)
    names = [name for name in (local, base.public) if name]
    for reference in names:
        here = find(reference)
        if here and here.platform == platform:
            talk.say(f"base image: {reference} (here)")
            return reference
        if here and not local:
            fitting(here, platform)  # a public name stands for one platform at a time on a docker engine
    tries: list[Callable[[], str]] = [lambda: _pulled(base.public, platform, talk)]
    if local:
        made = local
        tries.append(lambda: _made(made, platform, talk))
    if registry:
        tries.insert(0, lambda: _pulled(f"{registry}/{base.local or base.public}", platform, talk))
    failed: list[SparkSpecError] = []
    for attempt in tries:
        try:
            return attempt()
        except (FetchFault, MachineFault) as error:
            talk.say(f"{error.what}: {error.why}")
            failed.append(error)
    raise FetchFault(
        f"no base image for {platform} can be had",
        "tried in turn: " + "; ".join(f"{error.what} ({error.why})" for error in failed),
        f"let this machine reach a registry (--set images.registry=HOST/PATH names your own), docker load an "
        f"image named {names[0]}, or name one that is here: --set docker.base=IMAGE",
    )


def local_name(local: str, platform: str) -> str:
    """The name of a local base for a platform: of another one than this machine's it is another image."""
    return local if platform == this_platform() else f"{local}-{platform.rpartition('/')[2]}"


def _pulled(reference: str, platform: str, talk: Talk) -> str:
    talk.say(f"base image: pulling {reference}")
    pull(reference, platform, talk)
    here = find(reference)
    if here is None:
        raise FetchFault(
            f"the image {reference} is not here after its pull", "docker does not know it", "pull it again"
        )
    return fitting(here, platform).reference


def _made(reference: str, platform: str, talk: Talk) -> str:
    argv = ["bash", str(data("images") / "base" / "make.sh"), reference, platform]
    talk.say(f"base image: making {reference} with debootstrap (about 60 MB of packages, a minute or two)")
    talk.command(shlex.join(argv))
    try:
        run(argv, quiet_s=QUIET_S, each=lambda line: _phase(line, talk))
    except CommandFailed as error:
        why = [line.partition(":")[2].strip() for line in error.tail if line.startswith("why:")]
        raise MachineFault(
            f"the base image {reference} could not be made",
            why[-1] if why else error.words(3),
            f"run it by hand to see more: {shlex.join(argv)}",
        ) from None
    return reference


def _phase(line: str, talk: Talk) -> None:
    """debootstrap's lines are `I: Retrieving NAME VERSION`: its verb is the phase."""
    words = line.split()
    if words[:1] == ["I:"] and len(words) > 1:
        talk.phase(f"making the base image: {words[1].lower()}")
