"""The daemon itself goes: what is said meanwhile, and that the next `up` or `down` puts things right.

It kills the engine that `make docker-engine` started, so it runs only where that is so and Docker is required.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.paths import PACKAGE
from appliance.machine.ports import is_free
from tests.conftest import Cli
from tests.docker.test_demo import ours

SCRIPT = PACKAGE.parent / "images" / "docker-engine.sh"
OWNER = Path(os.environ.get("DOCKER_ENGINE_RUN", "/run/spark-spec-docker")) / "owner"

pytestmark = pytest.mark.skipif(
    not (os.environ.get("REQUIRE_DOCKER") and OWNER.exists()), reason="the daemon is not ours to kill"
)


def engine(word: str) -> None:
    subprocess.run(["bash", str(SCRIPT), word], check=True, capture_output=True, timeout=300)


@pytest.fixture
def running(cli: Cli, demo_sets: list[str], home: Path) -> Iterator[list[str]]:
    words = ["up", "demo", "--no-verify", "--json", *demo_sets]
    done = cli(*words, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runtime"] == "docker"
    yield words
    engine("start")
    for container in ours(home / "state" / "spark-spec"):
        subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)


def kill_daemon() -> None:
    os.kill(int(OWNER.read_text().split()[0]), signal.SIGKILL)


def test_a_killed_daemon_is_named_and_the_next_up_puts_things_right(
    cli: Cli, running: list[str], home: Path, free_port: int
) -> None:
    kill_daemon()
    seen = json.loads(cli("status", "--json").stdout)[0]
    assert seen["state"] == "unknown"
    assert "does not answer" in seen["reason"]
    for words in (running, ["down", "demo"], ["logs", "demo"], ["restart", "demo"]):
        done = cli(*words)
        assert done.returncode == 4, done.stderr
        assert "docker" in done.stderr.lower()
    engine("start")
    done = cli(*running)
    assert done.returncode == 0, done.stderr
    assert json.loads(cli("status", "--json").stdout)[0]["state"] == "ready"
    assert len(ours(home / "state" / "spark-spec")) == 1
    assert cli("down", "demo").returncode == 0
    assert ours(home / "state" / "spark-spec") == []
    assert is_free(free_port)


def test_a_killed_daemon_then_down(cli: Cli, running: list[str], home: Path, free_port: int) -> None:
    kill_daemon()
    engine("start")
    assert cli("down", "demo").returncode == 0
    assert ours(home / "state" / "spark-spec") == []
    assert is_free(free_port)
    del running


def test_a_stopped_daemon_may_be_left_behind_and_its_container_goes_when_it_is_back(
    cli: Cli, running: list[str], home: Path, free_port: int
) -> None:
    engine("stop")
    told = cli(*running)
    assert told.returncode == 4
    assert "--runtime process" in told.stderr
    done = cli(*running, "--runtime", "process")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runtime"] == "process"
    engine("start")
    assert len(ours(home / "state" / "spark-spec")) == 1
    assert cli("down", "demo").returncode == 0
    assert ours(home / "state" / "spark-spec") == []
    assert is_free(free_port)


def test_with_the_daemon_stopped_the_demo_runs_as_processes(
    cli: Cli, demo_sets: list[str], free_port: int
) -> None:
    engine("stop")
    try:
        done = cli("up", "demo", "--no-verify", "--json", *demo_sets)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["runtime"] == "process"
        assert "runtime: local processes" in done.stderr
        assert cli("down", "demo").returncode == 0
        assert is_free(free_port)
    finally:
        engine("start")
