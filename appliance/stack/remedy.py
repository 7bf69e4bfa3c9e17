"""Which settings would make a stack fit into memory: found by computing its budget with them. Pure."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from appliance.catalog.stack import Draft, Stack
from appliance.engines.kv_cache import Cap, cap_of
from appliance.stack.memory import RESERVE, Budget, Models, budget, pair_cache_bytes

STEP = 1024  # tokens; what is proposed is a multiple of it
SLACK = 1024  # tokens of the cache beside one request of full length, for the drafts
SPARE = 4096  # tokens more than are asked for are never proposed
LONGEST = 131_072  # tokens, where neither the stack nor the model says how many
MIB = 1 << 20
CAPS = {"trtllm": "trtllm.kv_cache_config.max_tokens", "sglang": "sglang.max_total_tokens"}

Settings = Mapping[str, Any]


def settings(stack: Stack, models: Models, found: Budget) -> tuple[str, ...]:
    """KEY=VALUE pairs with which a stack that does not fit would; none where no size of its KV cache does it, or
    where something is not known."""
    start = _at_start(found)
    if found.known <= found.room:
        return _written(start)
    cap, asked = cap_of(stack), _asked(stack, models)

    def fits(tokens: int) -> bool:
        with_it = changed(stack, start | _cache(stack, models, cap, asked, tokens))
        return budget(with_it, models, found.memory, found.freed).fits is True

    steps = range(STEP, asked * stack.serve.max_batch_size + SPARE + 1, STEP)
    last = bisect_left(steps, True, key=lambda tokens: not fits(tokens)) - 1
    tokens = steps[last] if last >= 0 else 0
    if tokens <= (SLACK if stack.engine.name != "llamacpp" else 0):
        return ()
    return _written(start | _cache(stack, models, cap, asked, tokens))


def without_draft(stack: Stack, models: Models, found: Budget) -> bool:
    """Whether the target alone would fit."""
    if models.draft is None:
        return False
    alone = stack.model_copy(update={"draft": Draft()})
    return budget(alone, Models(models.target, None), found.memory, found.freed).fits is True


def changed(stack: Stack, settings: Settings) -> Stack:
    """The stack with other values of some keys."""
    whole = stack.model_dump(by_alias=True)
    for key, value in settings.items():
        *path, last = key.split(".")
        place = whole
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return Stack.model_validate(whole)


def _asked(stack: Stack, models: Models) -> int:
    config = models.target.config
    return stack.serve.max_seq_len or (config.context if config else None) or LONGEST


def _cache(stack: Stack, models: Models, cap: Cap, asked: int, tokens: int) -> dict[str, Any]:
    """What makes an engine take a cache of so many tokens; with a context that has room in it, where the asked one
    has not."""
    name = stack.engine.name
    if name == "llamacpp":
        return {"serve.max_seq_len": max(1, tokens // stack.serve.max_batch_size)}
    context = {} if tokens >= asked + SLACK else {"serve.max_seq_len": max(1, tokens - SLACK)}
    if cap.kind == "tokens":
        return context | {cap.setting: tokens // cap.unit}
    if name in CAPS and cap.kind != "bytes":
        return context | {CAPS[name]: tokens}
    size = -(-(pair_cache_bytes(stack, models, tokens) or 0) // MIB) * MIB
    return context | {cap.setting if cap.kind == "bytes" else "vllm.kv_cache_memory_bytes": size}


def _at_start(found: Budget) -> dict[str, Any]:
    """What must be free at the start, lowered where it is too much: what can be had beside the reserve."""
    if found.at_start is None or found.at_start[0] <= found.room:
        return {}
    share = (found.room - (found.bytes_of(RESERVE) or 0)) / found.memory.total
    return {found.at_start[1]: max(1, math.floor(100 * share)) / 100}


def _written(settings: Settings) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in settings.items())
