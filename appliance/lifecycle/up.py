"""`up`: from a resolved stack to a running, verified endpoint; or back to what ran before."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.core.errors import EngineDied, MachineFault, NoProgress, NotGoodEnough, SparkSpecError
from appliance.core.talk import Talk
from appliance.health.state import classify
from appliance.lifecycle.baseline import clear
from appliance.lifecycle.managed import Managed
from appliance.lifecycle.port import clear_port
from appliance.lifecycle.prepare import fetch, machine_for, publish
from appliance.runtime.base import Observed
from appliance.runtime.choose import Wish, choose
from appliance.stack.release import Release, StackFolder
from appliance.stack.render import render
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
        _reach(stack, wanted)
        clear(stack)
        running = adoptable(resolved, wanted, stack)
        if running is not None:
            talk.say(f"release {running.number:04d} runs already ({running.runtime})")
            try:
                return _prove(stack, running, wanted, adopted=True)
            except (EngineDied, NoProgress) as error:
                talk.say(f"{error.what} ({error.why}): starting it anew")
        return _start_new(resolved, wanted, stack)


def _reach(stack: Managed, wanted: Wanted) -> None:
    """Make sure we can see what runs of the stack: on a Docker that does not answer it may well live on."""
    try:
        stack.observe()
    except MachineFault as error:
        if wanted.runtime != "process":
            raise MachineFault(
                f"the stack {stack.folder.name} was started on Docker, which does not answer now",
                error.why,
                f"{error.fix.partition(', or run without')[0]}; or leave it there: --runtime process",
            ) from None
        stack.talk.say(f"leaving what runs on Docker behind ({error.why})")
        stack.abandon()


def _start_new(resolved: Resolved, wanted: Wanted, stack: Managed) -> Outcome:
    """All that can fail without touching what runs comes first; then the swap."""
    if not stack.observe().alive:
        stack.stop()  # what a death left: it may still hold the port
    runtime = choose(wanted.runtime, stack.talk)
    rendered = render(resolved.stack, machine_for(resolved, runtime), wanted.name)
    other = clear_port(resolved.stack.serve.port, stack, replace=wanted.replace, talk=stack.talk)
    fetch(resolved, rendered, stack.talk)
    release = publish(stack, rendered)
    with ExitStack() as held:
        if other is not None:
            held.enter_context(other.folder.lock())
        return _swap(stack, release, other, wanted)


def adoptable(resolved: Resolved, wanted: Wanted, stack: Managed) -> Release | None:
    """The current release where it is just what is wanted, and starting or ready."""
    current = stack.current()
    if current is None or wanted.runtime not in ("auto", current.runtime):
        return None
    asked = render(resolved.stack, machine_for(resolved, current.runtime), wanted.name)
    if asked.digest != current.digest:
        return None
    observed = stack.observe()
    health = classify(observed, time.time())
    same = observed.digest == asked.digest
    return current if same and health.state in (status.STARTING, status.READY) else None


def _swap(stack: Managed, release: Release, other: Managed | None, wanted: Wanted) -> Outcome:
    """Stop what runs, start the release, prove it; on any failure put back what ran."""
    before = stack.current() if stack.observe().alive else None
    displaced = other.current() if other else None
    try:
        stack.stop()
        if other is not None:
            stack.talk.say(f"taking down {other.folder.name}, which held the port")
            other.stop()
        stack.start(release)
        return _prove(stack, release, wanted, adopted=False)
    except BaseException as error:
        if isinstance(error, NotGoodEnough) and before is None and displaced is None:
            stack.talk.say(f"it runs on, as nothing ran before; stop it with: spark-spec down {wanted.name}")
        else:
            _put_back(stack, release, before, other, displaced)
        stack.folder.audit("up failed", release=release.number, error=str(error) or type(error).__name__)
        raise


def _put_back(
    stack: Managed, failed: Release, before: Release | None, other: Managed | None, displaced: Release | None
) -> None:
    """Stop the failed release, start the last good one where one ran. Its own failure is said, not raised:
    the first error is the one to report."""
    try:
        stack.stop()
        if before is not None:
            good = [number for number in stack.folder.state().good if number != failed.number]
            back = stack.folder.release(good[-1]) if good else before
            if back.number != failed.number:
                stack.talk.say(f"putting release {back.number:04d} back")
                stack.start(back)
                stack.wait(back)
        if other is not None and displaced is not None:
            stack.talk.say(f"putting {other.folder.name} back")
            other.start(displaced)
            other.wait(displaced)
    except SparkSpecError as error:
        stack.talk.say(f"could not put it back: {error.what}: {error.why}")


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
    stack.folder.audit("up", release=release.number, digest=release.digest, verified=wanted.verify,
                       adopted=adopted, where=dict(observed.where))  # fmt: skip
    return Outcome(release, observed, adopted, report)
