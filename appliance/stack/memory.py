"""The memory budget of a stack, from headers alone. Pure. Formulas and their sources: docs/planning.md."""

from collections.abc import Iterator
from dataclasses import dataclass

from appliance import engines
from appliance.catalog.entries import Entry, HubSource, WheelSource
from appliance.catalog.stack import Stack
from appliance.checkpoint.config import FULL, SLIDING, Config
from appliance.checkpoint.read import Checkpoint
from appliance.engines.kv_cache import ELEMENT, Cap, cap_of, prompt_tokens
from appliance.machine.memory import Memory

GIB = 1 << 30
RESERVE_SHARE = 32  # one part in so many of all memory stays for the rest of the machine
GPU_PROCESS = (
    5 * GIB
)  # an estimate: 4 for CUDA's context, kernels, Python and its libraries, 1 for CUDA graphs
CPU_PROCESS = GIB // 2  # an estimate: llama.cpp's compute buffers, and the program around it
LAYER_NUMBERS = (8, 3)  # numbers a layer computes of a token: so many hidden sizes, so many intermediate ones
TARGET, DRAFT, CACHE, DRAFT_CACHE = "target", "draft", "KV cache", "draft's KV cache"
WORKSPACE, RESERVE = "workspace", "reserve"


@dataclass(frozen=True)
class Model:
    """A model of a stack: what the catalog says, and what its files say, where they are here."""

    entry: Entry
    checkpoint: Checkpoint | None

    @property
    def config(self) -> Config | None:
        return self.checkpoint.config if self.checkpoint else None


@dataclass(frozen=True)
class Models:
    """The models of a stack."""

    target: Model
    draft: Model | None


@dataclass(frozen=True)
class Part:
    """One thing that takes memory: bytes (None: not known), and what they were computed from."""

    name: str
    bytes: int | None
    source: str


@dataclass(frozen=True)
class Budget:
    """What a stack takes, and what there is for it. `freed`: what is given back by what stops for it; `at_start`:
    bytes that the engine wants to see free at its start, and the setting that says so."""

    parts: tuple[Part, ...]
    memory: Memory
    freed: int = 0
    at_start: tuple[int, str] | None = None
    notes: tuple[str, ...] = ()

    @property
    def room(self) -> int:
        """Bytes that can be had for it."""
        return min(self.memory.available + self.freed, self.memory.total)

    @property
    def known(self) -> int:
        """Bytes of all parts that are known."""
        return sum(part.bytes or 0 for part in self.parts)

    @property
    def needs(self) -> int:
        """Bytes that must be there: the parts that are known, or what must be free at the start."""
        return max(self.known, self.at_start[0] if self.at_start else 0)

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if part.bytes is None)

    @property
    def fits(self) -> bool | None:
        """None where something that is not known decides."""
        if self.needs > self.room:
            return False
        return None if self.unknown else True

    def bytes_of(self, name: str) -> int | None:
        """Of a part by its name; 0 where there is none such."""
        return next((part.bytes for part in self.parts if part.name == name), 0)


def budget(stack: Stack, models: Models, memory: Memory, freed: int = 0) -> Budget:
    """The budget of a stack that passed `check`."""
    fixed = (*_weights(models), _workspace(stack, models.target.config), _reserve(memory))
    cap = cap_of(stack)
    room = min(memory.available + freed, memory.total)
    cache = tuple(_caches(stack, models, cap, fixed, memory, room))
    at_start = None
    if cap.at_start:
        at_start = int(cap.at_start[0] * memory.total), cap.at_start[1]
    drafts = 2 if models.draft else 1
    parts = (*fixed[:drafts], *cache, *fixed[drafts:])
    return Budget(parts, memory, freed, at_start, tuple(_notes(stack, models, cap, cache)))


def cache_bytes(config: Config | None, tokens: int, sequences: int, element: float) -> int | None:
    """Bytes of the KV cache of so many tokens in so many sequences: 2 x heads x head_dim x bytes, a layer and token;
    a sliding layer keeps its window of each sequence only. None where the config does not say."""
    if config is None or config.layer_kinds is None or not (config.kv_heads and config.head_dim):
        return None
    kinds, window = config.layer_kinds, config.window or tokens
    held = kinds.get(FULL, 0) * tokens + kinds.get(SLIDING, 0) * min(tokens, sequences * window)
    return int(2 * config.kv_heads * config.head_dim * element * held)


def pair_cache_bytes(stack: Stack, models: Models, tokens: int) -> int | None:
    """The same for target and draft together, as the stack's engine stores them."""
    of = [models.target.config, *([models.draft.config] if models.draft else [])]
    element = element_of(cap_of(stack), models.target.config)
    found = [cache_bytes(config, tokens, stack.serve.max_batch_size, element) for config in of]
    return None if None in found else sum(one or 0 for one in found)


def element_of(cap: Cap, target: Config | None) -> float:
    """Bytes of a cached number."""
    if cap.element is not None:
        return cap.element
    told = (target.cache_quantization or "" if target else "").lower()
    return next((size for word, size in ELEMENT.items() if word in told), ELEMENT["16"])


def _weights(models: Models) -> Iterator[Part]:
    for name, model in ((TARGET, models.target), (DRAFT, models.draft)):
        if model is not None:
            yield _weight(name, model)


def _weight(name: str, model: Model) -> Part:
    weights, source = model.checkpoint.weights if model.checkpoint else None, model.entry.source
    if weights:
        return Part(name, weights.bytes, f"{model.entry.id}: {weights.source}")
    told = source.bytes if isinstance(source, HubSource | WheelSource) else None
    if told:
        return Part(name, told, f"{model.entry.id}: the catalog; its files are not all here")
    return Part(name, None, f"{model.entry.id}: its files are not all here, and the catalog knows no size")


def _workspace(stack: Stack, target: Config | None) -> Part:
    if not engines.get(stack.engine.name).gpu:
        return Part(WORKSPACE, CPU_PROCESS, "an estimate: the program and its compute buffers")
    said = "an estimate: CUDA, the program, graphs"
    if target is None or not target.hidden_size:
        return Part(WORKSPACE, GPU_PROCESS, said)
    hidden, inner = LAYER_NUMBERS
    tokens, wide = prompt_tokens(stack), (target.intermediate_size or 0) * (target.experts_per_token or 1)
    numbers = tokens * (hidden * target.hidden_size + inner * wide)
    return Part(WORKSPACE, GPU_PROCESS + 2 * numbers, f"{said}, a layer of {tokens:,} tokens")


def _reserve(memory: Memory) -> Part:
    return Part(
        RESERVE,
        memory.total // RESERVE_SHARE,
        f"1/{RESERVE_SHARE} of all memory, for the rest of the machine",
    )


def _caches(
    stack: Stack, models: Models, cap: Cap, fixed: tuple[Part, ...], memory: Memory, room: int
) -> Iterator[Part]:
    sequences, element = stack.serve.max_batch_size, element_of(cap, models.target.config)
    said = cap.setting if cap.kind in ("tokens", "bytes", "unknown") else f"{cap.setting}={cap.amount:g}"
    if cap.kind != "tokens":
        within = ", the draft's within it" if models.draft else ""
        yield Part(CACHE, _taken(cap, fixed, memory, room), f"{said}{within}")
        return
    tokens = int(cap.amount)
    of = [(CACHE, models.target), *([(DRAFT_CACHE, models.draft)] if models.draft else [])]
    for name, model in of:
        size = cache_bytes(model.config, tokens, sequences, element)
        why = f"{tokens:,} tokens ({said})"
        if size is None:
            why += "; its config is not here, or does not say"
        elif (more := _in_full(model.config, tokens, element)) > size:
            why += f"; {more / 1e9:.1f} GB where its sliding layers keep all of them"
        yield Part(name, size, why)


def _in_full(config: Config | None, tokens: int, element: float) -> int:
    """Bytes of a cache whose sliding layers keep more than their window, as some engines have it."""
    whole = config.model_copy(update={"window": None}) if config else None
    return cache_bytes(whole, tokens, 1, element) or 0


def _taken(cap: Cap, fixed: tuple[Part, ...], memory: Memory, room: int) -> int | None:
    """Bytes of the cache by a cap in bytes, or by a share; None where the share is of something unknown."""
    if cap.kind == "bytes":
        return int(cap.amount)
    beside = [part.bytes for part in fixed if part.name != RESERVE]
    loaded = [part.bytes for part in fixed if part.name in (TARGET, DRAFT)]
    if cap.kind == "unknown" or None in beside:
        return None
    all_of_it, weights = sum(one or 0 for one in beside), sum(one or 0 for one in loaded)
    taken = {
        "share of the rest": cap.amount * (room - all_of_it),
        "share with weights": cap.amount * room - weights,
        "share of all": cap.amount * memory.total - all_of_it,
    }[cap.kind]
    return max(0, int(taken))


def _notes(stack: Stack, models: Models, cap: Cap, caches: tuple[Part, ...]) -> Iterator[str]:
    asked, taken = stack.serve.max_seq_len, caches[0].bytes
    if cap.kind == "tokens" or asked is None or taken is None:
        return
    needed = cache_bytes(models.target.config, asked, 1, element_of(cap, models.target.config))
    if needed and needed > taken:
        yield (
            f"one request of {asked:,} tokens needs {needed / 1e9:.1f} GB of KV cache, and {cap.setting} leaves "
            f"{taken / 1e9:.1f} GB: the engine may not start so, or cuts it short"
        )
