"""What a model's config says of its shape: config.json, and hf_quant_config.json beside it.

Keys: transformers' configs; of heads those of NVIDIA's Model-Optimizer (`eagle_config`) and of vLLM's speculators
(`speculators_config`, `transformer_layer_config`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from appliance.checkpoint.files import broken, read_object

CONFIG = "config.json"
QUANTIZATION = "hf_quant_config.json"
FULL, SLIDING = "full_attention", "sliding_attention"

_INNER = ("text_config", "transformer_layer_config", "llm_config")  # where the language model is a part
_UNKNOWN_CACHE = (
    "kv_lora_rank",
    "hybrid_override_pattern",
)  # their KV cache is none of heads x numbers a layer
_NO_ATTENTION = ("linear_attention", "mamba", "conv")  # layers that keep a state of fixed size

_HEAD = re.compile(r"eagle|speculator|medusa|dflash", re.IGNORECASE)

Size = Annotated[int, Field(ge=1, le=1_000_000_000)]


class HeadConfig(BaseModel):
    """What a head's own config says of its making; None is what it does not say.

    `named`: its architecture has the name of one. `layers` are those of the target it reads, in the checkpoint's
    numbering; `k` the draft length it proposes.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    named: bool = False
    layers: tuple[int, ...] | None = None
    uses_layers: bool | None = None
    draft_vocab_size: Size | None = None
    target_hidden_size: Size | None = None
    k: Size | None = None


class Config(BaseModel):
    """A model's shape; None is what its config does not say.

    `context` is what its positions reach, in tokens; `layer_kinds` how many layers attend to what, None where the
    size of their KV cache is not known; `window` is the reach of the sliding ones, in tokens. `quantization` and
    `cache_quantization` are as the config writes them, such as NVFP4 and FP8.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    model_type: str | None = None
    hidden_size: Size | None = None
    intermediate_size: Size | None = None
    experts_per_token: Size | None = None
    layers: Size | None = None
    kv_heads: Size | None = None
    head_dim: Size | None = None
    vocab_size: Size | None = None
    context: Size | None = None
    layer_kinds: Mapping[str, int] | None = None
    window: Size | None = None
    quantization: str | None = None
    cache_quantization: str | None = None
    special: Mapping[str, tuple[int, ...]] = {}
    head: HeadConfig = HeadConfig()


def read_config(folder: Path) -> Config | None:
    """The config in a model's folder; None where there is none. Raises ConfigFault where it cannot be, MachineFault
    where it cannot be read."""
    raw = read_object(folder / CONFIG)
    if raw is None:
        return None
    return parse_config(raw, read_object(folder / QUANTIZATION) or {}, folder / CONFIG)


def parse_config(raw: Mapping[str, Any], quantization: Mapping[str, Any], path: Path) -> Config:
    """The same from the two files' data; `path` names the first in messages. Raises ConfigFault."""
    inner: dict[str, Any] = next((raw[key] for key in _INNER if isinstance(raw.get(key), dict)), {})
    told = {**raw, **{key: value for key, value in inner.items() if value is not None}}
    quantized = _section(quantization, "quantization") or _section(raw, "quantization_config")
    heads = told.get("num_attention_heads")
    try:
        return Config(
            model_type=told.get("model_type"),
            hidden_size=told.get("hidden_size"),
            intermediate_size=_of_one(told.get("intermediate_size")),
            experts_per_token=told.get("num_experts_per_tok") or told.get("experts_per_token"),
            layers=told.get("num_hidden_layers"),
            kv_heads=told.get("num_key_value_heads") or heads,
            head_dim=told.get("head_dim") or _head_dim(told.get("hidden_size"), heads),
            vocab_size=told.get("vocab_size"),
            context=_context(told),
            layer_kinds=_kinds(told),
            window=told.get("sliding_window") or None,
            quantization=quantized.get("quant_algo") or quantized.get("quant_method"),
            cache_quantization=_cache_quantization(quantized),
            special={key: ids for key in ("bos_token_id", "eos_token_id") if (ids := _ids(told.get(key)))},
            head=_head(raw, told),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise broken(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _section(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _of_one(size: Any) -> Any:
    """One size, where a config has one a layer: the largest."""
    return (
        max(size) if isinstance(size, list) and size and all(isinstance(one, int) for one in size) else size
    )


def _head_dim(hidden: Any, heads: Any) -> int | None:
    return (
        hidden // heads or None if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 else None
    )


def _context(told: Mapping[str, Any]) -> Any:
    """max_position_embeddings, or what a scaled rope makes of it where that is more (some write the length before
    the scaling there)."""
    most = told.get("max_position_embeddings")
    rope = _section(told, "rope_scaling") or _section(told, "rope_parameters")
    factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
    kind = rope.get("rope_type") or rope.get("type")
    if not isinstance(most, int) or not isinstance(factor, int | float) or not 1 <= factor <= 1e6:
        return most
    if kind == "yarn":
        return max(most, int((original if isinstance(original, int) else most) * factor))
    return int(most * factor) if kind in ("linear", "dynamic") else most


def _kinds(told: Mapping[str, Any]) -> dict[str, int] | None:
    """How many layers keep keys and values of all tokens, and how many of a window."""
    if any(told.get(key) for key in _UNKNOWN_CACHE):
        return None
    layers, kinds = told.get("num_hidden_layers"), told.get("layer_types")
    if not isinstance(layers, int):
        return None
    if not isinstance(kinds, list):
        return {FULL: layers}
    named = [str(one) for one in kinds[:layers] if one not in _NO_ATTENTION]
    sliding = named.count(SLIDING) if isinstance(told.get("sliding_window"), int) else 0
    return {FULL: len(named) - sliding, SLIDING: sliding}


def _cache_quantization(quantized: Mapping[str, Any]) -> Any:
    if quantized.get("kv_cache_quant_algo"):
        return quantized["kv_cache_quant_algo"]
    scheme = _section(quantized, "kv_cache_scheme")
    if scheme.get("type") != "float":
        return None
    return next((name for bits, name in ((8, "FP8"), (4, "NVFP4")) if scheme.get("num_bits") == bits), None)


def _ids(told: Any) -> tuple[int, ...]:
    found = told if isinstance(told, list) else [told]
    return tuple(one for one in found if isinstance(one, int))


def _head(raw: Mapping[str, Any], told: Mapping[str, Any]) -> HeadConfig:
    eagle = _section(told, "eagle_config")
    layers = eagle.get("eagle_aux_hidden_state_layer_ids", raw.get("eagle_aux_hidden_state_layer_ids"))
    methods = _section(raw, "speculators_config").get("proposal_methods")
    first = methods[0] if isinstance(methods, list) and methods else {}
    names = raw.get("architectures")
    return HeadConfig(
        named=isinstance(names, list) and any(_HEAD.search(str(name)) for name in names),
        layers=tuple(layers) if isinstance(layers, list) and layers else None,
        uses_layers=eagle.get("use_aux_hidden_state"),
        draft_vocab_size=told.get("draft_vocab_size"),
        target_hidden_size=told.get("target_hidden_size"),
        k=first.get("speculative_tokens") if isinstance(first, dict) else None,
    )
