"""images: verify."""

import os
from dataclasses import asdict

import click

from appliance.cli import options
from appliance.cli.output import result_json, table


@click.command()
@click.argument("images", nargs=-1, metavar="[PRESET|IMAGE|REFERENCE]...")
@click.option(
    "--platform", metavar="OS/ARCH", help="What they must be for; this machine's platform unless given."
)
@options.as_json
def verify(images: tuple[str, ...], platform: str | None, as_json: bool) -> None:
    """Compare images with what was built or pulled here under their names: platform, layers, settings, labels.

    Without a name, all of the appliance's images that are here. Nothing is started and nothing is fetched. An image
    that came otherwise, by docker load say, has no record: that is said, and is not passed (exit code 8).

    \b
    Example:
      spark-spec images verify demo
    """
    from appliance.images import verify as room
    from appliance.machine.docker import require_docker
    from appliance.machine.facts import platform as here
    from appliance.stack.resolve import resolve_machine

    references = [reference(word) for word in images]
    state = resolve_machine([], os.environ).paths.state
    require_docker()
    verdicts = [room.verify(one, platform or here(), state) for one in references or room.own_here()]
    if as_json:
        result_json([asdict(one) for one in verdicts])
    else:
        table([(one.reference, one.state) for one in verdicts])
    if fault := room.fault(verdicts):
        raise fault


def reference(word: str) -> str:
    """The image of a preset, one of ours by its name, or the reference itself: only that has a colon or a slash."""
    from appliance.images.versions import named, versions
    from appliance.stack.render import stack_image
    from appliance.stack.resolve import resolve

    if ":" in word or "/" in word:
        return word
    if word in versions().images:
        return named(word, None, None).reference
    return stack_image(resolve(word, (), os.environ).stack).reference
