"""Each checked-in stack on a GPU engine is accepted by the stand-in of its engine and version, as it stands."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import hub_cache
from tests.fakes.standin_running import FACTS, LOADED, TRTLLM, Hub, run

pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason=f"the facts are not at {FACTS}")

COMPOSE = Path(__file__).resolve().parents[2] / "compose"
MODELS, CONFIGS = "/var/lib/spark-spec/models", "/etc/spark-spec"
ENGINES = {"trtllm-serve": "trtllm", "vllm": "vllm", "python3": "sglang"}
LEADING = {"trtllm": 1, "vllm": 2, "sglang": 4}  # words of the argv up to the model


def stacks() -> dict[str, dict[str, Any]]:
    plans = {
        path.parents[1].name: json.loads(path.read_text()) for path in COMPOSE.glob("*/engine/supervise.json")
    }
    return {name: plan for name, plan in plans.items() if plan["engine"] in ENGINES.values()}


def shape(repo: str) -> dict[str, Any]:
    """A plausible config of a repository of the presets."""
    if "eagle" in repo.lower():
        return hub_cache.EAGLE3_HEAD
    if "gpt-oss" in repo:
        return hub_cache.GPT_OSS_120B
    return hub_cache.LLAMA_33_70B_FP4 if "70B" in repo else hub_cache.LLAMA_31_8B_FP4


def test_there_are_stacks() -> None:
    assert {plan["engine"] for plan in stacks().values()} == set(ENGINES.values())


@pytest.mark.parametrize("name", sorted(stacks()))
def test_a_checked_in_stack_loads_and_says_nothing_twice_or_secret(tmp_path: Path, name: str) -> None:
    plan = stacks()[name]
    hub = Hub(tmp_path / "hf")
    for snapshot in plan["snapshots"]:
        repo = Path(snapshot["folder"]).name.removeprefix("models--").replace("--", "/", 1)
        made = hub_cache.make(
            hub.home / "hub", repo, config=shape(repo),
            standin={"die_while_loading": {"line": "it loaded", "code": LOADED}, "refused_s": 0},
        )  # fmt: skip
        (tmp_path / "models" / repo).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "models" / repo).symlink_to(made)
    config = COMPOSE / name / "engine" / "extra-llm-api-config.yml"
    version = TRTLLM[-1]
    if config.exists():
        text = config.read_text()
        version = next(known for known in TRTLLM if f"trtllm-serve {known}." in text)
        assert yaml.safe_load(text)
        (tmp_path / config.name).write_text(text.replace(MODELS, str(tmp_path / "models")))
    places = {MODELS: str(tmp_path / "models"), CONFIGS: str(tmp_path)}
    argv = plan["argv"]
    for inside, here in places.items():
        argv = [word.replace(inside, here) for word in argv]
    engine = ENGINES[argv[0]]
    model, words = argv[LEADING[engine]], argv[LEADING[engine] + 1 :]
    env = {**plan["env"], "HF_HUB_CACHE": str(hub.home / "hub"), "HF_HOME": "/nonexistent"}
    code, said = run(hub, engine, *words, model=model, version=version, **env)
    assert (code, "standin: " in said) == (LOADED, False), said
