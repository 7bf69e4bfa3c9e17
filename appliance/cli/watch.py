"""status and logs."""

import os
import time
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, table
from appliance.core.errors import MachineFault

if TYPE_CHECKING:
    from appliance.lifecycle.managed import Managed


@click.command()
@options.stack_name
@options.as_json
def status(name: str | None, as_json: bool) -> None:
    """Say how the stack NAME is, or all of them: absent, starting, ready, wedged or exited.

    \b
    Example:
      spark-spec status --json
    """
    from appliance.lifecycle.managed import Managed, find
    from appliance.stack.release import StackFolder, stack_names
    from appliance.stack.resolve import resolve_machine

    settings, talk = resolve_machine([], os.environ), Terminal()
    if name:
        stacks = [find(settings, name, talk)]
    else:
        state = settings.paths.state
        stacks = [Managed(StackFolder(state, one), talk) for one in stack_names(state)]
    seen = [_seen(stack) for stack in stacks]
    if as_json:
        result_json(seen)
    elif not seen:
        result("no stacks; start one: spark-spec up demo")
    else:
        table(
            [
                (one["name"], one["state"], one["phase"] or one["reason"] or "-", str(one["release"] or "-"),
                 one["runtime"] or "-", one["endpoint"] or "-", _acceptance(one["acceptance_length"]))
                for one in seen
            ],
            ("NAME", "STATE", "DETAIL", "RELEASE", "RUNTIME", "ENDPOINT", "ACCEPTANCE LENGTH"),
        )  # fmt: skip


def _acceptance(length: float | None) -> str:
    return "unknown" if length is None else f"{length:.2f}"


def _seen(stack: "Managed") -> dict[str, Any]:
    from appliance.health.state import Health, classify
    from appliance.runtime.base import ABSENT
    from appliance.verify.acceptance import acceptance_length

    release = stack.current()
    try:
        observed = stack.observe()
        health = classify(observed, time.time())
    except MachineFault as error:
        observed, health = ABSENT, Health("unknown", reason=error.why)
    said = observed.status
    counters = said.counters if said else None
    return {
        "name": stack.folder.name,
        "state": health.state,
        "phase": health.phase,
        "reason": health.reason,
        "release": release.number if release else None,
        "runtime": release.runtime if release else None,
        "endpoint": f"http://127.0.0.1:{release.port}/v1" if release else None,
        "model": release.manifest["stack"]["serve"]["name"] if release else None,
        "image": release.manifest["image"] if release else None,
        "where": dict(observed.where),
        "engine_starts": said.starts if said else None,
        "acceptance_length": acceptance_length(counters.accepted, counters.steps) if counters else None,
    }


@click.command()
@options.stack_name
@click.option("-f", "--follow", is_flag=True, help="Go on until the engine ends or you press Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=100, show_default=True, help="Lines from the end."
)
def logs(name: str | None, follow: bool, lines: int) -> None:
    """Show the engine's log of the stack NAME.

    \b
    Example:
      spark-spec logs demo --follow
    """
    from appliance.lifecycle.managed import find
    from appliance.stack.resolve import resolve_machine

    stack = find(resolve_machine([], os.environ), name, Terminal())
    release = stack.current() or next(reversed(stack.folder.releases()), None)
    if release is None:
        result("nothing was ever started")
        return
    for line in stack.runtime(release.runtime).logs(follow=follow, lines=lines):
        result(line)
