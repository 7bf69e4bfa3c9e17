"""images: list, build, pull, push, lock; the other commands of the group are in the modules that are added below."""

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from appliance.cli import images_content, options
from appliance.cli.output import Terminal, result, result_json, size, table

if TYPE_CHECKING:
    from appliance.images.local import ImageInfo
    from appliance.images.versions import ImageName
    from appliance.stack.resolve import MachineSettings


@click.group()
def images() -> None:
    """List, build, pull, push, lock and check container images.

    \b
    Example:
      spark-spec images build demo
    """


images.add_command(images_content.verify)
images.add_command(images_content.sbom)


def preset_or_image(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from appliance.images.versions import versions

    names = [*options.preset_names(ctx, param, incomplete), *versions().images]
    return [name for name in names if name.startswith(incomplete)]


what_ = click.argument("what", metavar="PRESET|IMAGE", shell_complete=preset_or_image)
platform_ = click.option(
    "--platform", "for_platform", type=click.Choice(["linux/amd64", "linux/arm64"]),
    help="Get it for this platform instead of the machine's own.",
)  # fmt: skip
base_ = click.option("--base", metavar="REFERENCE", help="The image it stands on, as docker.base.")
engine_ = click.option(
    "--engine", metavar="VERSION", help="The engine's version, which is the tag of its base."
)


@images.command("list")
@options.sets
@options.as_json
def list_images(sets: tuple[str, ...], as_json: bool) -> None:
    """List the images that the presets and jobs ask for, and what is here of ours. No registry is asked.

    \b
    Example:
      spark-spec images list
    """
    from appliance.images.shelf import images_here, shelf
    from appliance.machine.docker import require_docker
    from appliance.stack.wanted import wanted_images

    wanted = wanted_images(sets, os.environ)
    require_docker()
    shelved = shelf(wanted, images_here())
    if as_json:
        result_json([asdict(one) for one in shelved])
        return
    table(
        [
            (
                one.reference,
                one.state,
                one.here.platform if one.here else "",
                size(one.here.size) if one.here else "",
                " ".join(one.presets),
            )
            for one in shelved
        ],
        ("IMAGE", "STATE", "PLATFORM", "SIZE", "PRESETS"),
    )


@images.command()
@what_
@platform_
@base_
@engine_
@options.sets
@options.as_json
def build(what: str, for_platform: str | None, base: str | None, engine: str | None,
          sets: tuple[str, ...], as_json: bool) -> None:  # fmt: skip
    """Get the image of a preset, or one by its own name: a local one, one from your registry, or built here.

    The names are serve-llamacpp, serve-trtllm, serve-vllm, serve-sglang, dump, train, train-cpu and gateway. Prints
    the reference of the image.

    \b
    Example:
      spark-spec images build demo
      spark-spec images build eagle3 --platform linux/arm64
      spark-spec images build dump --engine 1.3.0rc12
    """
    from appliance.images.ensure import ensure_recorded
    from appliance.machine.docker import require_docker
    from appliance.machine.facts import platform

    wanted, machine = _wanted(what, base, engine, sets)
    talk = Terminal()
    require_docker()
    try:
        image = ensure_recorded(
            wanted, for_platform or platform(), machine.images.registry, machine.paths.state, talk
        )
    finally:
        talk.close()
    _tell(image, as_json)


@images.command()
@what_
@platform_
@base_
@engine_
@options.sets
@options.as_json
def pull(what: str, for_platform: str | None, base: str | None, engine: str | None,
         sets: tuple[str, ...], as_json: bool) -> None:  # fmt: skip
    """Pull an image from your registry (images.registry); without one, what it stands on. Nothing is built.

    Prints the reference of what is here now.

    \b
    Example:
      spark-spec images pull demo --set images.registry=registry.example:5000/team
    """
    from appliance.images.ensure import fetch_recorded
    from appliance.machine.docker import require_docker
    from appliance.machine.facts import platform

    wanted, machine = _wanted(what, base, engine, sets)
    talk = Terminal()
    require_docker()
    try:
        image = fetch_recorded(
            wanted, for_platform or platform(), machine.images.registry, machine.paths.state, talk
        )
    finally:
        talk.close()
    _tell(image, as_json)


@images.command()
@what_
@click.option("--registry", metavar="HOST[:PORT]/PATH", help="Push here instead of to images.registry.")
@base_
@engine_
@options.sets
@options.as_json
def push(what: str, registry: str | None, base: str | None, engine: str | None,
         sets: tuple[str, ...], as_json: bool) -> None:  # fmt: skip
    """Push an image of ours that is here to your registry, as REGISTRY/spark-spec/NAME:TAG.

    Prints what was pushed, with its digest. Other machines get it with images.registry set to the same.

    \b
    Example:
      spark-spec images push demo --registry registry.example:5000/team
    """
    from appliance.images.push import push as push_image
    from appliance.machine.docker import require_docker

    if registry:
        sets = (*sets, f"images.registry={registry}")
    wanted, machine = _wanted(what, base, engine, sets)
    to = _pushable(wanted, machine.images.registry)
    require_docker()
    _here(wanted.reference, what)
    talk = Terminal()
    try:
        pushed = push_image(wanted.reference, to, talk)
    finally:
        talk.close()
    if as_json:
        result_json({"reference": wanted.reference, "pushed": pushed})
    else:
        result(pushed)


@images.command()
@click.argument("presets", nargs=-1, metavar="[PRESET]...", shell_complete=options.preset_names)
@click.option("--engine", metavar="VERSION", help="Of this engine's version instead of the preset's.")
@options.sets
@options.as_json
def lock(presets: tuple[str, ...], engine: str | None, sets: tuple[str, ...], as_json: bool) -> None:
    """Pin what presets stand on, all of them unless some are named: images.lock.json beside your config file.

    Of each base the digest that its registry has now; of each engine whose image is here the settings that it takes,
    as it tells them itself: from then on they decide, and an unknown one is an error.

    \b
    Example:
      spark-spec images lock eagle3
    """
    from appliance.catalog.lock import lock_path
    from appliance.catalog.preset import names
    from appliance.lifecycle.lock_images import lock_images
    from appliance.machine.docker import require_docker
    from appliance.stack.resolve import resolve

    more = (*sets, f"engine.version={engine}") if engine else sets
    stacks = [resolve(preset, more, os.environ) for preset in presets or names()]
    require_docker()
    talk = Terminal()
    try:
        held, faults = lock_images(stacks, talk)
    finally:
        talk.close()
    if as_json:
        result_json(held.model_dump(mode="json") | {"path": str(lock_path())})
    else:
        rows: list[tuple[str, ...]] = [
            (name, one.digest, " ".join(one.platforms)) for name, one in held.bases.items()
        ]
        rows += [
            (f"{name} ({one.version})", "its own settings", one.image) for name, one in held.engines.items()
        ]
        table(rows, ("LOCKED", "TO", "FOR")) if rows else result("nothing is locked")
    for fault in faults[1:]:
        talk.say(f"{fault.what}: {fault.why}")
    if faults:
        raise faults[0]


def _pushable(wanted: "ImageName", registry: str | None) -> str:
    """The registry to push to. Raises UsageFault without one, ConfigFault for an image that is not ours."""
    from appliance.core.errors import ConfigFault, UsageFault

    if registry is None:
        raise UsageFault("there is no registry to push to", "images.registry is not set",
                         "name yours: --registry HOST[:PORT]/PATH")  # fmt: skip
    if wanted.image is None:
        raise ConfigFault(f"the image {wanted.reference} is not pushed", "it is none of this appliance's",
                          "docker tag and docker push put it where you want it")  # fmt: skip
    return registry


def _here(reference: str, what: str) -> "ImageInfo":
    from appliance.core.errors import MachineFault
    from appliance.images.local import find

    found = find(reference)
    if found is None:
        raise MachineFault(f"the image {reference} is not here", "docker does not know it",
                           f"get it first: spark-spec images build {what}")  # fmt: skip
    return found


def _tell(image: "ImageInfo", as_json: bool) -> None:
    if as_json:
        result_json(
            {"reference": image.reference, "id": image.id, "platform": image.platform, "size": image.size}
        )
    else:
        result(image.reference)


def _wanted(
    what: str, base: str | None, engine: str | None, sets: tuple[str, ...]
) -> "tuple[ImageName, MachineSettings]":
    """The image that was named, or that of the preset, with its options as settings. Raises ConfigFault."""
    from appliance.images.versions import named, versions
    from appliance.stack.render import stack_image
    from appliance.stack.resolve import resolve, resolve_machine

    if what in versions().images:
        return named(what, engine, base), resolve_machine(sets, os.environ)
    more = {"docker.base": base, "engine.version": engine}
    resolved = resolve(what, [*sets, *(f"{key}={value}" for key, value in more.items() if value)], os.environ)
    return stack_image(resolved.stack), resolved.machine
