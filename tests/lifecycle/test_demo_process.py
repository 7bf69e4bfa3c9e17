"""The demo as local processes, with the real engine, through every command; in folders with odd names (case 6)."""

import json
import shutil
from pathlib import Path

import pytest

from appliance.machine.ports import is_free
from tests.conftest import Cli
from tests.faults.test_launcher_killed import left_over

pytestmark = pytest.mark.engine


def test_every_command_works_in_folders_with_spaces_and_other_letters(
    cli: Cli, models_dir: Path, home: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = home / "Modèles à moi $x 'y' : z"
    shutil.copytree(models_dir, odd)
    monkeypatch.setenv("SPARK_SPEC_PATHS_MODELS", str(odd))
    monkeypatch.setenv("SPARK_SPEC_PATHS_STATE", str(home / 'état de "chose" $x'))
    monkeypatch.setenv("SPARK_SPEC_SERVE_PORT", str(free_port))
    done = cli("up", "demo", "--runtime", "process", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verify"]["ok"]
    assert {check["name"]: check["outcome"] for check in told["verify"]["checks"]} == {
        "model name": "passed",
        "speculation": "passed",
        "chat": "passed",
        "stream": "passed",
        "json schema": "passed",
        "tools": "not offered",
    }
    answer = json.loads(cli("ask", "Hi", "--max-tokens", "16", "--json").stdout)
    assert answer["completion_tokens"] > 0
    assert answer["drafted"] > 0
    seen = json.loads(cli("status", "--json").stdout)[0]
    assert seen["state"] == "ready"
    assert seen["acceptance_length"] > 1
    assert "llama" in cli("logs", "--lines", "1000").stdout or "slot" in cli("logs").stdout
    assert cli("restart").returncode == 0
    assert cli("render", "demo", "-o", str(home / "à côté $x"), "--runtime", "process").returncode == 0
    assert cli("models", "pull", "demo").stdout.strip() == str(odd)
    assert cli("down").returncode == 0
    assert is_free(free_port)
    assert left_over(home) == []


def test_the_comparison_with_the_baseline_leaves_no_twin(
    cli: Cli, demo_sets: list[str], home: Path, free_port: int
) -> None:
    assert cli("up", "demo", "--runtime", "process", "--no-verify", *demo_sets).returncode == 0
    done = cli("verify", "demo", "--against-baseline", "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    held = json.loads(done.stdout)["against_baseline"]
    assert held["comparison"]["lossless"] is not False
    assert held["comparison"]["ratio"] > 0
    assert held["acceptance"]["acceptance_length"] > 1
    assert [stack["name"] for stack in json.loads(cli("status", "--json").stdout)] == ["demo"]
    assert cli("down").returncode == 0
    assert left_over(home / "state") == []
    assert is_free(free_port)
