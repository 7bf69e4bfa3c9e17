"""images: verify, sbom."""

import os
from dataclasses import asdict

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, table
from appliance.core.errors import ConfigFault
from appliance.core.paths import named_file, write_atomic


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


@click.command()
@click.argument("image", metavar="PRESET|IMAGE|REFERENCE")
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="Write it to this file instead.")
def sbom(image: str, output: str | None) -> None:
    """Tell what is installed in an image that is here, as CycloneDX 1.6 JSON: Debian's and Python's packages.

    It is read out of the image's layers; nothing is started. The same image gives the same bytes.

    \b
    Example:
      spark-spec images sbom demo -o demo.cdx.json
    """
    from appliance.images.sbom import sbom as bill_of
    from appliance.machine.docker import require_docker

    name = reference(image)
    target = named_file(output, "--output") if output else None
    require_docker()
    talk = Terminal()
    try:
        text = bill_of(name, talk)
    finally:
        talk.close()
    if target is None:
        result(text.rstrip("\n"))
        return
    try:
        write_atomic(target, text)
    except OSError as error:
        raise ConfigFault(
            f"the bill could not be written to {output}", error.strerror or str(error),
            "name a file in a folder that is there and can be written to: -o FILE",
        ) from None  # fmt: skip


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
