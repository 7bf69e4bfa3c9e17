"""Which settings would make a stack fit into memory: computed from its budget. Pure."""

import math
from bisect import bisect_right

from appliance.catalog.stack import Draft, Stack
from appliance.engines.kv_cache import Cap, cap_of
from appliance.stack.memory import CACHE, DRAFT_CACHE, RESERVE, Budget, Models, budget, pair_cache_bytes

STEP = 1024  # tokens; what is proposed is a multiple of it
SLACK = 1024  # tokens of the cache beside one request of full length, for the drafts
SPARE = 4096  # tokens more than are asked for are never proposed
LONGEST = 131_072  # tokens, where neither the stack nor the model says how many
MIB = 1 << 20


def settings(stack: Stack, models: Models, found: Budget) -> tuple[str, ...]:
    """KEY=VALUE pairs with which a stack that does not fit would; none where no size of its KV cache does it, or
    where something is not known."""
    fixed = [part.bytes for part in found.parts if part.name not in (CACHE, DRAFT_CACHE)]
    if None in fixed:
        return ()
    cap = cap_of(stack)
    room = found.room - sum(one or 0 for one in fixed)
    if cap.kind == "share of all":
        return _share(stack, models, found, room)
    shown: tuple[str, ...] = ()
    if found.known > found.room:
        shown = _bytes(stack, models, cap, room) if cap.kind == "bytes" else _tokens(stack, models, cap, room)
        if not shown:
            return ()
    return (*shown, *_at_start(found))


def without_draft(stack: Stack, models: Models, found: Budget) -> bool:
    """Whether the target alone would fit."""
    alone = stack.model_copy(update={"draft": Draft()})
    return (
        models.draft is not None
        and budget(alone, Models(models.target, None), found.memory, found.freed).fits is True
    )


def _asked(stack: Stack, models: Models) -> int:
    config = models.target.config
    return stack.serve.max_seq_len or (config.context if config else None) or LONGEST


def _most_tokens(stack: Stack, models: Models, room: int) -> int:
    """The most tokens whose cache fits into `room` bytes, as far as anyone asked for them; 0 where none does."""
    asked = _asked(stack, models) * stack.serve.max_batch_size + SPARE
    steps = range(STEP, asked + 1, STEP)
    if room <= 0 or pair_cache_bytes(stack, models, STEP) is None:
        return 0
    return STEP * bisect_right(steps, room, key=lambda tokens: pair_cache_bytes(stack, models, tokens) or 0)


def _shorter(stack: Stack, models: Models, tokens: int) -> tuple[str, ...] | None:
    """The context that so many tokens of cache are enough for; nothing where the asked one is; None where it would
    be too short to be of use."""
    if tokens >= _asked(stack, models) + SLACK:
        return ()
    return (f"serve.max_seq_len={tokens - SLACK}",) if tokens > SLACK else None


def _tokens(stack: Stack, models: Models, cap: Cap, room: int) -> tuple[str, ...]:
    tokens = _most_tokens(stack, models, room)
    if stack.engine.name == "llamacpp":
        each = tokens // stack.serve.max_batch_size
        return (f"serve.max_seq_len={each}",) if each else ()
    key = {"trtllm": "trtllm.kv_cache_config.max_tokens", "sglang": "sglang.max_total_tokens"}.get(
        stack.engine.name
    )
    shorter = _shorter(stack, models, tokens)
    return () if shorter is None else (*shorter, f"{key or cap.setting}={tokens // cap.unit}")


def _bytes(stack: Stack, models: Models, cap: Cap, room: int) -> tuple[str, ...]:
    shorter = _shorter(stack, models, _most_tokens(stack, models, room))
    return () if shorter is None else (*shorter, f"{cap.setting}={room // MIB * MIB}")


def _share(stack: Stack, models: Models, found: Budget, room: int) -> tuple[str, ...]:
    """vLLM's share of all memory: weights, workspace and cache at once."""
    lower = _hundredths(found)
    beside = found.known - (found.bytes_of(CACHE) or 0) - (found.bytes_of(RESERVE) or 0)
    left = min(room, int(lower * found.memory.total) - beside)
    shorter = _shorter(stack, models, _most_tokens(stack, models, left))
    return () if shorter is None else (*shorter, f"vllm.gpu_memory_utilization={lower:.2f}")


def _at_start(found: Budget) -> tuple[str, ...]:
    if found.at_start is None or found.at_start[0] <= found.room:
        return ()
    return (f"{found.at_start[1]}={_hundredths(found):.2f}",)


def _hundredths(found: Budget) -> float:
    """The share of all memory that can be had beside the reserve, rounded down."""
    return math.floor(100 * (found.room - (found.bytes_of(RESERVE) or 0)) / found.memory.total) / 100
