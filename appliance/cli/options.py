"""Options that several commands share, each said once."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def preset_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from appliance.catalog.preset import names

    return [name for name in names() if name.startswith(incomplete)]


def known_stacks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    import os

    from appliance.stack.release import stack_names
    from appliance.stack.resolve import resolve_machine

    return [
        name
        for name in stack_names(resolve_machine([], os.environ).paths.state)
        if name.startswith(incomplete)
    ]


preset = click.argument("preset", shell_complete=preset_names)
stack_name = click.argument("name", required=False, shell_complete=known_stacks)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
sets = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change one setting; may be repeated."
)
no_spec = click.option("--no-spec", is_flag=True, help="Serve the target alone, without speculation.")
name = click.option("--name", metavar="NAME", help="Name of the stack; the preset's own unless given.")
