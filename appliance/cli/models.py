"""models: list, pull, verify."""

import os

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
    from appliance.models.place import place
    from appliance.stack.resolve import resolve_machine

    folder = resolve_machine([], os.environ).paths.models
    rows = [(entry, (folder / place(entry))) for entry in map(load_entry, entry_ids())]
    if as_json:
        result_json(
            [
                {
                    "id": entry.id,
                    "name": entry.name,
                    "license": entry.license,
                    "path": str(path),
                    "here": path.is_file(),
                }
                for entry, path in rows
            ]
        )
        return
    table(
        [
            (entry.id, entry.name, entry.license, size(path.stat().st_size) if path.is_file() else "not here")
            for entry, path in rows
        ],
        ("MODEL", "NAME", "LICENCE", "HERE"),
    )


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
    from appliance.models.ensure import ensure
    from appliance.stack.render import stack_models
    from appliance.stack.resolve import resolve

    resolved = resolve(preset, sets, os.environ)
    folder, talk = resolved.machine.paths.models, Terminal()
    try:
        paths = [ensure(entry, folder, talk.say, talk.progress) for entry in stack_models(resolved.stack)]
    finally:
        talk.close()
    if as_json:
        result_json({"folder": str(folder), "files": [str(path) for path in paths]})
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
    from appliance.models.ensure import verify as check
    from appliance.models.place import place
    from appliance.stack.render import stack_models
    from appliance.stack.resolve import resolve

    resolved = resolve(preset, sets, os.environ)
    folder, talk = resolved.machine.paths.models, Terminal()
    rows, bad = [], []
    try:
        for entry in stack_models(resolved.stack):
            fault = None
            try:
                check(entry, folder, talk.progress)
            except Mismatch as mismatch:
                fault = mismatch
                bad.append(mismatch)
            path = str(folder / place(entry))
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
