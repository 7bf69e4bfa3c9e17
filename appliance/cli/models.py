"""models: list, plan, pull, verify, add, rm."""

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, size, table

if TYPE_CHECKING:
    from appliance.models.plan import ModelPlan


@click.group()
def models() -> None:
    """List, fetch and check models.

    \b
    Example:
      spark-spec models pull demo
    """


@models.command("list")
@options.as_json
def list_models(as_json: bool) -> None:
    """List the catalog's models, and what else lies in the hub's cache; which are here, and how large.

    \b
    Example:
      spark-spec models list
    """
    from appliance.models.shelf import shelf
    from appliance.stack.resolve import resolve_machine

    held = shelf(resolve_machine([], os.environ).paths)
    if as_json:
        result_json([asdict(one) | {"path": str(one.path), "here": one.state == "here"} for one in held])
        return
    table(
        [
            (one.id, one.name, one.license or "unknown", one.state, size(one.bytes) if one.bytes else "")
            for one in held
        ],
        ("MODEL", "NAME", "LICENCE", "STATE", "SIZE"),
    )


@models.command()
@options.preset
@options.sets
@options.as_json
def plan(preset: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Say what getting the models of PRESET would mean: files, sizes, terms, disk. Nothing is fetched.

    \b
    Example:
      spark-spec models plan eagle3
    """
    from appliance.models.plan import plan as plan_of
    from appliance.stack.render import stack_models
    from appliance.stack.resolve import resolve

    resolved = resolve(preset, sets, os.environ)
    paths = resolved.machine.paths
    plans = [plan_of(entry, paths) for entry in stack_models(resolved.stack)]
    folder = paths.hub if any(one.in_hub for one in plans) else paths.models
    needed = None if any(one.missing is None for one in plans) else sum(one.missing or 0 for one in plans)
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
    after = None if needed is None else free - needed
    if as_json:
        result_json(
            {
                "folder": str(folder),
                "models": [asdict(one) for one in plans],
                "bytes_to_fetch": needed,
                "free_bytes": free,
                "free_bytes_after": after,
            }
        )
        return
    for one in plans:
        _show(one)
    result(f"to fetch: {_size(needed)}; free in {folder}: {size(free)}, afterwards {_left(after)}")


def _show(one: "ModelPlan") -> None:
    """A plan for a person."""
    pinned = "pinned by the catalog" if one.pinned else "the one that is here, else the current one"
    result(f"{one.id}: {one.name}")
    table(
        [
            ("  from", one.origin),
            *([("  revision", f"{one.revision or 'unknown'} ({pinned})")] if one.in_hub else []),
            ("  licence", one.license or "unknown"),
            (
                "  gated",
                "unknown" if one.gated is None else "yes: its terms need an account" if one.gated else "no",
            ),
            ("  size", _size(one.bytes) + (f" of the repository's {size(one.whole)}" if one.whole else "")),
            ("  to fetch", _size(one.missing)),
            ("  told by", one.told_by),
        ]
    )
    table([(f"    {file.path}", size(file.bytes), "here" if file.here else "") for file in one.files or ()])


def _size(count: int | None) -> str:
    return "unknown" if count is None else size(count)


def _left(count: int | None) -> str:
    if count is not None and count < 0:
        return f"it lacks {size(-count)}"
    return _size(count)


@models.command()
@options.preset
@options.sets
@options.as_json
def pull(preset: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Fetch the models of PRESET, compare each file with what it should be, and print the folder they lie in.

    Only what an engine reads is fetched, and what is whole is kept. A token is looked for in HF_TOKEN, in the hub's
    own login, and in `spark-spec secrets`.

    \b
    Example:
      spark-spec models pull demo
    """
    from appliance.catalog.entries import HubSource
    from appliance.models.bring import pull as get
    from appliance.models.harmony_get import bring_harmony
    from appliance.stack.render import needs_harmony, stack_models
    from appliance.stack.resolve import resolve

    resolved, talk = resolve(preset, sets, os.environ), Terminal()
    paths, entries = resolved.machine.paths, stack_models(resolved.stack)
    try:
        found = get(entries, paths, talk.say, talk.progress, preset)
        if needs_harmony(resolved.stack):
            bring_harmony(paths.harmony, talk.say, talk.progress)
    finally:
        talk.close()
    folder = paths.hub if isinstance(entries[0].source, HubSource) else paths.models
    if as_json:
        result_json({"folder": str(folder), "files": [str(path) for path in found]})
    else:
        result(str(folder))


@models.command()
@options.preset
@options.sets
@click.option("--repair", is_flag=True, help="Get what is damaged or absent anew, and only that.")
@options.as_json
def verify(preset: str, sets: tuple[str, ...], repair: bool, as_json: bool) -> None:
    """Hash the models of PRESET anew; name what is damaged or absent.

    They are compared with the hub's own list where it can be asked, else with the record of the last fetch.

    \b
    Example:
      spark-spec models verify demo
    """
    from appliance.core.errors import Mismatch
    from appliance.models import bring
    from appliance.stack.render import stack_models
    from appliance.stack.resolve import resolve

    resolved, talk = resolve(preset, sets, os.environ), Terminal()
    paths = resolved.machine.paths
    rows: list[dict[str, Any]] = []
    bad: list[Mismatch] = []
    try:
        for entry in stack_models(resolved.stack):
            fault = None
            try:
                if repair:
                    bring.repair(entry, paths, talk.say, talk.progress)
                else:
                    bring.verify(entry, paths, talk.progress)
            except Mismatch as mismatch:
                fault = mismatch
                bad.append(mismatch)
            path = str(bring.path_of(entry, paths))
            rows.append(
                {"id": entry.id, "path": path, "good": fault is None, "why": fault.why if fault else ""}
            )
            if fault is None and not as_json:
                talk.close()
                result(f"{path}: good")
    finally:
        talk.close()
    if as_json:
        result_json(rows)
    if len(bad) == 1:
        raise bad[0]
    if bad:
        raise Mismatch(
            "; ".join(fault.what for fault in bad), "; ".join(fault.why for fault in bad), bad[0].fix
        )


@models.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", metavar="ORG/NAME", help="Its name; local/FOLDER unless given.")
@options.as_json
def add(folder: Path, name: str | None, as_json: bool) -> None:
    """Take the checkpoint in FOLDER into the hub's cache, whole or not at all, and print its snapshot.

    Its files become hard links where that can be, so it costs no room, and must not be written into any more.

    \b
    Example:
      spark-spec models add ./my-head --name me/my-head
    """
    from appliance.core.paths import named_file
    from appliance.models.hub_add import add as take
    from appliance.models.hub_add import name_of
    from appliance.stack.resolve import resolve_machine

    source, talk = named_file(str(folder), "the folder"), Terminal()
    repo = name or name_of(source)
    try:
        path = take(source, repo, resolve_machine([], os.environ).paths.hub, talk.say, talk.progress)
    finally:
        talk.close()
    if as_json:
        result_json({"name": repo, "revision": path.name, "path": str(path)})
    else:
        result(str(path))


@models.command()
@click.argument("model", metavar="MODEL")
@options.as_json
def rm(model: str, as_json: bool) -> None:
    """Remove MODEL, an id or a name of `models list`, from this machine; never one that a stack uses.

    \b
    Example:
      spark-spec models rm gpt-oss-120b
    """
    from appliance.lifecycle.used import remove_unused
    from appliance.stack.resolve import resolve_machine

    talk = Terminal()
    held, freed = remove_unused(model, resolve_machine([], os.environ).paths, talk.say)
    if as_json:
        result_json({"id": held.id, "path": str(held.path), "bytes": freed})
    else:
        result(f"removed {held.path} ({size(freed)})")
