"""status and logs."""

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, plain, result, result_json, table
from appliance.core.errors import MachineFault, SparkSpecError, UsageFault

if TYPE_CHECKING:
    from appliance.lifecycle.managed import Managed


@click.command()
@options.stack_name
@options.as_json
def status(name: str | None, as_json: bool) -> None:
    """Say how the stack NAME is, or all of them.

    States: absent (down), starting, ready, wedged (alive, but no tokens come), exited (given up), stopped (being
    taken down), unknown (it cannot be seen; the reason says why).

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
    away: list[SparkSpecError] = []  # a Docker that does not answer is asked once
    seen = [_seen(stack, away) for stack in stacks]
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
    return "-" if length is None else f"{length:.2f}"


def _seen(stack: "Managed", away: list[SparkSpecError]) -> dict[str, Any]:
    from appliance.health.state import Health, classify
    from appliance.runtime.base import ABSENT
    from appliance.verify.acceptance import acceptance_length

    release, observed, health = None, ABSENT, Health("unknown")
    try:
        state = stack.folder.state()
        if state.runtime == "docker" and away:
            raise away[0]
        observed = stack.observe()
        health = classify(observed, time.time())
        release = stack.current()
        if state.left_on_docker:
            health = replace(health, reason="a container was left on Docker; the next up or down removes it")
    except MachineFault as error:
        away.append(error)
        health = Health("unknown", reason=error.why)
    except SparkSpecError as error:
        health = replace(health, reason=f"{error.what}: {error.why}")
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
    name_of_runtime = (
        stack.folder.state().runtime or "process"
    )  # a container's log goes with it; a local one stays
    lines_seen = 0
    for line in stack.runtime(name_of_runtime).logs(follow=follow, lines=lines):
        lines_seen += 1
        result(plain(line))
    if not lines_seen and lines:
        raise UsageFault(
            f"{stack.folder.name} has no log",
            "it is down, and a container's log goes with the container",
            "bring it up: spark-spec up PRESET",
        )
