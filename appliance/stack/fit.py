"""Whether a draft fits its target, from the headers of both. Pure.

What breaks is refused, what costs is told, and what is not known is left alone. Each rule and where it comes from:
docs/planning.md.
"""

from collections.abc import Iterator, Mapping

from appliance.catalog.entries import Head
from appliance.catalog.stack import Stack
from appliance.checkpoint.config import Config
from appliance.checkpoint.tokenizer import Agreement, compare
from appliance.core.errors import ConfigFault
from appliance.engines.base import Pair
from appliance.engines.trtllm_config import head_layers
from appliance.stack.memory import Model, Models

SAME_FAMILY = 0.9  # of the learned tokens that must be the same; of unrelated vocabularies next to none are
PADDING = 1024  # ids that a vocabulary may be longer than another one and still be padded only
HEAD_LAYERS = 4  # the most that a published head has of its own
ANOTHER_DRAFT = "choose a draft made for this target (`spark-spec heads` lists the heads), or --no-spec"


def check_fit(stack: Stack, models: Models) -> tuple[str, ...]:
    """Warnings about a pair that `check` let through. Raises ConfigFault where the draft cannot draft for the
    target, or the engine cannot load one of them. Models that are not here are taken to fit."""
    for model in (models.target, models.draft):
        if model is not None:
            _check_quantization(stack, model)
    if models.draft is None or models.target.config is None or models.draft.config is None:
        return ()
    told = list(_context(stack, models.draft, models.target.config, models.draft.config))
    rules = _head if stack.draft.method == "eagle3" else _vocabulary
    return (*told, *rules(stack, models.target, models.draft, models.target.config, models.draft.config))


# Any draft.


def _context(stack: Stack, model: Model, target: Config, draft: Config) -> Iterator[str]:
    asked = stack.serve.max_seq_len or target.context
    if draft.context is None or asked is None or asked <= draft.context:
        return
    why = f"its positions reach {draft.context} tokens, and {asked} are asked for"
    if stack.engine.name == "vllm" and stack.draft.method == "eagle3":
        yield f"{model.entry.id} was made for shorter texts ({why}): beyond that few of its drafts are taken"
        return
    raise ConfigFault(
        f"{model.entry.id} cannot draft in a context of {asked} tokens",
        why,
        f"set serve.max_seq_len={draft.context}, or {ANOTHER_DRAFT}",
    )


def _check_quantization(stack: Stack, model: Model) -> None:
    """SGLang does not see NVIDIA's four bits by itself; it is told by what the catalog says of the model."""
    config = model.config
    if stack.engine.name != "sglang" or config is None or "NVFP4" not in (config.quantization or "").upper():
        return
    if "FP4" in (model.entry.quantization or "").upper() or stack.sglang.get("quantization"):
        return
    raise ConfigFault(
        f"SGLang cannot load {model.entry.id} so",
        "its weights are NVFP4, which this engine must be told, and the catalog does not say it of this model",
        "set sglang.quantization=modelopt_fp4",
    )


def _compared(target: Model, draft: Model) -> Agreement | None:
    """The two vocabularies against each other, where both are here."""
    one, other = (model.checkpoint.tokenizer if model.checkpoint else None for model in (target, draft))
    return compare(one, other) if one and other else None


def _other_family(told: Agreement | None) -> bool:
    return told is not None and told.common > 0 and told.share < SAME_FAMILY


# A model of its own.


def _vocabulary(stack: Stack, target: Model, draft: Model, its: Config, own: Config) -> Iterator[str]:
    name, told = draft.entry.id, _compared(target, draft)
    if own.head.named or own.head.layers:
        raise ConfigFault(
            f"{name} cannot draft by {stack.draft.method}",
            "its own config says that it is a head",
            "set draft.method=eagle3, or choose another draft",
        )
    if told and _other_family(told):
        raise ConfigFault(
            f"{name} has another tokenizer than {target.entry.id}",
            f"of {told.common} tokens that both number, {told.common - told.differing} are the same: the target would "
            "read its drafts as something else",
            ANOTHER_DRAFT,
        )
    if told is None:
        yield f"the vocabularies of {name} and its target could not be compared: not both have a tokenizer.json"
    if its.vocab_size and own.vocab_size and its.vocab_size != own.vocab_size:
        yield from _sizes(stack, name, its.vocab_size, own.vocab_size, told.sizes if told else None)
    if told and told.differing:
        yield f"{told.differing} of {told.common} tokens of {name} are others in the target: drafts of them are lost"
    if told and told.added:
        ids = ", ".join(map(str, told.added[:5])) + (", …" if len(told.added) > 5 else "")
        yield f"{name} names some special tokens otherwise than its target (ids {ids}): drafts of them may be lost"
    ends = its.special.get("eos_token_id"), own.special.get("eos_token_id")
    if ends[0] and ends[1] and not set(ends[0]) & set(ends[1]):
        yield f"{name} ends a text with another token than its target ({ends[1][0]}, not {ends[0][0]})"


def _sizes(stack: Stack, name: str, target: int, draft: int, used: tuple[int, int] | None) -> Iterator[str]:
    """Two lengths of the vocabulary: padding, or tokens added at the end, unless it is by many."""
    real = used or (target, draft)
    why = f"it has {draft} tokens, the target {target}"
    if real[1] > target + PADDING:
        raise ConfigFault(f"{name} has another vocabulary than its target", why, ANOTHER_DRAFT)
    options = stack.vllm.get("speculative_config")
    mixed = isinstance(options, Mapping) and options.get("use_heterogeneous_vocab")
    if stack.engine.name == "vllm" and not mixed:
        raise ConfigFault(
            f"vLLM does not take {name} for this target",
            f"{why}; vLLM wants both to be of one length",
            f"set vllm.speculative_config.use_heterogeneous_vocab=true, or {ANOTHER_DRAFT}",
        )
    if used and real[1] > target:
        yield f"{name} has {real[1] - target} tokens more than its target ({why}): it should never draft them"
    elif real[0] > real[1] + PADDING:
        yield f"{name} has a smaller vocabulary than its target ({why}): what lies beyond it is never drafted"


# A head.


def _head(stack: Stack, target: Model, draft: Model, its: Config, own: Config) -> Iterator[str]:
    _check_head(target, draft, its, own)
    _check_layers(stack, target, draft, its, own)
    name, k, record = draft.entry.id, stack.draft.k or 0, own.head
    if _other_family(_compared(target, draft)):
        yield f"{name} comes with a tokenizer of another family than its target's: it may be made for another one"
    yield from _short_vocabulary(draft, its, own)
    if record.k and k > record.k:
        yield f"{name} proposes {record.k} tokens a step, and draft.k is {k}: few of the later ones are taken"


def _check_head(target: Model, draft: Model, its: Config, own: Config) -> None:
    """Raises ConfigFault for what is no head, or one of another target by its measures."""
    name, record = draft.entry.id, own.head
    if not (record.named or record.layers or _shape(draft, "fc.weight")) and (own.layers or 0) > HEAD_LAYERS:
        raise ConfigFault(
            f"{name} cannot draft by eagle3",
            f"it is a model of {own.layers} layers, and no head by its own config",
            "set draft.method=draft-target, or choose a head: `spark-spec heads`",
        )
    why, width = "", record.target_hidden_size or own.hidden_size
    if width and its.hidden_size and width != its.hidden_size:
        why = f"it reads hidden states of {width} numbers, and the target's have {its.hidden_size}"
    # Some write their own short vocabulary where the target's belongs.
    elif own.vocab_size != record.draft_vocab_size and _shape(draft, "d2t") is None:
        apart = abs(own.vocab_size - its.vocab_size) if own.vocab_size and its.vocab_size else 0
        if apart > PADDING:
            why = f"it was trained on a vocabulary of {own.vocab_size} tokens, and the target has {its.vocab_size}"
    if why:
        raise ConfigFault(f"{name} was not made for {target.entry.id}", why, ANOTHER_DRAFT)


def _check_layers(stack: Stack, target: Model, draft: Model, its: Config, own: Config) -> None:
    """Raises ConfigFault where the layers that the head reads are none of the target's, are others than those that
    the catalog gives the engine, or do not fill its first matrix: each crashes, or nothing it drafts is taken."""
    name, layers, head = draft.entry.id, own.head.layers, draft.entry.head
    if layers and its.layers and max(layers) > its.layers:  # one as high: the states after the last layer
        raise ConfigFault(
            f"{name} was not made for {target.entry.id}",
            f"it reads the layers {list(layers)}, and the target has {its.layers}",
            ANOTHER_DRAFT,
        )
    if layers and head and (other := _otherwise(head, layers)):
        raise ConfigFault(
            f"{name} is not the head that the catalog knows",
            f"its own config says that it reads the layers {list(layers)}, the catalog {list(other)}",
            "fetch the revision that is meant; where the head is right, the catalog's entry is to be corrected",
        )
    pair = Pair(target.entry, draft.entry)
    given = (head_layers(pair) if stack.engine.name == "trtllm" else ()) or layers
    shape, width = _shape(draft, "fc.weight"), own.head.target_hidden_size or own.hidden_size
    if not (given and shape and width) or own.head.uses_layers is False:
        return
    # A head that reads the last layer alone may take the token's embedding beside it.
    right = {len(given) * width} | ({2 * width} if len(given) == 1 else set())
    if shape[-1] not in right:
        raise ConfigFault(
            f"{name} does not read the layers that the engine would give it",
            f"its first matrix takes {shape[-1]} numbers, and {list(given)} are {len(given)} x {width}",
            f"fetch it again, or {ANOTHER_DRAFT}",
        )


def _otherwise(head: Head, own: tuple[int, ...]) -> tuple[int, ...] | None:
    """The catalog's layers where they are others. Some count from 0 and some from 1, so a shift by one is none;
    [-1] tells an engine to take the last layer, whatever its number."""
    known = [tuple(sorted(layers)) for layers in head.layers.values() if min(layers) >= 0]
    shifted = [tuple(layer + shift for layer in sorted(own)) for shift in (-1, 0, 1)]
    return next((layers for layers in known if layers not in shifted), None)


def _short_vocabulary(draft: Model, its: Config, own: Config) -> Iterator[str]:
    """A head may draft from a part of the vocabulary; `d2t` says which token each of its own is."""
    short, shape = own.head.draft_vocab_size, _shape(draft, "d2t")
    whole = its.vocab_size or own.vocab_size or 0
    if not short or not _shapes(draft) or whole - short <= PADDING:
        return
    if shape is None:
        yield f"{draft.entry.id} drafts from {short} tokens and has no d2t that says which: few will be taken"
    elif shape != (short,):
        raise ConfigFault(
            f"{draft.entry.id} is not whole",
            f"its map of the vocabulary (d2t) has the shape {list(shape)}, and it drafts from {short} tokens",
            "fetch it again: `spark-spec models verify` says which files are damaged",
        )


def _shape(draft: Model, name: str) -> tuple[int, ...] | None:
    """The shape of a head's tensor; None where it has none, or no header says."""
    found = (shape for key, shape in _shapes(draft).items() if key == name or key.endswith(f".{name}"))
    return next(found, None)


def _shapes(model: Model) -> Mapping[str, tuple[int, ...]]:
    return model.checkpoint.weights.shapes if model.checkpoint and model.checkpoint.weights else {}
