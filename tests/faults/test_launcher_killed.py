"""The launcher is killed at each step of `up`, with the real engine: the next `up` or `down` puts things right."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.machine.ports import is_free
from tests.conftest import Cli

pytestmark = pytest.mark.engine

STEPS = ["starting release", "starting ...", "load", "serving ...", "verifying ..."]


def kill_at(step: str, words: list[str]) -> None:
    """Run `spark-spec` and kill it without warning when it says `step`."""
    with subprocess.Popen(
        [sys.executable, "-m", "appliance", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as launcher:
        assert launcher.stderr is not None
        seen = []
        for line in launcher.stderr:
            seen.append(line)
            if line.startswith(step):
                launcher.kill()
                break
        assert launcher.wait(60) == -9, f"it never said {step!r}: {seen}"


def left_over(folder: Path) -> list[str]:
    """Processes that have to do with a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            cwd = str((process / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in words or cwd.startswith(str(folder)):
            found.append(words)
    return found


@pytest.mark.parametrize("then", ["up", "down"])
@pytest.mark.parametrize("step", STEPS)
def test_a_launcher_killed_at_any_step_is_made_good(
    cli: Cli, demo_sets: list[str], home: Path, free_port: int, step: str, then: str
) -> None:
    words = ["up", "demo", "--runtime", "process", *demo_sets]
    kill_at(step, words)
    if then == "up":
        done = cli(*words, "--no-verify", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["release"] == 1
        assert json.loads(cli("status", "--json").stdout)[0]["state"] == "ready"
    done = cli("down", "demo")
    assert done.returncode == 0, done.stderr
    assert left_over(home / "state") == []
    assert is_free(free_port)
    assert not list((home / "state").rglob(".staged-*"))


@pytest.mark.parametrize("then", ["up", "down"])
def test_a_launcher_killed_while_it_swaps_releases_is_made_good(
    cli: Cli, demo_sets: list[str], home: Path, free_port: int, then: str
) -> None:
    words = ["up", "demo", "--runtime", "process", "--no-verify", *demo_sets]
    assert cli(*words).returncode == 0
    kill_at("starting release 0002", [*words, "--set", "draft.k=1"])
    if then == "up":
        assert cli(*words).returncode == 0
        seen = json.loads(cli("status", "--json").stdout)[0]
        assert (seen["state"], seen["release"]) == ("ready", 1)
    assert cli("down", "demo").returncode == 0
    assert left_over(home / "state") == []
    assert is_free(free_port)


def test_a_killed_comparison_leaves_no_twin_for_long(
    cli: Cli, demo_sets: list[str], home: Path, free_port: int
) -> None:
    words = ["up", "demo", "--runtime", "process", "--no-verify", *demo_sets]
    assert cli(*words).returncode == 0
    kill_at("asking without speculation", ["verify", "demo", "--against-baseline"])
    twin = home / "state" / "spark-spec" / "baselines"
    assert left_over(twin) != []
    assert cli(*words).returncode == 0
    assert left_over(twin) == []
    assert cli("down", "demo").returncode == 0
    assert left_over(home / "state") == []
    assert is_free(free_port)


def test_interrupted_in_a_terminal_s_way_it_leaves_nothing(
    cli: Cli, demo_sets: list[str], home: Path, free_port: int
) -> None:
    words = ["up", "demo", "--runtime", "process", *demo_sets]
    with subprocess.Popen(
        [sys.executable, "-m", "appliance", *words], stderr=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stderr is not None
        for line in launcher.stderr:
            if line.startswith("loading "):
                launcher.send_signal(signal.SIGINT)
                break
        assert launcher.wait(60) == 130
    assert left_over(home / "state") == []
    assert is_free(free_port)
    assert json.loads(cli("status", "--json").stdout)[0]["state"] == "absent"
