"""The port, before anything is fetched: free, ours, or whose."""

from appliance.core.errors import MachineFault
from appliance.core.talk import Talk
from appliance.lifecycle.managed import Managed
from appliance.machine.docker import container_on_port
from appliance.machine.ports import holder, is_free
from appliance.stack.release import StackFolder, stack_names


def clear_port(port: int, own: Managed, *, replace: bool, talk: Talk) -> Managed | None:
    """Make sure the port can be had. Returns another stack of ours that holds it, to be swapped out.

    Raises MachineFault where another stack holds it and `replace` is not asked for, or where anything else does.
    """
    release = own.current()
    if is_free(port) or (release is not None and release.port == port and own.observe().alive):
        return None
    other = _other_stack(port, own.folder, talk)
    if other is None:
        raise MachineFault(
            f"port {port} is taken",
            f"{_whose(port)} listens on it",
            "end that, or choose another port: --set serve.port=8001",
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
    for name in stack_names(own.home):
        other = Managed(StackFolder(own.home, name), talk)
        release = other.current()
        if name != own.name and release and release.port == port and other.observe().alive:
            return other
    return None


def _whose(port: int) -> str:
    container = container_on_port(port)
    if container:
        return f"the container {container}"
    seen = holder(port)
    if seen.pid is None:
        return "a process of another user"
    return f"process {seen.pid} ({seen.command})"
