"""`up`: from a resolved stack to a running, verified endpoint; or back to what ran before."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance import engines
from appliance.core.errors import ConfigFault, EngineDied, MachineFault, NoProgress, NotGoodEnough
from appliance.core.talk import Talk
from appliance.health.state import classify
from appliance.lifecycle.baseline import clear
from appliance.lifecycle.managed import Managed
from appliance.lifecycle.port import clear_port
from appliance.lifecycle.prepare import check_local, fetch, machine_for, publish, revisions
from appliance.lifecycle.swap import swap
from appliance.machine.docker import DockerState, probe_docker
from appliance.runtime.base import Observed
from appliance.runtime.choose import Wish, choose
from appliance.stack.check import check
from appliance.stack.release import Release, StackFolder
from appliance.stack.render import Rendered, render
from appliance.stack.resolve import Resolved
from appliance.supervise import status

if TYPE_CHECKING:
    from appliance.verify.report import VerifyReport


@dataclass(frozen=True)
class Wanted:
    """What `up` is asked for, beside the stack itself."""

    name: str
    runtime: Wish = "auto"
    replace: bool = False
    verify: bool = True
    look: Callable[[], DockerState] = probe_docker  # how to learn of Docker; it may have begun already


@dataclass(frozen=True)
class Outcome:
    """A stack that is up: its release, where it runs, whether it was there already, and what verify said."""

    release: Release
    observed: Observed
    adopted: bool
    report: "VerifyReport | None"


def up(resolved: Resolved, wanted: Wanted, talk: Talk) -> Outcome:
    """Bring a stack up and hold it against its promises.

    Raises MachineFault, FetchFault, EngineDied, NoProgress, NotGoodEnough. After a failure, and after Ctrl-C,
    what was started is gone, and the release that ran before runs again.
    """
    stack = Managed(StackFolder(resolved.machine.paths.state, wanted.name), talk)
    with stack.folder.lock():
        reachable = _reach(stack, wanted)
        clear(stack)
        running = adoptable(resolved, wanted, stack) if reachable else None
        if running is not None:
            talk.say(f"release {running.number:04d} runs already ({running.runtime})")
            try:
                return _prove(stack, running, wanted, adopted=True)
            except (EngineDied, NoProgress) as error:
                talk.say(f"{error.what} ({error.why}): starting it anew")
        return _start_new(resolved, wanted, stack, reachable=reachable)


def _reach(stack: Managed, wanted: Wanted) -> bool:
    """Whether we can see what runs of the stack. On a Docker that does not answer it may well live on: that is
    refused, unless it is to be left behind (`--runtime process`)."""
    try:
        stack.observe()
        return True
    except ConfigFault:
        return True  # a damaged state file: stopping looks everywhere
    except MachineFault as error:
        if wanted.runtime != "process":
            raise MachineFault(
                f"the stack {stack.folder.name} was started on Docker, which does not answer now",
                error.why,
                f"{error.fix}; or leave it there: --runtime process",
            ) from None
        stack.talk.say(f"leaving what runs on Docker behind ({error.why})")
        return False


def _start_new(resolved: Resolved, wanted: Wanted, stack: Managed, *, reachable: bool) -> Outcome:
    """All that can fail without touching what runs comes first; then the swap."""
    if reachable and not _alive(stack):
        stack.stop()  # what a death left: it may still hold the port
    runtime = choose(wanted.runtime, stack.talk, wanted.look)
    if runtime == "docker" and not stack.folder.exists():
        stack.runtime(runtime).stop()  # the state folder may have been lost while its container was not
    for warning in check(resolved.stack):
        stack.talk.say(f"warning: {warning}")
    machine, paths = machine_for(resolved, runtime), resolved.machine.paths
    rendered = render(resolved.stack, machine, wanted.name)
    check_local(resolved, rendered)
    other = clear_port(resolved.stack.serve.port, stack, replace=wanted.replace, talk=stack.talk)
    leaving = (stack, *([other] if other else [])) if reachable else ()
    on_gpu = engines.get(resolved.stack.engine.name).gpu
    if on_gpu:
        from appliance.lifecycle.room import check_ahead

        check_ahead(resolved.stack, paths, machine, leaving)
    fetch(resolved, rendered, stack.talk)
    if (
        now := revisions(resolved)
    ) != machine.revisions:  # the release keeps that of what was fetched just now
        rendered = render(resolved.stack, replace(machine, revisions=now), wanted.name)
    if on_gpu or not _seen_good(stack, rendered):  # reading the headers of what ran well would only cost time
        from appliance.lifecycle.room import make_room

        make_room(resolved.stack, paths, machine, leaving, stack.talk)
    release = publish(stack, rendered)
    if not reachable:
        stack.abandon()
    with ExitStack() as held:
        if other is not None:
            held.enter_context(other.folder.lock())
        return swap(stack, release, other, lambda: _prove(stack, release, wanted, adopted=False))


def _seen_good(stack: Managed, rendered: Rendered) -> bool:
    """Whether this very content has served before."""
    try:
        known = stack.folder.published(rendered.digest)
        return known is not None and known.number in stack.folder.state().good
    except ConfigFault:
        return False


def _alive(stack: Managed) -> bool:
    try:
        return stack.observe().alive
    except ConfigFault:
        return False


def adoptable(resolved: Resolved, wanted: Wanted, stack: Managed) -> Release | None:
    """The current release where it is just what is wanted, and starting or ready."""
    try:
        current = stack.current()
    except ConfigFault:
        return None
    if current is None or not current.intact() or wanted.runtime not in ("auto", current.runtime):
        return None
    asked = render(resolved.stack, machine_for(resolved, current.runtime), wanted.name)
    if asked.digest != current.digest:
        return None
    observed = stack.observe()
    health = classify(observed, time.time())
    same = observed.digest == asked.digest
    return current if same and health.state in (status.STARTING, status.READY) else None


def _prove(stack: Managed, release: Release, wanted: Wanted, *, adopted: bool) -> Outcome:
    """Wait for ready, verify where asked for, and mark the release good."""
    observed = stack.wait(release)
    report = None
    if wanted.verify:
        from appliance.lifecycle.prove import check  # what only a verification needs

        stack.talk.phase("verifying")
        report = check(stack, release, quick=True)
        if not report.ok:
            raise NotGoodEnough(*report.complaint())
    stack.folder.remember_good(release.number)
    stack.audit("up", release=release.number, digest=release.digest, verified=wanted.verify,
                       adopted=adopted, where=dict(observed.where))  # fmt: skip
    return Outcome(release, observed, adopted, report)
