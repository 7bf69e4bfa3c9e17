"""The port, before anything is fetched: free, ours, or whose."""

from appliance.core.errors import ConfigFault, MachineFault, SparkSpecError
from appliance.core.talk import Talk
from appliance.lifecycle.managed import Managed
from appliance.machine.docker import container_on_port
from appliance.machine.ports import holder, is_free
from appliance.stack.release import StackFolder, stack_names


def clear_port(port: int, own: Managed, *, replace: bool, talk: Talk) -> Managed | None:
    """Make sure the port can be had. Returns another stack of ours that holds it, to be swapped out.

    Raises MachineFault where another stack holds it and `replace` is not asked for, or where anything else does.
    """
    if is_free(port) or _holds(own, port):
        return None
    other = _other_stack(port, own.folder, talk)
    if other is None:
        whose, remedy = _whose(port)
        raise MachineFault(
            f"port {port} is taken",
            whose,
            f"{remedy}, or choose another port: spark-spec up … --set serve.port=8001",
        )
    if not replace:
        raise MachineFault(
            f"port {port} is taken",
            f"the stack {other.folder.name} serves on it",
            f"swap it with --replace, take it down (spark-spec down {other.folder.name}), "
            "or choose another port: --set serve.port=8001",
        )
    return other


def _other_stack(port: int, own: StackFolder, talk: Talk) -> Managed | None:
    others = (
        Managed(StackFolder(own.home, name), talk) for name in stack_names(own.home) if name != own.name
    )
    return next((other for other in others if _holds(other, port)), None)


def _holds(stack: Managed, port: int) -> bool:
    """Whether a stack runs, and on that port; or on one that nobody knows any more, its release being gone."""
    try:
        if not stack.observe().alive:
            return False
    except SparkSpecError:
        return False
    try:
        release = stack.current()
    except ConfigFault:
        return True
    return release is not None and release.port == port


def _whose(port: int) -> tuple[str, str]:
    """Who listens there, and how to end it."""
    container = container_on_port(port)
    if container:
        return f"the container {container} listens on it", f"end it (docker stop {container})"
    seen = holder(port)
    return seen.words(), f"end it (kill {seen.pid})" if seen.pid else "end it"
