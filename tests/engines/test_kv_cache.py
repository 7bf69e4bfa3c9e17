"""What an engine takes for the KV cache is what its settings cap."""

import pytest

from appliance.engines.kv_cache import cap_of, prompt_tokens
from appliance.stack.resolve import resolve

MAX = "trtllm.kv_cache_config.max_tokens=null"


@pytest.mark.parametrize(
    ("preset", "sets", "kind", "amount", "setting"),
    [
        ("eagle3", [], "tokens", 36_864, "trtllm.kv_cache_config.max_tokens"),
        ("eagle3", [MAX], "share of the rest", 0.9, "trtllm.kv_cache_config.free_gpu_memory_fraction"),
        (
            "eagle3",
            [MAX, "trtllm.kv_cache_config.max_gpu_total_bytes=4096"],
            "bytes",
            4096,
            "trtllm.kv_cache_config.max_gpu_total_bytes",
        ),
        ("eagle3-original", [], "share of the rest", 0.95, "trtllm.kv_cache_config.free_gpu_memory_fraction"),
        ("eagle3-vllm", [], "bytes", 4 << 30, "vllm.kv_cache_memory_bytes"),
        ("eagle3-vllm", ["vllm.kv_cache_memory_bytes=4G"], "bytes", 4 << 30, "vllm.kv_cache_memory_bytes"),
        (
            "eagle3-vllm",
            ["vllm.kv_cache_memory_bytes=1.5g"],
            "bytes",
            1_500_000_000,
            "vllm.kv_cache_memory_bytes",
        ),
        (
            "eagle3-vllm",
            ["vllm.kv_cache_memory_bytes=null"],
            "share of all",
            0.75,
            "vllm.gpu_memory_utilization",
        ),
        (
            "eagle3-vllm",
            ["vllm.kv_cache_memory_bytes=null", "vllm.gpu_memory_utilization=null"],
            "share of all",
            0.92,
            "vllm.gpu_memory_utilization",
        ),
        (
            "eagle3-vllm",
            ["vllm.kv_cache_memory_bytes=null", "vllm.num_gpu_blocks_override=100"],
            "tokens",
            1600,
            "vllm.num_gpu_blocks_override",
        ),
        ("eagle3-sglang", [], "tokens", 36_864, "sglang.max_total_tokens"),
        ("eagle3-sglang", ["sglang.max_total_tokens=4Ki"], "tokens", 4096, "sglang.max_total_tokens"),
        ("eagle3-sglang", ["sglang.max_total_tokens=null"], "unknown", 0, "sglang.mem_fraction_static"),
        (
            "eagle3-sglang",
            ["sglang.max_total_tokens=null", "sglang.mem_fraction_static=0.5"],
            "share with weights",
            0.5,
            "sglang.mem_fraction_static",
        ),
        ("demo", ["serve.max_batch_size=4"], "tokens", 8192, "serve.max_seq_len"),
    ],
)
def test_the_cap_of_a_stack(preset: str, sets: list[str], kind: str, amount: float, setting: str) -> None:
    cap = cap_of(resolve(preset, sets, {}).stack)
    assert (cap.kind, cap.amount, cap.setting) == (kind, amount, setting)


@pytest.mark.parametrize(
    ("preset", "sets", "element"),
    [
        ("eagle3", [], None),
        ("eagle3", ["trtllm.kv_cache_config.dtype=fp8"], 1.0),
        ("eagle3", ["trtllm.kv_cache_config.dtype=nvfp4"], 0.5625),
        ("eagle3-vllm", [], 2.0),
        ("eagle3-vllm", ["vllm.kv_cache_dtype=fp8_e4m3"], 1.0),
        ("eagle3-sglang", ["sglang.kv_cache_dtype=bf16"], 2.0),
        ("demo", [], 2.0),
    ],
)
def test_the_bytes_of_a_cached_number(preset: str, sets: list[str], element: float | None) -> None:
    """None: TensorRT-LLM takes what the checkpoint says."""
    assert cap_of(resolve(preset, sets, {}).stack).element == element


def test_vllm_wants_its_share_free_at_the_start_whatever_it_takes_for_the_cache() -> None:
    cap = cap_of(resolve("eagle3-vllm", [], {}).stack)
    assert (cap.kind, cap.at_start) == ("bytes", (0.75, "vllm.gpu_memory_utilization"))


@pytest.mark.parametrize(
    ("preset", "sets", "tokens"),
    [
        ("eagle3", [], 32_768),
        ("draft-target", [], 8192),
        ("eagle3", ["trtllm.max_num_tokens=4096"], 4096),
        ("eagle3-vllm", [], 8192),
        ("eagle3-vllm", ["vllm.max_num_batched_tokens=2k"], 2000),
        ("eagle3-sglang", ["sglang.chunked_prefill_size=2048"], 2048),
    ],
)
def test_how_much_is_read_at_a_time(preset: str, sets: list[str], tokens: int) -> None:
    assert prompt_tokens(resolve(preset, sets, {}).stack) == tokens
