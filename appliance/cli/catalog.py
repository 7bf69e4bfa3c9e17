"""presets, show, render."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, table
from appliance.core.errors import UsageFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from appliance.catalog.preset import Preset
    from appliance.catalog.stack import RuntimeName
    from appliance.core.settings import Value


@click.command()
@options.as_json
def presets(as_json: bool) -> None:
    """List the presets.

    \b
    Example:
      spark-spec presets
    """
    from appliance.catalog.preset import load, names

    found = [load(name) for name in names()]
    if as_json:
        result_json([{"name": one.name, "title": one.title, "about": one.about} for one in found])
    else:
        table([(one.name, one.title) for one in found])


@click.command()
@options.preset
@options.sets
@options.no_spec
@options.as_json
def show(preset: str, sets: tuple[str, ...], no_spec: bool, as_json: bool) -> None:
    """Show every setting of PRESET, its value and where it comes from; and whether such a stack can be.

    \b
    Example:
      spark-spec show demo --set draft.k=2
    """
    from appliance.core.settings import in_open
    from appliance.stack.check import check
    from appliance.stack.resolve import known_settings, resolve

    resolved, talk = resolve(preset, sets, os.environ, no_spec=no_spec), Terminal()
    known = known_settings()
    keys = [*known, *(key for key in resolved.values if in_open(key, known))]
    values = {key: resolved.values[key] for key in keys if key in resolved.values}
    about = {key: known[key if key in known else key.partition(".")[0]].description for key in values}
    if as_json:
        result_json(
            {
                "preset": resolved.preset.name,
                "settings": {
                    key: {"value": item.value, "source": item.source, "about": about[key]}
                    for key, item in values.items()
                },
            }
        )
    else:
        _table(resolved.preset, values, about)
    for warning in check(resolved.stack):  # last: the values are seen also where they cannot be
        talk.say(f"warning: {warning}")


def _table(preset: "Preset", values: "Mapping[str, Value]", about: "Mapping[str, str]") -> None:
    result(f"{preset.name}: {preset.title}\n")
    table(
        [(key, _shown(item.value), item.source, about[key]) for key, item in values.items()],
        ("SETTING", "VALUE", "FROM", "MEANS"),
    )


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command()
@options.preset
@options.sets
@options.no_spec
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), required=True, help="An empty or new folder."
)
@click.option(
    "--runtime",
    type=click.Choice(["docker", "process"]),
    default="docker",
    show_default=True,
    help="Render for this runtime.",
)
@options.name
@click.option(
    "--reference", is_flag=True, help="Write variables for compose to fill instead of this machine's folders."
)
def render(
    preset: str,
    sets: tuple[str, ...],
    no_spec: bool,
    folder: Path,
    runtime: "RuntimeName",
    name: str | None,
    reference: bool,
) -> None:
    """Write the files of PRESET's stack to a folder. `docker compose up` runs there without spark-spec.

    \b
    Example:
      spark-spec render demo -o ./demo-stack
      docker compose -f ./demo-stack/compose.yaml up
    """
    from appliance.lifecycle.render_to import render_to
    from appliance.stack.check import check
    from appliance.stack.resolve import resolve

    if reference and runtime != "docker":
        raise UsageFault(
            "--reference goes with --runtime docker", "a process has no variables to fill", "leave one out"
        )
    resolved, talk = resolve(preset, sets, os.environ, no_spec=no_spec), Terminal()
    for warning in check(resolved.stack):
        talk.say(f"warning: {warning}")
    path = render_to(
        resolved, resolved.preset.name if name is None else name, folder, runtime, reference=reference
    )
    talk.say(f"rendered to {path}")
    result(str(path))
