"""The launcher is killed at each step of `up` on Docker: the next `up` or `down` puts things right."""

import json
from pathlib import Path

import pytest

from appliance.machine.ports import is_free
from tests.conftest import Cli
from tests.docker.test_demo import networks, ours
from tests.faults.test_launcher_killed import kill_at

STEPS = ["starting release", "$ docker compose", "starting ...", "serving ...", "verifying ..."]


@pytest.mark.parametrize("then", ["up", "down"])
@pytest.mark.parametrize("step", STEPS)
def test_a_launcher_killed_at_any_step_is_made_good(
    cli: Cli, demo_sets: list[str], home: Path, free_port: int, step: str, then: str
) -> None:
    words = ["up", "demo", "--runtime", "docker", *demo_sets]
    cli("images", "build", "demo", timeout=300)
    kill_at(step, words)
    if then == "up":
        done = cli(*words, "--no-verify", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(cli("status", "--json").stdout)[0]["state"] == "ready"
        assert len(ours(home / "state" / "spark-spec")) == 1
    done = cli("down", "demo")
    assert done.returncode == 0, done.stderr
    assert ours(home / "state" / "spark-spec") == []
    assert networks(home / "state" / "spark-spec") == []
    assert is_free(free_port)
