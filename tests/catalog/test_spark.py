"""The Spark's models and heads: what is told of them has a source, and what has none is not told."""

from typing import Any

import pytest

from appliance.catalog.entries import Entry, HubSource, entry_ids, load_entry

HUB = [entry for entry in map(load_entry, entry_ids()) if isinstance(entry.source, HubSource)]
HEADS = [entry for entry in HUB if entry.head]


def facts(entry: Entry) -> dict[str, Any]:
    """What an entry says that somebody must have read somewhere."""
    assert isinstance(entry.source, HubSource)
    told = {key: getattr(entry, key) for key in ("license", "gated", "quantization", "context_length")}
    told |= {key: getattr(entry.source, key) for key in ("bytes", "revision", "files")}
    if entry.head:
        told |= {key: getattr(entry.head, key) or None for key in ("engines", "layers", "k", "k_most")}
    return told


@pytest.mark.parametrize("entry", HUB, ids=lambda entry: entry.id)
def test_each_fact_has_its_source_and_each_source_its_fact(entry: Entry) -> None:
    known = {key for key, value in facts(entry).items() if value is not None}
    assert set(entry.sources) == known


@pytest.mark.parametrize("entry", HUB, ids=lambda entry: entry.id)
def test_no_revision_was_guessed(entry: Entry) -> None:
    """None was read from its source yet: the hub was not asked."""
    assert isinstance(entry.source, HubSource)
    assert entry.source.revision is None


def test_sizes_are_those_that_were_measured_and_no_others() -> None:
    sizes = {entry.id: facts(entry)["bytes"] for entry in HUB if facts(entry)["bytes"]}
    assert sizes.pop("gpt-oss-120b") == round(60.8 * 2**30)
    assert sizes == {
        "gpt-oss-120b-eagle3": 411_000_000,
        "gpt-oss-120b-eagle3-long-context": 431_000_000,
        "lmsys-gpt-oss-120b-eagle3": 1_770_000_000,
        "yuhuili-llama-3.1-8b-eagle3": 850_000_000,
    }
    assert all("about" in load_entry(model).sources["bytes"] for model in ("gpt-oss-120b", *sizes))


def test_only_the_copy_that_engines_read_is_fetched_of_gpt_oss() -> None:
    """Case 16: the repository holds three copies, 182 GiB for the 61 that are needed."""
    target = load_entry("gpt-oss-120b")
    assert isinstance(target.source, HubSource)
    assert target.source.unneeded == ("*/*",)
    assert target.chat == "harmony"
    assert target.gated is False


@pytest.mark.parametrize(
    ("head", "layers", "k", "k_most"),
    [
        ("gpt-oss-120b-eagle3", {}, 4, None),
        ("gpt-oss-120b-eagle3-v2", {"trtllm": (-1,)}, 3, 3),
        ("gpt-oss-120b-eagle3-short-context", {"trtllm": (-1,)}, 3, 3),
        ("gpt-oss-120b-eagle3-long-context", {"vllm": (1, 17, 32)}, 5, None),
        ("gpt-oss-120b-eagle3-throughput", {"trtllm": (-1,)}, 1, 1),
        ("gpt-oss-120b-eagle3-v3", {"trtllm": (23, 29, 35), "vllm": (24, 30, 36)}, 1, 3),
    ],
)
def test_the_layers_and_lengths_of_each_gpt_oss_head_are_its_own(
    head: str, layers: dict[str, tuple[int, ...]], k: int, k_most: int | None
) -> None:
    """Case 19: another head's layers crash it, or nothing it drafts is taken."""
    told = load_entry(head).head
    assert told is not None
    assert (told.target, told.layers, told.k, told.k_most) == ("gpt-oss-120b", layers, k, k_most)


@pytest.mark.parametrize("entry", HEADS, ids=lambda entry: entry.id)
def test_a_head_names_its_target_by_id_where_the_catalog_has_it(entry: Entry) -> None:
    assert entry.head is not None
    names = {load_entry(model).name for model in entry_ids()}
    assert entry.head.target in entry_ids() or "/" in entry.head.target
    assert entry.head.target not in names, "the id is what a person can serve"


def test_the_heads_are_those_of_a_kind_that_can_be_served() -> None:
    """No DFlash, DSpark, P-EAGLE or MTP module: no stack could load one."""
    assert {entry.head.method for entry in HEADS if entry.head} == {"eagle3"}
    assert len({entry.name for entry in HEADS}) == len(HEADS)
