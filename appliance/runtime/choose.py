"""Which runtime: docker when a daemon answers, else local processes; or the one that was asked for."""

from collections.abc import Callable
from typing import Literal

from appliance.catalog.stack import RuntimeName
from appliance.core.errors import MachineFault
from appliance.core.talk import Talk
from appliance.machine.docker import DockerState, probe_docker, require_docker
from appliance.runtime.base import Runtime
from appliance.runtime.docker import DockerRuntime
from appliance.runtime.process import ProcessRuntime
from appliance.stack.release import StackFolder

Wish = Literal["auto", "docker", "process"]


def choose(wish: Wish, talk: Talk, look: Callable[[], DockerState] = probe_docker) -> RuntimeName:
    """The runtime to use, said in one line. Raises MachineFault where docker was asked for and cannot be had."""
    if wish == "docker":
        try:
            require_docker(look)
        except MachineFault as error:
            raise MachineFault(
                error.what, error.why, f"{error.fix}; or run without Docker: --runtime process"
            ) from None
        return "docker"
    if wish == "process":
        return "process"
    found = look()
    if found.state == "ok":
        talk.say(f"runtime: docker {found.server_version}")
        return "docker"
    talk.say(f"runtime: local processes ({found.detail})")
    return "process"


def runtime(name: RuntimeName, stack: StackFolder, talk: Talk) -> Runtime:
    """The runtime object of one stack."""
    if name == "docker":
        return DockerRuntime(stack.name, str(stack.home), talk, stack.held)
    return ProcessRuntime(stack.run)
