"""The presets: each one is a stack that can be, and the originals are the playbook, key by key."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.catalog.entries import load_entry
from appliance.catalog.preset import load, names
from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.stack.check import check
from appliance.stack.resolve import resolve

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"
PLAYBOOK = REFERENCE / "dgx-spark-speculative-decoding-playbook.txt"
GUIDE = REFERENCE / "model-optimizer-speculative-decoding-readme.txt"
SPARK = [name for name in names() if not name.startswith("demo")]
CAPPED = [name for name in SPARK if not name.endswith("-original")]
TWINS = {
    "eagle3-baseline": ("eagle3", "eagle3-v3"),
    "draft-target-baseline": ("draft-target",),
}


def stack_of(preset: str, *assignments: str) -> Stack:
    return resolve(preset, assignments, {}).stack


def test_the_presets_that_were_promised_are_there() -> None:
    assert set(SPARK) == {
        *("eagle3", "eagle3-original", "eagle3-v3", "eagle3-70b", "eagle3-vllm", "eagle3-sglang"),
        *("draft-target", "draft-target-original", "draft-target-vllm", "head-default"),
        *("eagle3-baseline", "draft-target-baseline"),
    }


@pytest.mark.parametrize("preset", names())
def test_each_preset_is_a_stack_that_can_be(preset: str) -> None:
    stack = stack_of(preset)
    check(stack)
    assert load(preset).title
    assert load(preset).about


@pytest.mark.parametrize("preset", SPARK)
def test_the_public_name_is_the_targets_own(preset: str) -> None:
    stack = stack_of(preset)
    assert stack.serve.name == load_entry(stack.target.model).name
    assert stack.serve.port == 8000
    assert stack.health.stall_s == 900


@pytest.mark.parametrize("preset", CAPPED)
def test_the_cache_is_capped_with_room_for_every_request_of_full_length(preset: str) -> None:
    """A share of the memory takes what is free at that moment, of memory that the whole machine lives in."""
    stack = stack_of(preset)
    assert stack.serve.max_seq_len is not None
    needed = stack.serve.max_batch_size * stack.serve.max_seq_len + 4096
    if stack.engine.name == "trtllm":
        assert stack.trtllm["kv_cache_config"] == {"enable_block_reuse": False, "max_tokens": needed}
        assert needed % 32 == 0
    elif stack.engine.name == "sglang":
        assert stack.sglang == {"max_total_tokens": needed}
    else:
        assert stack.vllm["kv_cache_memory_bytes"] > needed * bytes_a_token(stack)


def bytes_a_token(stack: Stack) -> int:
    """Of the KV cache: layers x heads x numbers x (key and value) x 2 bytes, of the models that have one each."""
    sizes = {
        "gpt-oss-120b": 36 * 8 * 64 * 4,
        "llama-3.3-70b-instruct-fp4": 80 * 8 * 128 * 4,
        "llama-3.1-8b-instruct-fp4": 32 * 8 * 128 * 4,
    }
    return sizes[stack.target.model] + sizes.get(stack.draft.model or "", 0)


@pytest.mark.parametrize("preset", SPARK)
def test_no_preset_promises_json_beside_speculation(preset: str) -> None:
    assert stack_of(preset).offers.json_ is False


@pytest.mark.parametrize(("baseline", "twin"), [(one, twin) for one in TWINS for twin in TWINS[one]])
def test_a_baseline_serves_as_its_twin_does_but_for_the_draft(baseline: str, twin: str) -> None:
    alone, drafted = stack_of(baseline), stack_of(twin)
    assert alone.draft.method == "none"
    hidden = {"preset", "draft"}
    assert alone.model_dump(exclude=hidden) == drafted.model_dump(exclude=hidden)


def blocks(text: str) -> list[dict[str, Any]]:
    """The config files that a page has its reader write: between <<EOF (or ```yaml) and its end."""
    found = re.findall(r"<<EOF.*?\n(.*?)\nEOF", text, re.DOTALL)
    found += re.findall(r"```yaml\n(.*?)\n```", text, re.DOTALL)
    return [data for data in map(yaml.safe_load, found) if "speculative_config" in data]


def command(text: str, target: str) -> str:
    """The page's trtllm-serve of that model, on one line."""
    found = re.search(rf"trtllm-serve {re.escape(target)}((?: *\\\n|[^\n])*)", text)
    assert found
    return " ".join(found[1].replace("\\\n", " ").split())


@pytest.mark.parametrize(("preset", "place"), [("eagle3-original", 0), ("draft-target-original", 1)])
def test_an_original_is_the_playbook_key_by_key(preset: str, place: int) -> None:
    page = PLAYBOOK.read_text(encoding="utf-8")
    stack, said = stack_of(preset), blocks(page)[place]
    speculative = said.pop("speculative_config")
    line = command(page, stack.serve.name)
    fraction = re.search(r"--kv_cache_free_gpu_memory_fraction (\S+)", line)
    batch = re.search(r"--max_batch_size (\d+)", line)
    assert fraction and batch
    said["kv_cache_config"]["free_gpu_memory_fraction"] = float(fraction[1])

    assert stack.trtllm == said
    assert stack.draft.k == speculative.pop("max_draft_len")
    assert (
        stack.draft.method
        == {"Eagle": "eagle3", "DraftTarget": "draft-target"}[speculative.pop("decoding_type")]
    )
    draft = load_entry(stack.draft.model or "")
    assert speculative.pop("speculative_model_dir") == f"/opt/{draft.name.partition('/')[2]}/"
    assert speculative == {}
    assert stack.serve.max_batch_size == int(batch[1])
    assert "--max_seq_len" not in line
    assert stack.serve.max_seq_len is None
    assert f"tensorrt-llm/release:{stack.engine.version} " in page
    assert f"hf download {load_entry(stack.target.model).name}" in page
    assert f"hf download {draft.name}" in page


def test_a_head_of_ones_own_is_served_with_the_guides_values() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    stack = stack_of("head-default")
    said = next(data for data in blocks(page) if "speculative_config" in data)
    line = command(page, "<base_model_checkpoint>")
    for option, ours in (
        ("max_batch_size", stack.serve.max_batch_size),
        ("max_num_tokens", stack.trtllm["max_num_tokens"]),
        ("max_seq_len", stack.serve.max_seq_len),
    ):
        assert f"--{option} {ours} " in line
    assert stack.draft.k == said.pop("speculative_config")["max_draft_len"]
    ours = {key: stack.trtllm[key] for key in said}
    ours["cuda_graph_config"] = {"max_batch_size": ours["cuda_graph_config"]["max_batch_size"]}
    ours["kv_cache_config"] = {"enable_block_reuse": ours["kv_cache_config"]["enable_block_reuse"]}
    assert ours == said


@pytest.mark.parametrize(
    ("preset", "change", "why"),
    [
        ("eagle3", "draft.model=nvidia-llama-3.3-70b-eagle3", "drafts for llama-3.3-70b-instruct-fp4"),
        ("eagle3", "draft.model=gpt-oss-120b-eagle3-throughput", "at most 1"),
        ("eagle3-v3", "draft.k=4", "at most 3"),
        ("eagle3", "draft.model=llama-3.1-8b-instruct-fp4", "a model of its own"),
        ("draft-target", "draft.model=gpt-oss-120b-eagle3-v3", "a head"),
    ],
)
def test_a_draft_that_was_made_for_something_else_is_refused(preset: str, change: str, why: str) -> None:
    """Case 19."""
    with pytest.raises(ConfigFault) as caught:
        check(stack_of(preset, change))
    assert why in caught.value.why


def test_a_longer_context_than_the_head_was_made_for_is_refused() -> None:
    with pytest.raises(ConfigFault) as caught:
        check(stack_of("eagle3-70b", "draft.model=lmsys-llama-3.3-70b-eagle3"))
    assert "2048" in caught.value.why
