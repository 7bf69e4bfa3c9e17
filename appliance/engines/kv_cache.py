"""How much memory each engine takes for the KV cache, as a stack's settings cap it. Pure.

Keys and defaults: TensorRT-LLM's KvCacheConfig, vLLM's and SGLang's own parsers; nothing was measured on a GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from appliance.catalog.stack import Stack

Kind = Literal["tokens", "bytes", "share of the rest", "share with weights", "share of all", "unknown"]

TRTLLM = "trtllm.kv_cache_config"
TRTLLM_FRACTION = 0.9
VLLM_UTILIZATION = 0.92  # of 0.32 and 0.33
VLLM_BLOCK = 16  # tokens
PROMPT = 8192  # tokens that are read at a time: TensorRT-LLM's max_num_tokens, vLLM's and SGLang's usual ones
ELEMENT = {
    "fp8": 1.0,
    "fp4": 0.5625,
    "16": 2.0,
}  # bytes of a number; four bits have a byte of scale for sixteen


@dataclass(frozen=True)
class Cap:
    """What an engine takes for the KV cache.

    `amount` is tokens, bytes, or a share: of what is free beside weights and workspace; of what is free at the
    start, weights included; or of all memory, weights and workspace included. `setting` is the key that says so,
    `unit` the tokens that one of it stands for. `both`: the draft's cache is within it. `element` is the bytes of a
    cached number; None: what the checkpoint says. `at_start`: the share of all memory that must be free at the
    start, and the key that says so.
    """

    kind: Kind
    amount: float
    setting: str
    unit: int = 1
    both: bool = False
    element: float | None = 2.0
    at_start: tuple[float, str] | None = None


def cap_of(stack: Stack) -> Cap:
    """The cap of a stack that passed `check`."""
    return {"trtllm": _trtllm, "vllm": _vllm, "sglang": _sglang, "llamacpp": _llamacpp}[stack.engine.name](
        stack
    )


def prompt_tokens(stack: Stack) -> int:
    """How many tokens the engine reads at a time at most: what its workspace is made for."""
    name, length = stack.engine.name, stack.serve.max_seq_len or 0
    if name == "trtllm":
        # A prompt goes in whole there, and the config that we render says so.
        return _tokens(stack.trtllm.get("max_num_tokens"), 1000) or max(PROMPT, length)
    key, section = (
        ("max_num_batched_tokens", stack.vllm) if name == "vllm" else ("chunked_prefill_size", stack.sglang)
    )
    return _tokens(section.get(key), 1000) or PROMPT


def _trtllm(stack: Stack) -> Cap:
    cache = stack.trtllm.get("kv_cache_config")
    cache = cache if isinstance(cache, Mapping) else {}
    element = _element(cache.get("dtype"), unset=None)  # its `auto` takes what the checkpoint says
    if tokens := _number(cache.get("max_tokens")):
        return Cap("tokens", tokens, f"{TRTLLM}.max_tokens", element=element)
    if total := _number(cache.get("max_gpu_total_bytes")):
        return Cap("bytes", total, f"{TRTLLM}.max_gpu_total_bytes", both=True, element=element)
    share = _number(cache.get("free_gpu_memory_fraction")) or TRTLLM_FRACTION
    return Cap("share of the rest", share, f"{TRTLLM}.free_gpu_memory_fraction", both=True, element=element)


def _vllm(stack: Stack) -> Cap:
    options, key = stack.vllm, "vllm.gpu_memory_utilization"
    share = _number(options.get("gpu_memory_utilization")) or VLLM_UTILIZATION
    element = _element(options.get("kv_cache_dtype"))
    whole = Cap("share of all", share, key, both=True, element=element, at_start=(share, key))
    if total := _tokens(options.get("kv_cache_memory_bytes"), 1000):
        return replace(whole, kind="bytes", amount=total, setting="vllm.kv_cache_memory_bytes")
    if blocks := _number(options.get("num_gpu_blocks_override")):
        unit = int(_number(options.get("block_size"))) or VLLM_BLOCK
        cap = replace(whole, kind="tokens", amount=blocks * unit, setting="vllm.num_gpu_blocks_override")
        return replace(cap, both=False, unit=unit)
    return whole


def _sglang(stack: Stack) -> Cap:
    options = stack.sglang
    element = _element(options.get("kv_cache_dtype"))
    if tokens := _tokens(options.get("max_total_tokens"), 1000):
        return Cap("tokens", tokens, "sglang.max_total_tokens", element=element)
    key = "sglang.mem_fraction_static"
    share = _number(options.get("mem_fraction_static"))
    return Cap("share with weights" if share else "unknown", share or 0.0, key, both=True, element=element)


def _llamacpp(stack: Stack) -> Cap:
    return Cap("tokens", (stack.serve.max_seq_len or 0) * stack.serve.max_batch_size, "serve.max_seq_len")


def _element(dtype: Any, unset: float | None = 2.0) -> float | None:
    """Bytes of a cached number by the name of its type, such as fp8_e4m3; `unset` where the engine chooses."""
    name = str(dtype or "auto").lower()
    if name == "auto":
        return unset
    return next((size for word, size in ELEMENT.items() if word in name), 2.0)


def _number(value: Any) -> float:
    """A number above 0; 0 where it is none."""
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
    )


def _tokens(value: Any, small: int) -> int:
    """A count, also as people write it: 4k and 1.5m are of `small`, 4K (vLLM) and 4Ki (SGLang) of 1024."""
    if not isinstance(value, str):
        return int(_number(value))
    text = value.removesuffix("i")
    power = "kmgt".find(text[-1:].lower()) + 1
    base = 1024 if text != value or text[-1:] in "KMGT" else small
    try:
        return int(float(text[:-1] if power else text) * base**power)
    except (ValueError, OverflowError):
        return 0
