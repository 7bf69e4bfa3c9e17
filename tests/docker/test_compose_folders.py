"""Every checked-in stack, as compose itself reads it."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.core.paths import PACKAGE

COMPOSE = PACKAGE.parent / "compose"
STACKS = sorted(path.parent.name for path in COMPOSE.glob("*/compose.yaml"))
FOLDERS = {
    "SPARK_SPEC_PATHS_MODELS": "/srv/models",
    "SPARK_SPEC_PATHS_HARMONY": "/srv/harmony",
    "HF_HOME": "/srv/huggingface",
}
SECRET = re.compile(
    r"(?i)secret|password|authorization|api[-_]?key|(hf|ngc|github)_?token|\bhf_[A-Za-z0-9]{8,}"
)


def read_by_compose(stack: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in FOLDERS}
    return subprocess.run(
        ["docker", "compose", "--file", str(COMPOSE / stack / "compose.yaml"), "config", "--format", "json"],
        capture_output=True, text=True, env={**clean, **variables}, check=False, timeout=60,
    )  # fmt: skip


def service(stack: str) -> dict[str, Any]:
    done = read_by_compose(stack, **FOLDERS)
    assert done.returncode == 0 and not done.stderr, done.stderr
    services: dict[str, Any] = json.loads(done.stdout)["services"]
    assert list(services) == ["engine"]
    found: dict[str, Any] = services["engine"]
    return found


def engine_files(stack: str) -> dict[str, str]:
    return {path.name: path.read_text() for path in (COMPOSE / stack / "engine").iterdir()}


def test_there_is_a_stack_for_each_preset() -> None:
    assert set(STACKS) == {path.stem for path in (PACKAGE / "catalog/presets").glob("*.yaml")}


@pytest.mark.parametrize("stack", STACKS)
def test_it_publishes_one_port_and_that_on_loopback(stack: str) -> None:
    (port,) = service(stack)["ports"]
    assert (port["host_ip"], port["published"], port["target"]) == ("127.0.0.1", "8000", 8000)


@pytest.mark.parametrize("stack", STACKS)
def test_it_mounts_what_the_engine_reads_and_that_read_only(stack: str) -> None:
    mounts = {mount["target"]: mount for mount in service(stack)["volumes"]}
    assert all(mount["type"] == "bind" and mount["read_only"] is True for mount in mounts.values())
    assert not any(mount["bind"].get("create_host_path") for mount in mounts.values())
    assert mounts.pop("/etc/spark-spec")["source"] == str(COMPOSE / stack / "engine")
    plan = json.loads(engine_files(stack)["supervise.json"])
    read = {snapshot["folder"] for snapshot in plan["snapshots"]}
    read |= {str(Path(file["path"]).parent) for file in plan["files"]}
    assert set(mounts) == (read or {"/models"})
    outside = {"hub": "/srv/huggingface/hub", "harmony": "/srv/harmony", "models": "/srv/models"}
    for target, mount in mounts.items():
        kind = target.split("/")[1]
        assert mount["source"] == target.replace(f"/{kind}", outside[kind], 1)


@pytest.mark.parametrize("stack", STACKS)
def test_a_variable_that_is_not_set_is_named_and_nothing_starts(stack: str) -> None:
    needed = set(re.findall(r"\$\{([A-Z_]+):\?", (COMPOSE / stack / "compose.yaml").read_text()))
    for missing in needed:
        done = read_by_compose(stack, **{name: value for name, value in FOLDERS.items() if name != missing})
        assert done.returncode != 0
        assert missing in done.stderr


@pytest.mark.parametrize("stack", STACKS)
def test_no_right_is_given_that_the_engine_does_not_need(stack: str) -> None:
    found = service(stack)
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "pid", "cap_add", "secrets", "environment"} & set(found)
    assert found["restart"] == "on-failure:2"


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_on_a_gpu_reserves_it_with_the_limits_it_needs(stack: str) -> None:
    found = service(stack)
    if json.loads(engine_files(stack)["supervise.json"])["engine"] == "llamacpp":
        assert not {"deploy", "ulimits", "ipc"} & set(found)
        return
    (device,) = found["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"], device["capabilities"]) == ("nvidia", -1, ["gpu"])
    assert found["ulimits"] == {"memlock": -1, "stack": 67108864}
    assert found["ipc"] == "host"


@pytest.mark.parametrize("stack", STACKS)
def test_no_value_stands_in_two_places_and_no_secret_in_any(stack: str) -> None:
    files = engine_files(stack)
    plan = json.loads(files["supervise.json"])
    options = [word.removeprefix("--").replace("-", "_") for word in plan["argv"] if word.startswith("--")]
    assert len(options) == len(set(options))
    config = yaml.safe_load(files.get("extra-llm-api-config.yml", "{}"))
    assert not set(options) & set(config)
    assert not set(plan["env"]) & {option.upper() for option in options}
    for text in (*files.values(), (COMPOSE / stack / "compose.yaml").read_text()):
        assert not (found := SECRET.search(text)), text[max(0, found.start() - 40) : found.end() + 40]
