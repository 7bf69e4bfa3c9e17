"""What is done to a stack that is known: down, restart, rollback."""

from appliance.core.errors import UsageFault
from appliance.lifecycle.baseline import clear
from appliance.lifecycle.managed import Managed
from appliance.lifecycle.port import clear_port
from appliance.lifecycle.prepare import check_here
from appliance.lifecycle.swap import swap
from appliance.runtime.base import Observed
from appliance.stack.release import Release


def down(stack: Managed) -> bool:
    """Stop a stack; its releases stay. False where it was down already."""
    with stack.folder.lock():
        stopped = stack.stop()
        clear(stack)
        if stopped:
            stack.audit("down")
        return stopped


def restart(stack: Managed) -> tuple[Release, Observed]:
    """Stop and start the release that is meant to run, and wait until it is ready."""
    with stack.folder.lock():
        release = stack.current()
        if release is None:
            raise UsageFault(f"the stack {stack.folder.name} is down", "there is nothing to restart",
                             "bring it up: spark-spec up PRESET")  # fmt: skip
        return _start_over(stack, release, "restart")


def rollback(stack: Managed) -> tuple[Release, Observed]:
    """Run the last release that was seen good before the present one."""
    with stack.folder.lock():
        state = stack.folder.state()
        good = [number for number in state.good if number != state.current]
        if not good:
            raise UsageFault(
                f"the stack {stack.folder.name} has nothing to roll back to",
                "no other release of it was ever seen good",
                "bring it up with the settings you want",
            )
        return _start_over(stack, stack.folder.release(good[-1]), "rollback")


def _start_over(stack: Managed, release: Release, event: str) -> tuple[Release, Observed]:
    """Raises what a start raises; what ran before then runs again, unless it is the release that failed."""
    clear_port(release.port, stack, replace=False, talk=stack.talk)
    check_here(release)
    observed = swap(stack, release, None, lambda: stack.wait(release))
    stack.audit(event, release=release.number, digest=release.digest)
    return release, observed
