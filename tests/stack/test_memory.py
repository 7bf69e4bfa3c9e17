"""The budget is computed from headers: known figures come out, and what is proposed would fit."""

import pytest

from appliance.catalog.entries import load_entry
from appliance.catalog.stack import Stack
from appliance.engines.kv_cache import TRTLLM_FRACTION, VLLM_UTILIZATION
from appliance.machine.memory import Memory
from appliance.stack import remedy
from appliance.stack.fit import PADDING, SAME_FAMILY
from appliance.stack.memory import (
    CPU_PROCESS,
    GPU_PROCESS,
    LAYER_NUMBERS,
    RESERVE_SHARE,
    Budget,
    Model,
    Models,
    budget,
    cache_bytes,
    pair_cache_bytes,
)
from appliance.stack.resolve import resolve
from tests.checkpoint.made import GIB, checkpoint, model
from tests.fakes.hub_cache import EAGLE3_HEAD, GPT_OSS_120B, LLAMA_31_8B_FP4, LLAMA_33_70B_FP4
from tests.pages import read

SPARK = Memory(total=128_500_000_000, available=120_000_000_000, free=110_000_000_000)
GPT_OSS_BYTES, HEAD_BYTES = 65_283_502_899, 431_000_000
LLAMA_70B, LLAMA_8B = 40_600_000_000, 4_980_000_000


def memory(available: float, free: float | None = None) -> Memory:
    """So many GB to be had, of a Spark's."""
    return Memory(SPARK.total, int(available * 1e9), int((available if free is None else free) * 1e9))


def stack(preset: str, *sets: str) -> Stack:
    return resolve(preset, sets, {}).stack


def gpt_oss(head: str = "gpt-oss-120b-eagle3-long-context") -> Models:
    return Models(model("gpt-oss-120b", GPT_OSS_120B, GPT_OSS_BYTES), model(head, EAGLE3_HEAD, HEAD_BYTES))


def llama() -> Models:
    return Models(
        model("llama-3.3-70b-instruct-fp4", LLAMA_33_70B_FP4, LLAMA_70B),
        model("llama-3.1-8b-instruct-fp4", LLAMA_31_8B_FP4, LLAMA_8B),
    )


MODELS = {
    "eagle3": gpt_oss(),
    "eagle3-original": gpt_oss("gpt-oss-120b-eagle3"),
    "eagle3-vllm": gpt_oss("gpt-oss-120b-eagle3-v3"),
    "eagle3-sglang": gpt_oss("lmsys-gpt-oss-120b-eagle3"),
    "draft-target": llama(),
    "draft-target-vllm": llama(),
}


def rows(found: Budget) -> dict[str, int | None]:
    return {part.name: part.bytes for part in found.parts}


# The KV cache.


def test_a_token_of_gpt_oss_takes_72_kib_in_all_layers_and_half_of_it_where_windows_are_kept() -> None:
    config = checkpoint(GPT_OSS_120B).config
    whole = config.model_copy(update={"window": None})
    assert cache_bytes(whole, 1, 1, 2.0) == 72 * 1024
    assert cache_bytes(config, 32_768, 1, 2.0) == 36 * 1024 * (32_768 + 128)
    assert cache_bytes(config, 32_768, 4, 2.0) == 36 * 1024 * (32_768 + 4 * 128)
    assert cache_bytes(config, 100, 4, 2.0) == 72 * 1024 * 100, "a window holds no more than there is"


def test_a_token_of_llama_70b_takes_320_kib_or_half_of_it_in_eight_bits() -> None:
    config = checkpoint(LLAMA_33_70B_FP4).config
    assert cache_bytes(config, 1, 1, 2.0) == 320 * 1024
    assert cache_bytes(config, 1, 1, 1.0) == 160 * 1024


def test_a_cache_that_the_config_does_not_tell_is_unknown() -> None:
    assert cache_bytes(None, 1, 1, 2.0) is None
    assert cache_bytes(checkpoint({"num_hidden_layers": 3}).config, 1, 1, 2.0) is None
    assert cache_bytes(checkpoint({**GPT_OSS_120B, "kv_lora_rank": 512}).config, 1, 1, 2.0) is None


def test_tensorrt_llm_stores_the_cache_as_the_checkpoint_says_and_others_do_not() -> None:
    tokens = 12_288
    assert rows(budget(stack("draft-target"), llama(), SPARK))["KV cache"] == 160 * 1024 * tokens
    told = stack("draft-target", "trtllm.kv_cache_config.dtype=bfloat16")
    assert rows(budget(told, llama(), SPARK))["KV cache"] == 320 * 1024 * tokens


# The parts.


def test_every_part_of_a_pair_is_counted_once() -> None:
    found = budget(stack("draft-target"), llama(), SPARK)
    assert rows(found) == {
        "target": LLAMA_70B,
        "draft": LLAMA_8B,
        "KV cache": 160 * 1024 * 12_288,
        "draft's KV cache": 64 * 1024 * 12_288,
        "workspace": 5 * GIB + 2 * 8192 * (8 * 8192 + 3 * 28_672),
        "reserve": SPARK.total // 32,
    }
    assert found.known == found.needs == sum(size or 0 for size in rows(found).values())
    assert found.fits is True


def test_a_target_alone_has_no_draft_s_parts() -> None:
    alone = budget(resolve("eagle3", [], {}, no_spec=True).stack, Models(gpt_oss().target, None), SPARK)
    assert set(rows(alone)) == {"target", "KV cache", "workspace", "reserve"}


@pytest.mark.parametrize("preset", MODELS)
def test_the_spark_s_presets_fit_a_spark(preset: str) -> None:
    found = budget(stack(preset), MODELS[preset], SPARK)
    assert found.fits is (preset != "eagle3-original"), rows(found)


def test_a_share_of_what_is_free_leaves_too_little_for_the_machine() -> None:
    """The first playbook's 0.95: of the rest of a Spark's memory a twentieth is less than the reserve."""
    found = budget(stack("eagle3-original"), gpt_oss(), SPARK)
    assert found.fits is False and found.needs - found.room < SPARK.total // 32


def test_vllm_s_share_is_of_all_memory_and_holds_everything() -> None:
    told = stack("eagle3-vllm", "vllm.kv_cache_memory_bytes=null")
    found = budget(told, gpt_oss(), SPARK)
    beside = found.known - (found.bytes_of("reserve") or 0)
    assert beside == int(0.75 * SPARK.total)


def test_what_vllm_wants_free_at_the_start_counts_by_itself() -> None:
    found = budget(stack("eagle3-vllm", "vllm.gpu_memory_utilization=0.95"), gpt_oss(), SPARK)
    assert found.known < found.room < found.needs == int(0.95 * SPARK.total)
    assert found.fits is False


# What is not known.


def test_what_is_not_here_has_the_catalog_s_size_or_none() -> None:
    unread = Models(
        Model(load_entry("gpt-oss-120b"), None), Model(load_entry("gpt-oss-120b-eagle3-v3"), None)
    )
    found = budget(stack("eagle3-v3"), unread, SPARK)
    parts = rows(found)
    assert parts["target"] == 65_283_502_899 and parts["draft"] is None
    assert found.unknown == ("draft", "KV cache", "draft's KV cache")
    assert found.fits is None
    assert "the catalog" in found.parts[0].source


def test_what_is_known_may_be_too_much_already() -> None:
    unread = Models(Model(load_entry("gpt-oss-120b"), None), None)
    assert budget(stack("eagle3-baseline"), unread, memory(60)).fits is False


def test_a_share_of_something_unknown_is_unknown() -> None:
    unread = Models(Model(load_entry("llama-3.3-70b-instruct-fp4"), None), None)
    told = resolve("draft-target-original", [], {}, no_spec=True).stack
    assert rows(budget(told, unread, SPARK))["KV cache"] is None


def test_sglang_s_own_share_is_not_guessed() -> None:
    found = budget(stack("eagle3-sglang", "sglang.max_total_tokens=null"), gpt_oss(), SPARK)
    assert found.unknown == ("KV cache",)


# What there is.


def test_what_stops_for_it_gives_its_memory_back_but_no_more_than_there_is() -> None:
    tight = memory(40)
    assert budget(stack("eagle3"), gpt_oss(), tight).fits is False
    assert budget(stack("eagle3"), gpt_oss(), tight, freed=80 * 10**9).fits is True
    assert budget(stack("eagle3"), gpt_oss(), tight, freed=10**15).room == SPARK.total


def test_what_the_numbers_leave_open_is_said() -> None:
    found = budget(stack("eagle3"), gpt_oss(), SPARK)
    told = next(part for part in found.parts if part.name == "KV cache")
    assert (
        told.bytes == 36 * 1024 * (36_864 + 128) and "2.7 GB where its sliding layers keep all" in told.source
    )
    assert found.notes == ()
    (note,) = budget(stack("eagle3-vllm", "vllm.kv_cache_memory_bytes=1000000"), gpt_oss(), SPARK).notes
    assert "one request of 32,768 tokens needs 1.2 GB" in note


# The way out.


@pytest.mark.parametrize("available", [78, 80, 90, 100])
@pytest.mark.parametrize(
    ("preset", "sets"),
    [
        ("eagle3", ["serve.max_seq_len=131072", "trtllm.kv_cache_config.max_tokens=2000000"]),
        (
            "eagle3",
            [
                "trtllm.kv_cache_config.max_tokens=null",
                "trtllm.kv_cache_config.max_gpu_total_bytes=90000000000",
            ],
        ),
        ("eagle3-original", []),
        ("eagle3-vllm", ["vllm.kv_cache_memory_bytes=90000000000"]),
        ("eagle3-vllm", ["vllm.gpu_memory_utilization=0.9"]),
        ("eagle3-vllm", ["vllm.kv_cache_memory_bytes=null", "vllm.gpu_memory_utilization=0.95"]),
        ("eagle3-sglang", ["sglang.max_total_tokens=4M", "serve.max_seq_len=131072"]),
        ("eagle3-sglang", ["sglang.max_total_tokens=null", "sglang.mem_fraction_static=0.99"]),
        ("draft-target", ["serve.max_seq_len=131072", "trtllm.kv_cache_config.max_tokens=400000"]),
    ],
)
def test_what_is_proposed_fits(preset: str, sets: list[str], available: int) -> None:
    there, models = memory(available), MODELS[preset]
    found = budget(stack(preset, *sets), models, there)
    assert found.fits is False, "the test asks for too little"
    proposed = remedy.settings(stack(preset, *sets), models, found)
    assert proposed
    keys = {one.partition("=")[0] for one in proposed}
    then = stack(preset, *[one for one in sets if one.partition("=")[0] not in keys], *proposed)
    again = budget(then, models, there)
    assert again.fits is True, (proposed, rows(again))
    if then.serve.max_seq_len:
        least = pair_cache_bytes(then, models, then.serve.max_seq_len) or 0
        assert least <= sum(part.bytes or 0 for part in again.parts if "KV" in part.name)


def test_no_more_is_proposed_than_is_asked_for() -> None:
    found = budget(stack("eagle3-original", "serve.max_seq_len=8192"), gpt_oss(), SPARK)
    proposed = remedy.settings(stack("eagle3-original", "serve.max_seq_len=8192"), gpt_oss(), found)
    assert proposed == ("trtllm.kv_cache_config.max_tokens=12288",)


def test_where_the_weights_alone_are_too_much_no_setting_is_proposed() -> None:
    found = budget(stack("eagle3"), gpt_oss(), memory(60))
    assert remedy.settings(stack("eagle3"), gpt_oss(), found) == ()
    assert remedy.without_draft(stack("eagle3"), gpt_oss(), found) is False


def test_the_draft_may_be_what_is_too_much() -> None:
    tight = memory(55)
    found = budget(stack("draft-target"), llama(), tight)
    assert found.fits is False and remedy.settings(stack("draft-target"), llama(), found) == ()
    assert remedy.without_draft(stack("draft-target"), llama(), found) is True


def test_where_something_is_unknown_nothing_is_proposed() -> None:
    unread = Models(gpt_oss().target, Model(load_entry("gpt-oss-120b-eagle3-v3"), None))
    found = budget(stack("eagle3-v3"), unread, memory(60))
    assert remedy.settings(stack("eagle3-v3"), unread, found) == ()


def test_the_embedded_engine_s_context_is_its_cache() -> None:
    config = {"num_hidden_layers": 30, "num_key_value_heads": 3, "head_dim": 64, "hidden_size": 576}
    pair = Models(
        model("smollm2-135m-instruct", config, 98 << 20), model("smollm2-135m-drop4", config, 89 << 20)
    )
    there = Memory(2 * GIB, GIB, GIB)
    wide = stack("demo", "serve.max_batch_size=16", "serve.max_seq_len=8192")
    found = budget(wide, pair, there)
    (proposed,) = remedy.settings(wide, pair, found)
    assert proposed.startswith("serve.max_seq_len=")
    assert budget(stack("demo", "serve.max_batch_size=16", proposed), pair, there).fits is True


def test_the_page_has_the_numbers_of_the_formulas() -> None:
    page = " ".join(read("docs/planning.md").split())
    hidden, inner = LAYER_NUMBERS
    for text in (
        f"{GPU_PROCESS // GIB} GiB + 2 x tokens read at a time x ({hidden} x hidden + {inner} x intermediate",
        f"For llama.cpp {CPU_PROCESS / GIB} GiB",
        f"1/{RESERVE_SHARE} of all memory",
        f"`free_gpu_memory_fraction` ({TRTLLM_FRACTION})",
        f"`gpu_memory_utilization` ({VLLM_UTILIZATION})",
        f"up to {PADDING} longer or shorter",
    ):
        assert text in page, text
    assert SAME_FAMILY == 0.9 and "less than nine tenths" in page
