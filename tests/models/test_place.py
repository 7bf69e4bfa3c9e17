"""Where model files lie: a plain name if fetched, a name with the recipe's hash if derived."""

import re

import pytest

from appliance.catalog.entries import load_entry
from appliance.models import place as room
from appliance.models.place import place

DRAFT = load_entry("smollm2-135m-drop4")


def test_a_fetched_model_keeps_its_name() -> None:
    assert (
        place(load_entry("smollm2-135m-instruct")) == "SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
    )


def test_a_derived_model_is_named_by_its_recipe() -> None:
    dropped = "-".join(map(str, DRAFT.source.layers))
    pattern = rf"SmolLM2-135M-Instruct/SmolLM2-135M-Instruct\.drop-{dropped}\.[0-9a-f]{{12}}\.gguf"
    assert re.fullmatch(pattern, place(DRAFT))


def test_another_recipe_or_another_writer_is_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    other = DRAFT.model_copy(update={"source": DRAFT.source.model_copy(update={"layers": (1, 2)})})
    assert place(other) != place(DRAFT)
    assert room.recipe(other) != room.recipe(DRAFT)
    before = place(DRAFT)
    monkeypatch.setattr(room, "WRITER_VERSION", 999)
    assert place(DRAFT) != before
