"""images: list, build."""

import os

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json


@click.group()
def images() -> None:
    """List and build container images.

    \b
    Example:
      spark-spec images build demo
    """


@images.command()
@options.preset
@options.sets
@options.as_json
def build(preset: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Get the image of PRESET: a local one, one from your registry, or built here. Prints its reference.

    \b
    Example:
      spark-spec images build demo
    """
    from appliance.lifecycle.prepare import fetch_image
    from appliance.machine.docker import require_docker
    from appliance.stack.resolve import resolve

    resolved, talk = resolve(preset, sets, os.environ), Terminal()
    require_docker()
    try:
        image = fetch_image(resolved, talk)
    finally:
        talk.close()
    if as_json:
        result_json(
            {"reference": image.reference, "id": image.id, "platform": image.platform, "size": image.size}
        )
    else:
        result(image.reference)
