"""`up --dry-run`: what `up` would do, found out without doing any of it."""

from typing import Any

from appliance.core.talk import Talk
from appliance.images.local import find
from appliance.lifecycle.managed import Managed
from appliance.lifecycle.port import clear_port
from appliance.lifecycle.prepare import check_local, machine_for
from appliance.lifecycle.room import judge
from appliance.lifecycle.up import Wanted, adoptable
from appliance.models.bring import is_here, path_of
from appliance.runtime.choose import choose
from appliance.stack.check import check
from appliance.stack.release import StackFolder
from appliance.stack.render import render, stack_models
from appliance.stack.resolve import Resolved


def dry_run(resolved: Resolved, wanted: Wanted, talk: Talk) -> dict[str, Any]:
    """The steps in words, and the facts behind them. Raises what `up` would raise before it fetches anything."""
    stack = Managed(StackFolder(resolved.machine.paths.state, wanted.name), talk)
    running = adoptable(resolved, wanted, stack)
    if running is not None:
        steps = [f"keep release {running.number:04d}, which runs already ({running.runtime})"]
        return {"name": wanted.name, "runtime": running.runtime, "steps": [*steps, *_last(wanted)]}
    runtime = choose(wanted.runtime, talk, wanted.look)
    for warning in check(resolved.stack):
        talk.say(f"warning: {warning}")
    machine = machine_for(resolved, runtime)
    rendered = render(resolved.stack, machine, wanted.name)
    check_local(resolved, rendered)
    other = clear_port(resolved.stack.serve.port, stack, replace=wanted.replace, talk=talk)
    paths = resolved.machine.paths
    judge(resolved.stack, paths, machine, (stack, *([other] if other else [])), talk)
    steps = [f"fetch {entry.id} to {path_of(entry, paths)}" for entry in stack_models(resolved.stack)
             if not is_here(entry, paths)]  # fmt: skip
    if rendered.image and find(rendered.image) is None:
        steps.append(f"get the image {rendered.image}")
    steps.append(f"publish a release of {wanted.name} in {stack.folder.folder / 'releases'}")
    if other is not None:
        steps.append(f"take down {other.folder.name}, which holds port {resolved.stack.serve.port}")
    current = stack.current()
    if current is not None:
        steps.append(f"stop release {current.number:04d}")
    steps.append(f"start it ({runtime}) on http://127.0.0.1:{resolved.stack.serve.port}/v1")
    return {
        "name": wanted.name,
        "runtime": runtime,
        "image": rendered.image,
        "steps": [*steps, *_last(wanted)],
    }


def _last(wanted: Wanted) -> list[str]:
    return ["wait for a token through chat", *(["verify"] if wanted.verify else [])]
