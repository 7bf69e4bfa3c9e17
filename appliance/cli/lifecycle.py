"""up, down, restart, rollback."""

import os
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json

if TYPE_CHECKING:
    from appliance.lifecycle.up import Outcome
    from appliance.runtime.base import Observed
    from appliance.runtime.choose import Wish
    from appliance.stack.release import Release


@click.command()
@options.preset
@options.name
@options.sets
@click.option(
    "--runtime",
    type=click.Choice(["auto", "docker", "process"]),
    default="auto",
    show_default=True,
    help="Where the engine runs; auto takes docker when a daemon answers.",
)
@options.no_spec
@click.option("--no-verify", is_flag=True, help="End when the first token came; check nothing more.")
@click.option("--replace", is_flag=True, help="Take down another stack that holds the port.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@options.as_json
def up(
    preset: str,
    name: str | None,
    sets: tuple[str, ...],
    runtime: "Wish",
    no_spec: bool,
    no_verify: bool,
    replace: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Bring PRESET up: fetch what is missing, start it, wait for a real token, verify.

    PRESET is a name from `spark-spec presets`, or the path of your own preset file. A stack that is up already
    is left as it is; a failed start puts back what ran before.

    \b
    Example:
      spark-spec up demo
      spark-spec up demo --set draft.k=2 --set serve.port=8001
    """
    from appliance.machine.docker import probe_ahead, probe_docker

    look = probe_docker if runtime == "process" else probe_ahead()  # it answers while the rest is loaded
    from appliance.core.names import check_name
    from appliance.lifecycle.up import Wanted
    from appliance.lifecycle.up import up as bring_up
    from appliance.stack.resolve import resolve

    resolved = resolve(preset, sets, os.environ, no_spec=no_spec)
    wanted = Wanted(
        check_name(resolved.preset.name if name is None else name),
        runtime,
        replace=replace,
        verify=not no_verify,
        look=look,
    )
    talk = Terminal()
    if dry_run:
        from appliance.lifecycle.dry_run import dry_run as rehearse

        plan = rehearse(resolved, wanted, talk)
        if as_json:
            result_json(plan)
        else:
            for line in plan["steps"]:
                result(line)
        return
    try:
        outcome = bring_up(resolved, wanted, talk)
    finally:
        talk.close()
    if as_json:
        result_json(_outcome(wanted.name, outcome))
    else:
        _tell(wanted.name, outcome)


def _outcome(name: str, outcome: "Outcome") -> dict[str, Any]:
    told = _running(name, outcome.release, outcome.observed)
    report = outcome.report.as_data() if outcome.report else None
    return told | {"adopted": outcome.adopted, "verify": report}


def _running(name: str, release: "Release", observed: "Observed") -> dict[str, Any]:
    return {
        "name": name,
        "release": release.number,
        "runtime": release.runtime,
        "endpoint": f"http://127.0.0.1:{release.port}/v1",
        "model": release.manifest["stack"]["serve"]["name"],
        "where": dict(observed.where),
    }


def _tell(name: str, outcome: "Outcome") -> None:
    from appliance.cli.verify import tell_report

    if outcome.report:
        tell_report(outcome.report)
    _tell_running(name, outcome.release)


def _tell_running(name: str, release: "Release") -> None:
    result(
        f"{name} is up on http://127.0.0.1:{release.port}/v1 as {release.manifest['stack']['serve']['name']}"
    )


@click.command()
@options.stack_name
@options.as_json
def down(name: str | None, as_json: bool) -> None:
    """Stop the stack NAME (the only one, where there is one). Its releases and models stay.

    \b
    Example:
      spark-spec down demo
    """
    from appliance.lifecycle import change
    from appliance.lifecycle.managed import find
    from appliance.stack.resolve import resolve_machine

    stack = find(resolve_machine([], os.environ), name, Terminal())
    stopped = change.down(stack)
    if as_json:
        result_json({"name": stack.folder.name, "stopped": stopped})
    else:
        result(f"{stack.folder.name} is down" if stopped else f"{stack.folder.name} was down already")


@click.command()
@options.stack_name
@options.as_json
def restart(name: str | None, as_json: bool) -> None:
    """Stop and start the stack NAME, and wait until a token comes back.

    \b
    Example:
      spark-spec restart demo
    """
    from appliance.lifecycle import change

    _start_over(name, as_json, change.restart)


@click.command()
@options.stack_name
@options.as_json
def rollback(name: str | None, as_json: bool) -> None:
    """Go back to the release that was last seen good before the present one.

    \b
    Example:
      spark-spec rollback demo
    """
    from appliance.lifecycle import change

    _start_over(name, as_json, change.rollback)


def _start_over(name: str | None, as_json: bool, action: Any) -> None:
    from appliance.lifecycle.managed import find
    from appliance.stack.resolve import resolve_machine

    talk = Terminal()
    stack = find(resolve_machine([], os.environ), name, talk)
    try:
        release, observed = action(stack)
    finally:
        talk.close()
    if as_json:
        result_json(_running(stack.folder.name, release, observed))
    else:
        _tell_running(stack.folder.name, release)
