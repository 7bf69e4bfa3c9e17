"""plan: the memory budget."""

import os
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, size, table

if TYPE_CHECKING:
    from appliance.stack.memory import Budget

UNKNOWN = "unknown"
VERDICTS = {True: "it fits", False: "it does not fit", None: "not known: what is known would fit"}


@click.command()
@options.preset
@options.sets
@options.no_spec
@options.as_json
def plan(preset: str, sets: tuple[str, ...], no_spec: bool, as_json: bool) -> None:
    """Show what PRESET takes of this machine's memory, and whether its models fit one another.

    It reads the headers of the models that are here, and no weights; of others it has what the catalog knows. What a
    running stack of the preset's name holds counts as free, since `up` stops it. It ends with 4 where it does not fit.

    \b
    Example:
      spark-spec plan demo
      spark-spec plan eagle3 --set serve.max_seq_len=65536
    """
    from appliance.lifecycle import room
    from appliance.lifecycle.managed import Managed
    from appliance.stack.check import check
    from appliance.stack.release import StackFolder
    from appliance.stack.resolve import resolve

    resolved, talk = resolve(preset, sets, os.environ, no_spec=no_spec), Terminal()
    stack, paths = resolved.stack, resolved.machine.paths
    for warning in check(stack):
        talk.say(f"warning: {warning}")
    own = Managed(StackFolder(paths.state, resolved.preset.name), talk)
    found, models, warnings = room.plan(stack, paths, (own,))
    for warning in warnings:
        talk.say(f"warning: {warning}")
    if as_json:
        result_json(_facts(found, warnings))
    else:
        _tell(found)
    room.check_room(stack, models, found)


def _facts(found: "Budget", warnings: tuple[str, ...]) -> dict[str, Any]:
    """Sizes in bytes; null is what is not known."""
    return {
        "fits": found.fits,
        "needs": found.needs,
        "available": found.room,
        "total": found.memory.total,
        "freed": found.freed,
        "parts": [{"name": part.name, "bytes": part.bytes, "from": part.source} for part in found.parts],
        "at_start": {"bytes": found.at_start[0], "from": found.at_start[1]} if found.at_start else None,
        "unknown": list(found.unknown),
        "notes": list(found.notes),
        "warnings": list(warnings),
    }


def _tell(found: "Budget") -> None:
    rows: list[tuple[str, ...]] = [(part.name, _size(part.bytes), part.source) for part in found.parts]
    more = " and more" if found.unknown else ""
    rows.append(("in all", f"{size(found.known)}{more}", ""))
    if found.at_start:
        rows.append(("free at the start", size(found.at_start[0]), found.at_start[1]))
    freed = f", {size(found.freed)} of it given back by what runs" if found.freed else ""
    rows.append(("available", size(found.room), f"of {size(found.memory.total)}{freed}"))
    table(rows, ("PART", "BYTES", "FROM"))
    for note in found.notes:
        result(f"note: {note}")
    result(VERDICTS[found.fits])


def _size(count: int | None) -> str:
    return UNKNOWN if count is None else size(count)
