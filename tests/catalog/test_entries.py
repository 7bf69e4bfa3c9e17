"""The catalog's models: strict data, each with a source that decides its bytes."""

from typing import Any

import pytest

from appliance.catalog.entries import entry_ids, load_entry, needs, parse_entry
from appliance.core.errors import ConfigFault

GOOD: dict[str, Any] = {
    "name": "Test/Tiny",
    "license": "Apache-2.0",
    "format": "gguf",
    "quantization": "Q4_1",
    "context_length": 128,
    "folder": "Tiny",
    "source": {"kind": "drop-layers", "parent": "smollm2-135m-instruct", "layers": [1, 2]},
}


@pytest.mark.parametrize("model", entry_ids())
def test_every_model_of_the_catalog_loads_with_all_it_needs(model: str) -> None:
    entry = load_entry(model)
    assert entry.id == model
    for parent in needs(entry):
        assert parent.context_length == entry.context_length
        assert parent.format == entry.format


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(ConfigFault) as caught:
        load_entry("smollm2-135m-instrct")
    assert "smollm2-135m-instruct" in caught.value.fix


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"colour": "red"}, "colour"),
        ({"context_length": "128"}, "context_length"),
        ({"folder": "../Tiny"}, "folder"),
        ({"source": {"kind": "torrent"}}, "source"),
        ({"source": {"kind": "drop-layers", "parent": "x", "layers": []}}, "layers"),
    ],
)
def test_an_entry_that_is_off_is_refused_with_its_key(change: dict[str, Any], named: str) -> None:
    assert parse_entry("tiny", GOOD).name == "Test/Tiny"
    with pytest.raises(ConfigFault) as caught:
        parse_entry("tiny", GOOD | change)
    assert named in caught.value.why


def test_an_entry_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(ConfigFault, match="tiny"):
        parse_entry("tiny", ["a"])


def test_the_manifest_says_all_that_decides_the_bytes() -> None:
    manifest = load_entry("smollm2-135m-drop4").manifest()
    assert manifest["source"]["layers"] == list(load_entry("smollm2-135m-drop4").source.layers)
    assert manifest["needs"][0]["source"]["sha256"] == load_entry("smollm2-135m-instruct").source.sha256
