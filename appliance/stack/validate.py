"""Staged files, held against the tools that will read them."""

import shutil
from pathlib import Path
from typing import Any

from appliance.core.errors import ConfigFault, MachineFault
from appliance.core.interrupts import bounded
from appliance.supervise import plan

LOOPBACK = "127.0.0.1"
CONFIG_S = 30


def validate(folder: Path) -> None:
    """Read everything back: supervise.json by its schema, compose.yaml by compose where it is installed.

    Raises ConfigFault with compose's own words, or where compose would publish a port beyond loopback.
    """
    plan.read(folder / "engine" / "supervise.json")
    compose = folder / "compose.yaml"
    if compose.exists() and shutil.which("docker"):
        _check_ports(_as_compose_reads_it(compose))


def _as_compose_reads_it(compose: Path) -> dict[str, Any]:
    """The file in compose's canonical form; empty where this docker has no compose."""
    from python_on_whales import DockerClient, DockerException

    try:
        with bounded(CONFIG_S):
            read = DockerClient(compose_files=[compose]).compose.config(return_json=True)
    except TimeoutError as error:
        raise MachineFault(
            "docker compose does not read the rendered stack",
            str(error),
            "see that `docker compose version` works",
        ) from None
    except DockerException as error:
        said = (error.stderr or str(error)).strip()
        if "unknown" in said:  # what a docker without the compose plugin says of its options
            return {}
        raise ConfigFault(
            "compose refuses the rendered stack", said[-500:], "check the settings it names"
        ) from None
    assert isinstance(read, dict)
    return read


def _check_ports(read: dict[str, Any]) -> None:
    for name, service in read.get("services", {}).items():
        for port in service.get("ports", []):
            if port.get("host_ip") != LOOPBACK:
                raise ConfigFault(
                    f"the service {name} would publish port {port.get('published')} beyond this machine",
                    f"its address is {port.get('host_ip') or 'any'}",
                    "publish it on 127.0.0.1",
                )
