"""`plan`: the memory budget as a table, for models that are here and for those that are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.made import GIB, sparse
from tests.conftest import Cli
from tests.fakes import hub_cache

HEAD = "nvidia/gpt-oss-120b-Eagle3-long-context"


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """gpt-oss-120b with 2 TiB of holes for weights, which no machine has memory for, and a head."""
    target = hub_cache.make(tmp_path / "hub", "openai/gpt-oss-120b", config=hub_cache.GPT_OSS_120B)
    (target / "model.safetensors").unlink()
    sparse(target / "model.safetensors", 2048 * GIB)
    hub_cache.make(tmp_path / "hub", HEAD, config=hub_cache.EAGLE3_HEAD)
    return tmp_path / "hub"


def planned(cli: Cli, *words: str, code: int = 0) -> dict[str, Any]:
    done = cli("plan", *words, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.engine
def test_the_demo_s_budget_adds_up_and_fits(cli: Cli, models_dir: Path) -> None:
    found = planned(cli, "demo", "--set", f"paths.models={models_dir}")
    sizes = {part["name"]: part["bytes"] for part in found["parts"]}
    assert list(sizes) == ["target", "draft", "KV cache", "draft's KV cache", "workspace", "reserve"]
    assert sizes["target"] == 98_362_432
    assert sizes["KV cache"] == 2 * 30 * 3 * 64 * 2 * 2048
    assert found["needs"] == sum(sizes.values()) and found["fits"] is True and found["unknown"] == []


def test_without_models_it_says_what_is_missing_and_takes_what_the_catalog_knows(
    cli: Cli, tmp_path: Path
) -> None:
    done = cli("plan", "demo", "--set", f"paths.models={tmp_path}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["PART", "BYTES", "FROM"]
    assert "98 MB" in lines[1] and "its files are not all here" in lines[1]
    assert "unknown" in lines[2]
    assert lines[-1].startswith("not known")
    found = planned(cli, "demo", "--set", f"paths.models={tmp_path}")
    assert found["fits"] is None and "draft" in found["unknown"]
    assert [part["bytes"] for part in found["parts"]][1] is None


def test_what_does_not_fit_is_shown_and_ends_with_4(cli: Cli, hub: Path) -> None:
    done = cli("plan", "eagle3", "--set", f"paths.hub={hub}")
    assert done.returncode == 4
    assert "2199.0 GB" in done.stdout and "it does not fit" in done.stdout
    assert "eagle3 does not fit into this machine's memory" in done.stderr
    found = planned(cli, "eagle3", "--set", f"paths.hub={hub}", code=4)
    assert found["fits"] is False and found["needs"] > found["available"]


def test_models_that_do_not_fit_one_another_end_with_3(cli: Cli, hub: Path) -> None:
    hub_cache.make(hub, HEAD, config={**hub_cache.EAGLE3_HEAD, "hidden_size": 4096})
    done = cli("plan", "eagle3", "--set", f"paths.hub={hub}")
    assert done.returncode == 3
    assert "was not made for gpt-oss-120b" in done.stderr
    assert cli("plan", "eagle3", "--no-spec", "--set", f"paths.hub={hub}").returncode == 4


def test_a_damaged_file_is_named_without_a_traceback(cli: Cli, hub: Path) -> None:
    hub_cache.make(hub, HEAD, config=hub_cache.EAGLE3_HEAD, files={"config.json": b"<html>"})
    done = cli("plan", "eagle3", "--set", f"paths.hub={hub}")
    assert done.returncode == 3
    assert "config.json" in done.stderr and "Traceback" not in done.stderr


def test_what_must_be_free_at_the_start_is_a_line_of_its_own(cli: Cli, tmp_path: Path) -> None:
    done = cli("plan", "eagle3-vllm", "--set", f"paths.hub={tmp_path}")
    assert "free at the start" in done.stdout and "vllm.gpu_memory_utilization" in done.stdout
