"""models: list, pull, verify."""

import os
from pathlib import Path

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, size, table


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
    """List the catalog's models, and which are here.

    \b
    Example:
      spark-spec models list
    """
    from appliance.catalog.entries import entry_ids, load_entry
    from appliance.models.bring import is_here, path_of
    from appliance.stack.resolve import resolve_machine

    paths = resolve_machine([], os.environ).paths
    rows = [(entry, path_of(entry, paths), is_here(entry, paths)) for entry in map(load_entry, entry_ids())]
    if as_json:
        result_json(
            [
                {
                    "id": entry.id,
                    "name": entry.name,
                    "license": entry.license,
                    "path": str(path),
                    "here": here,
                }
                for entry, path, here in rows
            ]
        )
        return
    table(
        [
            (entry.id, entry.name, entry.license or "unknown", _size(path) if here else "not here")
            for entry, path, here in rows
        ],
        ("MODEL", "NAME", "LICENCE", "HERE"),
    )


def _size(path: Path) -> str:
    """Of a file, or of a hub's folder, whose content lies in its blobs."""
    files = [path] if path.is_file() else (path / "blobs").glob("*")
    return size(sum(file.stat().st_size for file in files))


@models.command()
@options.preset
@options.sets
@options.as_json
def pull(preset: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Fetch the models of PRESET and print the folder they lie in.

    \b
    Example:
      spark-spec models pull demo
    """
    from appliance.catalog.entries import HubSource
    from appliance.models.bring import bring
    from appliance.stack.render import stack_models
    from appliance.stack.resolve import resolve

    resolved, talk = resolve(preset, sets, os.environ), Terminal()
    paths, entries = resolved.machine.paths, stack_models(resolved.stack)
    try:
        found = [bring(entry, paths, talk.say, talk.progress) for entry in entries]
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
@options.as_json
def verify(preset: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Hash the models of PRESET anew; name those that are damaged or absent.

    \b
    Example:
      spark-spec models verify demo
    """
    from appliance.core.errors import Mismatch
    from appliance.models.bring import path_of
    from appliance.models.bring import verify as check
    from appliance.stack.render import stack_models
    from appliance.stack.resolve import resolve

    resolved, talk = resolve(preset, sets, os.environ), Terminal()
    paths = resolved.machine.paths
    rows, bad = [], []
    try:
        for entry in stack_models(resolved.stack):
            fault = None
            try:
                check(entry, paths, talk.progress)
            except Mismatch as mismatch:
                fault = mismatch
                bad.append(mismatch)
            path = str(path_of(entry, paths))
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
