"""How this machine's Docker gives a container the GPU.

Three ways are in use, and each is refused on some machine: a toolkit in CDI mode rejects a device reservation
(what `--gpus` makes), an older one knows no CDI, and a machine may have neither.
"""

import json

from appliance.catalog.stack import GpuAccess
from appliance.core.errors import MachineFault
from appliance.machine.command import CommandFailed, run

CDI_DEVICE = "nvidia.com/gpu=all"
ASK_S = 15


def probe_gpu() -> GpuAccess:
    """The way to use: `cdi` where the engine found such a device, else `runtime` where it has NVIDIA's. Raises
    MachineFault where nothing of NVIDIA's is there, or docker fails."""
    try:
        lines = run(
            ["docker", "info", "--format", "{{json .}}"], quiet_s=ASK_S, each=lambda _: None, leash=False
        )
    except CommandFailed as error:
        raise MachineFault(
            "Docker could not be asked for its GPU", error.words(2), "see that `docker info` works"
        ) from None
    return choose_gpu(
        next((line for line in lines if line.startswith("{")), "")
    )  # warnings may stand around it


def choose_gpu(info: str) -> GpuAccess:
    """The same, from what `docker info` says as JSON. Pure."""
    try:
        told = json.loads(info)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    found = told.get("DiscoveredDevices") or []  # Docker 28 and later
    if any(isinstance(one, dict) and one.get("ID") == CDI_DEVICE for one in found):
        return "cdi"
    if "nvidia" in (told.get("Runtimes") or {}):
        return "runtime"
    raise MachineFault(
        "this Docker has no way to a GPU",
        "`docker info` names neither a runtime nvidia nor a CDI device nvidia.com/gpu",
        "install the NVIDIA Container Toolkit and run `sudo nvidia-ctk runtime configure --runtime=docker`, then "
        "restart Docker; where you know better: --set docker.gpu=cdi, runtime, devices or none",
    )
