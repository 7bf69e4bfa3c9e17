"""images: build; the other commands of the group are in the modules that are added below."""

import os
from typing import TYPE_CHECKING

import click

from appliance.cli import images_content, options
from appliance.cli.output import Terminal, result, result_json

if TYPE_CHECKING:
    from appliance.images.versions import ImageName
    from appliance.stack.resolve import MachineSettings


@click.group()
def images() -> None:
    """Build and check container images.

    \b
    Example:
      spark-spec images build demo
    """


images.add_command(images_content.verify)


def preset_or_image(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from appliance.images.versions import versions

    names = [*options.preset_names(ctx, param, incomplete), *versions().images]
    return [name for name in names if name.startswith(incomplete)]


@images.command()
@click.argument("what", metavar="PRESET|IMAGE", shell_complete=preset_or_image)
@click.option("--platform", "for_platform", type=click.Choice(["linux/amd64", "linux/arm64"]),
              help="Build for this platform instead of the machine's own.")  # fmt: skip
@click.option("--base", metavar="REFERENCE", help="Build on this image, as docker.base does.")
@click.option("--engine", metavar="VERSION", help="The engine's version, which is the tag of its base.")
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
