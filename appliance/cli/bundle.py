"""bundle: create, inspect, verify, import, keygen, trust."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, size, table
from appliance.core.paths import named_file

if TYPE_CHECKING:
    from appliance.bundle.check import Opened
    from appliance.bundle.manifest import Bundle

folder_ = click.argument("folder", metavar="FOLDER")
signature_ = click.option(
    "--signature", type=click.Choice(["required", "if-present", "never"]), default="if-present", show_default=True,
    help="Whether it must be signed by a trusted key.",
)  # fmt: skip
key_ = click.option("--key", metavar="FILE.pub", help="Trust this key alone, and ask for its signature.")
jobs_ = click.option(
    "--jobs", type=click.IntRange(1, 64), default=2, show_default=True, help="Files hashed at a time."
)


@click.group()
def bundle() -> None:
    """Carry a stack to a machine without a network: images, models and launcher in one folder.

    \b
    Example:
      spark-spec bundle create eagle3 --platform linux/arm64 -o /media/stick/eagle3
    """


@bundle.command()
@click.argument("presets", nargs=-1, required=True, metavar="PRESET...", shell_complete=options.preset_names)
@click.option(
    "--output",
    "-o",
    required=True,
    metavar="FOLDER",
    help="Where it is written: a new folder, or an older bundle.",
)
@click.option("--platform", "for_platform", type=click.Choice(["linux/amd64", "linux/arm64"]),
              help="For a machine of this platform instead of this machine's own.")  # fmt: skip
@click.option("--parent", metavar="FOLDER|bundle.json", help="Leave out what this earlier bundle brought.")
@click.option("--part-size", type=click.IntRange(1 << 20), default=(4 << 30) - 1, show_default=True,
              help="Largest file, in bytes; FAT32 holds 4 GiB - 1.")  # fmt: skip
@click.option("--key", metavar="FILE", help="Sign it with this private key.")
@click.option("--no-launcher", is_flag=True, help="Leave out the launcher.")
@click.option("--dry-run", is_flag=True, help="Get all of it here and say what would be written.")
@options.sets
@options.as_json
def create(presets: tuple[str, ...], output: str, for_platform: str | None, parent: str | None, part_size: int,
           key: str | None, no_launcher: bool, dry_run: bool,
           sets: tuple[str, ...], as_json: bool) -> None:  # fmt: skip
    """Write a bundle of presets for a machine that has no network. One that was ended goes on where it was.

    \b
    Example:
      spark-spec bundle create eagle3 --platform linux/arm64 -o /media/stick/eagle3
    """
    from appliance.bundle import create as room
    from appliance.bundle import keys
    from appliance.bundle.wanted import gather
    from appliance.machine.docker import require_docker
    from appliance.machine.facts import platform
    from appliance.stack.resolve import resolve

    resolved = [resolve(preset, sets, os.environ) for preset in presets]
    local = any(one.stack.engine.name == "llamacpp" for one in resolved)
    order = room.Order(
        folder=named_file(output, "--output"),
        platform=for_platform or platform(),
        part_bytes=part_size,
        parent=_parent(parent) if parent else None,
        extras=None if no_launcher else ("local",) if local else (),
        key=keys.private(named_file(key, "--key")) if key else None,
    )
    room.check_folder(order.folder)
    require_docker()
    talk = Terminal()
    try:
        wanted = gather(resolved, sets, order.platform, talk)
        items = room.items(wanted, order)
        made = None if dry_run else room.create(wanted, order, resolved[0].machine.paths.state, talk)
    finally:
        talk.close()
    if as_json:
        result_json(
            {
                "folder": str(order.folder),
                "items": [asdict(one) for one in items],
                "written": made is not None,
            }
        )
        return
    table([(one.kind, one.name, size(one.bytes), "to write" if one.new else "sent before") for one in items],
          ("KIND", "NAME", "SIZE", ""))  # fmt: skip
    if made is not None:
        result(f"{order.folder} is complete; read its RUNBOOK.md")


@bundle.command()
@folder_
@options.as_json
def inspect(folder: str, as_json: bool) -> None:
    """Say what a bundle brings. Nothing of it is checked but its manifest.

    \b
    Example:
      spark-spec bundle inspect /media/stick/eagle3
    """
    from appliance.bundle.check import open_bundle
    from appliance.bundle.layout import SIGNATURE

    opened = open_bundle(named_file(folder, "FOLDER"), "never")
    made = opened.bundle
    if as_json:
        result_json(made.model_dump(mode="json") | {"manifest": opened.digest})
        return
    signed = "signed" if (opened.folder / SIGNATURE).is_file() else "not signed"
    result(f"presets {', '.join(one.name for one in made.presets)}; for {made.platform}; {signed}")
    result(f"manifest {opened.digest}" + (f"; after {made.parent}" if made.parent else ""))
    table(_rows(made), ("KIND", "NAME", "SIZE", ""))


def _rows(made: "Bundle") -> list[tuple[str, ...]]:
    """A row an item: kind, name, bytes, and whether this folder has all, some or none of it."""
    items = [
        *(("image", one.reference, one.layers) for one in made.images),
        *(("model", f"{one.repo} at {one.revision[:12]}", one.files) for one in made.models),
        *(("model", one.path, (one,)) for one in made.files),
        *(("vocabulary", one.path, (one,)) for one in made.vocabulary),
    ]
    carried = set(made.carried)
    rows: list[tuple[str, ...]] = []
    for kind, name, blobs in items:
        here = [one for one in blobs if one.sha256 in carried]
        word = (
            ""
            if len(here) == len(blobs)
            else f"{len(here)} of {len(blobs)} contents; the rest was sent before"
        )
        rows.append((kind, name, size(sum(one.bytes for one in blobs)), word))
    if made.launcher:
        rows.append(
            ("launcher", made.launcher.version, size(sum(one.bytes for one in made.launcher.wheels)), "")
        )
    return rows


@bundle.command()
@folder_
@signature_
@key_
@jobs_
@options.as_json
def verify(folder: str, signature: str, key: str | None, jobs: int, as_json: bool) -> None:
    """Check every file of a bundle, and whose it is; name each that is missing, extra, short, long or changed.

    \b
    Example:
      spark-spec bundle verify /media/stick/eagle3
    """
    from appliance.bundle.check import problems, refused
    from appliance.bundle.journal import journal
    from appliance.stack.resolve import resolve_machine

    opened = _opened(folder, signature, key)
    talk = Terminal()
    try:
        seen = journal(resolve_machine([], os.environ).paths.state, opened.digest)
        found = problems(opened, jobs, seen, talk.progress)
    finally:
        talk.close()
    if as_json:
        result_json(
            {"manifest": opened.digest, "key": opened.key, "problems": [asdict(one) for one in found]}
        )
    elif not found:
        result(f"{opened.folder} is whole; {_signed(opened)}")
    if found:
        raise refused(opened, found)


@bundle.command("import")
@folder_
@signature_
@key_
@jobs_
@options.sets
@options.as_json
def import_(
    folder: str, signature: str, key: str | None, jobs: int, sets: tuple[str, ...], as_json: bool
) -> None:
    """Check a bundle, then put its images, models and vocabulary in place. What is there already stays.

    \b
    Example:
      spark-spec bundle import /media/stick/eagle3 --signature required
    """
    from appliance.bundle.receive import receive
    from appliance.machine.docker import require_docker
    from appliance.machine.facts import platform
    from appliance.stack.resolve import resolve_machine

    paths = resolve_machine(sets, os.environ).paths
    opened = _opened(folder, signature, key)
    require_docker()
    talk = Terminal()
    try:
        receipt = receive(opened, platform(), paths, jobs, talk)
    finally:
        talk.close()
    if as_json:
        result_json(asdict(receipt))
        return
    names = " or ".join(f"spark-spec up {name}" for name in receipt.presets)
    result(f"{opened.folder} is in place, {_signed(opened)}; next: {names}")


@bundle.command()
@click.option(
    "--output", "-o", required=True, metavar="FILE", help="The private key; FILE.pub gets the public one."
)
def keygen(output: str) -> None:
    """Make a key that signs bundles.

    \b
    Example:
      spark-spec bundle keygen -o ~/bundles.key
    """
    from appliance.bundle import keys

    path = named_file(output, "--output")
    result(
        f"key {keys.keygen(path)}; give {path}.pub to who receives your bundles, and keep {path} to yourself"
    )


@bundle.group()
def trust() -> None:
    """The keys whose bundles this machine takes.

    \b
    Example:
      spark-spec bundle trust add bundles.key.pub
    """


@trust.command()
@click.argument("file", metavar="FILE.pub")
def add(file: str) -> None:
    """Trust a key from now on. Several may be trusted at a time.

    \b
    Example:
      spark-spec bundle trust add bundles.key.pub
    """
    from appliance.bundle import keys

    result(f"key {keys.trust(named_file(file, 'FILE.pub'))} is trusted")


@trust.command("list")
@options.as_json
def list_keys(as_json: bool) -> None:
    """List the trusted keys by their ids.

    \b
    Example:
      spark-spec bundle trust list
    """
    from appliance.bundle import keys

    names = list(keys.trusted())
    if as_json:
        result_json(names)
    else:
        table([(name,) for name in names])


@trust.command("rm")
@click.argument("key_id", metavar="ID")
def remove(key_id: str) -> None:
    """Trust a key no more.

    \b
    Example:
      spark-spec bundle trust rm 0123456789abcdef
    """
    from appliance.bundle import keys

    keys.distrust(key_id)
    result(f"key {key_id} is not trusted any more")


def _opened(folder: str, signature: str, key: str | None) -> "Opened":
    from typing import cast

    from appliance.bundle import keys
    from appliance.bundle.check import Policy, open_bundle

    given = keys.public(named_file(key, "--key")) if key else None
    return open_bundle(named_file(folder, "FOLDER"), cast(Policy, signature), given)


def _signed(opened: "Opened") -> str:
    return f"signed by key {opened.key}" if opened.key else "no signature was asked for"


def _parent(text: str) -> "tuple[Bundle, bytes]":
    from appliance.bundle.check import read_manifest
    from appliance.bundle.layout import MANIFEST

    path = named_file(text, "--parent")
    return read_manifest(path / MANIFEST if path.is_dir() else Path(path))
