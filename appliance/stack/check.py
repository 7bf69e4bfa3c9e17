"""Whether a stack can be: its models, made for one another, and an engine of a version that serves them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from appliance import engines
from appliance.catalog.entries import Entry, HubSource, load_entry
from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.engines.base import Pair

SECRET_KEY = re.compile(r"(?i)(token|secret|passw(or)?d|api_?key|auth_?key|credentials?)$")
SECRET_VALUE = re.compile(r"(hf|nvapi|sk|ghp|github_pat|xox[a-z])[-_][A-Za-z0-9_-]{8,}")


def pair_of(stack: Stack) -> Pair:
    """The models of a stack. Raises ConfigFault on one that the catalog does not have."""
    draft = load_entry(stack.draft.model) if stack.draft.model else None
    return Pair(load_entry(stack.target.model), draft)


def check(stack: Stack) -> tuple[str, ...]:
    """Warnings about a stack. Raises ConfigFault, with the way out, for one that cannot be."""
    pair, engine = pair_of(stack), engines.get(stack.engine.name)
    _check_sections(stack)
    _check_target(pair.target)
    warnings = []
    for entry in (pair.target, *([pair.draft] if pair.draft else [])):
        _check_format(entry, engine)
        warnings += _check_context(stack, entry)
    if pair.draft:
        _check_kind(stack, pair.draft)
        warnings += _check_made_for(stack, pair.target, pair.draft)
    return (*warnings, *_unknown(pair), *_unpinned(pair), *engine.check(stack, pair))


def _unknown(pair: Pair) -> list[str]:
    return [
        f"{entry.id} is not in the catalog: what it is made for is not known"
        for entry in (pair.target, pair.draft)
        if entry and not entry.catalogued
    ]


def _unpinned(pair: Pair) -> list[str]:
    """The catalog knows no revision that it did not read at the hub."""
    found = [
        entry.source.repo
        for entry in (pair.target, pair.draft)
        if entry and isinstance(entry.source, HubSource) and entry.source.revision is None
    ]
    return (
        [f"no revision is pinned for {' and '.join(found)}: what lies in the cache is served"]
        if found
        else []
    )


def _check_sections(stack: Stack) -> None:
    """A key of another engine would be heeded by nobody."""
    sections = {"trtllm": stack.trtllm, "vllm": stack.vllm, "sglang": stack.sglang}
    sections["llamacpp"] = stack.llamacpp.model_dump(exclude_defaults=True)
    for name, keys in sections.items():
        if keys and name != stack.engine.name:
            raise ConfigFault(
                f"{name}.{next(iter(keys))} means nothing to the engine {stack.engine.name}",
                f"it is a setting of {name}",
                f"leave the section {name} out, or take a preset of {stack.engine.name}: spark-spec presets",
            )
        for place in _secrets(keys, name):
            raise ConfigFault(
                f"{place} cannot be set",
                "it looks like a secret, which would lie readable in the rendered files",
                "leave it out: an engine here needs none, as only the launcher fetches (spark-spec secrets)",
            )


def _secrets(options: Mapping[str, Any], path: str) -> Iterator[str]:
    """The places in an open section where a secret would lie readable in a rendered file."""
    for key, value in options.items():
        here = f"{path}.{key}"
        if isinstance(value, Mapping):
            yield from _secrets(value, here)
        elif isinstance(value, str) and (SECRET_KEY.search(str(key)) or SECRET_VALUE.match(value)):
            yield here


def _check_target(target: Entry) -> None:
    if target.head and target.head.method == "eagle3":
        raise ConfigFault(
            f"{target.id} cannot be a target",
            "it is a head: it drafts from another model's hidden states, and answers nothing by itself",
            f"set target.model={target.head.target} and draft.model={target.id}",
        )


def _check_format(entry: Entry, engine: engines.Engine) -> None:
    if entry.format not in engine.formats:
        raise ConfigFault(
            f"the engine {engine.name} cannot read {entry.id}",
            f"the model is {entry.format}, the engine reads {' and '.join(engine.formats)}",
            "choose another engine.name, or another model",
        )


def _check_context(stack: Stack, entry: Entry) -> list[str]:
    asked, most = stack.serve.max_seq_len, entry.context_length
    if asked is None or most is None or asked <= most:
        return []
    raise ConfigFault(
        f"serve.max_seq_len {asked} is more than {entry.id} can do",
        f"it was made for {most} tokens",
        f"set serve.max_seq_len to {most} or less",
    )


def _check_kind(stack: Stack, draft: Entry) -> None:
    """A head drafts from the target's hidden states, a model from text: neither can take the other's place."""
    if not draft.catalogued:
        return
    method, head = stack.draft.method, draft.head
    kind = head.method if head else "draft-target"
    if kind != method:
        what = "a head" if kind == "eagle3" else "a model of its own"
        raise ConfigFault(
            f"{draft.id} cannot draft by {method}",
            f"it is {what}: it drafts by {kind}",
            f"set draft.method={kind}, or choose another draft (`spark-spec heads` lists the heads)",
        )


def _check_made_for(stack: Stack, target: Entry, draft: Entry) -> list[str]:
    """What the draft's publisher says it is for: breaking it gives wrong layers or tokens that are never taken."""
    head = draft.head
    if head is None:
        return []
    if head.target not in (target.id, target.name):
        raise ConfigFault(
            f"{draft.id} was not made for {target.id}",
            f"it drafts for {head.target}",
            "choose a draft made for this target: `spark-spec heads`",
        )
    k = stack.draft.k or 0
    if head.k_most is not None and k > head.k_most:
        raise ConfigFault(
            f"draft.k {k} is more than {draft.id} was made for",
            f"it drafts at most {head.k_most}; what lies beyond is guessed badly and costs time",
            f"set draft.k={head.k_most}, or choose another head: `spark-spec heads`",
        )
    told = []
    if head.k_most is None and head.k is not None and k > head.k:
        told.append(
            f"{draft.id} was published with K = {head.k}; a longer draft costs time and may bring nothing"
        )
    if stack.engine.name not in head.engines:
        told.append(
            f"{draft.id} was published for {' and '.join(head.engines)}, not for {stack.engine.name}: "
            "verify that its drafts are accepted"
        )
    return told
