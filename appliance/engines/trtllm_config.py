"""extra-llm-api-config.yml: everything TensorRT-LLM is told, each value in this one place.

On the command line a value would lose to this file, or win over it, by version (PR #9262, #14812).
"""

from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.engines import trtllm_versions as versions
from appliance.engines.base import Pair, Place

MOST_TOKENS = 8192  # the engine's own default of max_num_tokens

# Keys of the engine's config that the stack has its own words for, and those that nobody sets, with the reason.
OWNED: Mapping[str, str] = {
    "model": "target.model",
    "tokenizer": "target.model",
    "max_batch_size": "serve.max_batch_size",
    "max_seq_len": "serve.max_seq_len",
    "speculative_config.decoding_type": "draft.method",
    "speculative_config.max_draft_len": "draft.k",
    "speculative_config.max_total_draft_tokens": "draft.k",
    "speculative_config.speculative_model_dir": "draft.model",
    "speculative_config.speculative_model": "draft.model",
}
BARRED: Mapping[str, str] = {
    "enable_iter_perf_stats": "acceptance is counted by it",
    "internal_request_auth_key": "a secret has no place in a rendered file",
    "telemetry_config": "telemetry is off here, in every version",
    "backend": "this appliance serves with the pytorch backend",
    "speculative_config.draft_len_schedule": "K would stand in two places: draft.k is the one",
}


def config(stack: Stack, pair: Pair, place: Place, version: Version) -> dict[str, Any]:
    """The whole config, as data. Pure."""
    ours: dict[str, Any] = {"max_batch_size": stack.serve.max_batch_size}
    if (length := stack.serve.max_seq_len) is not None:
        ours["max_seq_len"] = length
        if length > MOST_TOKENS:
            ours["max_num_tokens"] = length  # a prompt goes in whole: chunked prefill is off by default
    if stack.draft.method != "none":
        ours["speculative_config"] = _speculative(stack, pair, place, version)
        ours["kv_cache_config"] = {"enable_block_reuse": False}
    ours["enable_iter_perf_stats"] = True
    theirs = dict(stack.trtllm)
    if stack.draft.method == "none":
        theirs.pop("speculative_config", None)  # a preset's, which --no-spec takes away with its draft
    return _merged(ours, theirs)


def _speculative(stack: Stack, pair: Pair, place: Place, version: Version) -> dict[str, Any]:
    text = stack.engine.version or versions.DEFAULT
    told: dict[str, Any] = {
        "decoding_type": versions.decoding_type(stack.draft.method, version, text),
        "max_draft_len": stack.draft.k,
        "speculative_model_dir": place.draft,
    }
    if layers := head_layers(pair):
        told["eagle3_layers_to_capture"] = list(layers)
    if versions.ADVANCED_SAMPLING <= version < versions.ADVANCED_SAMPLING_ENDS:
        told["allow_advanced_sampling"] = True  # or a request's temperature is not heeded
    return told


def head_layers(pair: Pair) -> tuple[int, ...]:
    """The target's layers that the head reads, in this engine's numbering; empty where its checkpoint says them."""
    head = pair.draft.head if pair.draft else None
    return head.layers.get("trtllm", ()) if head else ()


def check_sections(options: Mapping[str, Any]) -> None:
    """Raises ConfigFault where a section that the stack has keys in is taken away or is none."""
    for path in ("speculative_config", "kv_cache_config"):
        if path in options and not isinstance(options[path], Mapping):
            raise ConfigFault(
                f"trtllm.{path} cannot be {options[path]}",
                "it is a section, and the stack has keys in it",
                "--no-spec takes speculation away"
                if path == "speculative_config"
                else f"set trtllm.{path}.KEY",
            )


def check_layers(options: Mapping[str, Any], pair: Pair) -> None:
    """Raises ConfigFault for layers other than those the head was trained on: it would crash, or draft nonsense."""
    head, key = pair.draft.head if pair.draft else None, "eagle3_layers_to_capture"
    asked = options.get("speculative_config", {})
    if head is None or not head.layers or key not in asked:
        return
    right = head_layers(pair)
    if right and isinstance(asked[key], list) and sorted(map(str, asked[key])) == sorted(map(str, right)):
        return
    assert pair.draft is not None
    raise ConfigFault(
        f"trtllm.speculative_config.{key} cannot be {asked[key]} with {pair.draft.id}",
        f"the head was trained on the layers {list(right)}: others crash it, or nothing it drafts is taken"
        if right
        else "its checkpoint says which layers it reads: others crash it, or nothing it drafts is taken",
        "leave the key out: the right layers are set for this head",
    )


def _merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """`theirs` over `ours`, section by section."""
    merged = dict(ours)
    for key, value in theirs.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
