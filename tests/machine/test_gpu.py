"""Which way a container gets the GPU here, from what `docker info` says as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.core.errors import MachineFault
from appliance.machine.gpu import choose_gpu, probe_gpu

RUNC = {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}}
NVIDIA = {
    "nvidia": {
        "path": "nvidia-container-runtime",
        "status": {"org.opencontainers.runtime-spec.features": "{}"},
    }
}
CDI = [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "cdi", "ID": "nvidia.com/gpu=all"}]


def info(**told: Any) -> str:
    """What a Docker 28 on a Spark says of itself, shortened."""
    base = {
        "ID": "0b4b", "Containers": 2, "Driver": "overlay2", "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
        "Runtimes": RUNC, "DefaultRuntime": "runc", "KernelVersion": "6.14.0-1013-nvidia", "Architecture": "aarch64",
        "NCPU": 20, "MemTotal": 128452956160, "ServerVersion": "28.3.3", "Warnings": None,
    }  # fmt: skip
    return json.dumps(base | told)


@pytest.mark.parametrize(
    ("told", "way"),
    [
        ({"Runtimes": RUNC | NVIDIA, "DiscoveredDevices": CDI}, "cdi"),
        ({"DiscoveredDevices": CDI}, "cdi"),
        ({"Runtimes": RUNC | NVIDIA}, "runtime"),
        ({"Runtimes": RUNC | NVIDIA, "DiscoveredDevices": None}, "runtime"),
        (
            {"Runtimes": RUNC | NVIDIA, "DiscoveredDevices": [{"Source": "cdi", "ID": "vendor.com/nic=all"}]},
            "runtime",
        ),
        ({"Runtimes": RUNC | NVIDIA, "DiscoveredDevices": CDI[:1]}, "runtime"),
    ],
)
def test_cdi_goes_before_the_runtime(told: dict[str, Any], way: str) -> None:
    assert choose_gpu(info(**told)) == way


@pytest.mark.parametrize(
    "text",
    [
        info(),
        info(Runtimes=None),
        info(DiscoveredDevices=["nvidia.com/gpu=all"]),
        "",
        "null",
        "[]",
        "not json",
    ],
)
def test_without_a_way_the_fix_names_the_toolkit_and_the_setting(text: str) -> None:
    with pytest.raises(MachineFault) as caught:
        choose_gpu(text)
    assert caught.value.code == 4
    assert "nvidia-ctk" in caught.value.fix and "docker.gpu" in caught.value.fix


def docker(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_docker_is_asked_and_its_warnings_are_read_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "info").write_text(info(Runtimes=RUNC | NVIDIA) + "\n")
    docker(
        tmp_path / "bin",
        f'test "$*" = "info --format {{{{json .}}}}" || exit 2\n'
        f"echo WARNING: before >&2; cat '{tmp_path}/info'; echo WARNING: No swap limit support >&2",
        monkeypatch,
    )
    assert probe_gpu() == "runtime"


def test_a_docker_that_fails_is_not_one_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker(tmp_path / "bin", "echo Cannot connect to the Docker daemon >&2; exit 1", monkeypatch)
    with pytest.raises(MachineFault) as caught:
        probe_gpu()
    assert "could not be asked" in caught.value.what and "Cannot connect" in caught.value.why
