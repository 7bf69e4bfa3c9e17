"""A draft made of its target: only the layers asked for are gone, all else is as it was."""

import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from appliance.core.errors import ConfigFault, MachineFault, Mismatch
from appliance.models import drop_layers

COUNT = 5
TOKENS = ["<s>", "Ġa", "ü", "\n"]


def tensor(layer: int) -> Any:
    """A layer's only tensor; its values say which layer it was."""
    return np.full((2, 32), layer, dtype=np.float32)


def write_model(path: Path, **extra: list[int]) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.name", "Tiny ü")
    writer.add_block_count(COUNT)
    writer.add_rope_freq_base(100000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 1, 1, 1])
    for key, values in extra.items():
        writer.add_array(f"llama.{key}", values)
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), dtype=np.float16))
    for layer in range(COUNT):
        writer.add_tensor(f"blk.{layer}.attn_q.weight", tensor(layer))
    writer.add_tensor(
        "output.weight", np.zeros((4, 20), dtype=np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q4_1
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_model(tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


def metadata(path: Path) -> dict[str, tuple[Any, Any]]:
    fields = gguf.GGUFReader(path).fields.values()
    return {
        field.name: (field.types, field.contents()) for field in fields if not field.name.startswith("GGUF.")
    }


def test_the_layers_that_stay_are_renumbered_in_order(model: Path, tmp_path: Path) -> None:
    drop_layers.write(model, (1, 3), tmp_path / "out.gguf")
    tensors = {item.name: item for item in gguf.GGUFReader(tmp_path / "out.gguf").tensors}
    assert list(tensors) == [
        "token_embd.weight",
        *(f"blk.{layer}.attn_q.weight" for layer in range(3)),
        "output.weight",
    ]
    for new, old in enumerate((0, 2, 4)):
        assert np.array_equal(tensors[f"blk.{new}.attn_q.weight"].data, tensor(old))
    assert tensors["output.weight"].tensor_type == gguf.GGMLQuantizationType.Q4_1


def test_all_metadata_keeps_its_value_and_type_but_the_layer_count(model: Path, tmp_path: Path) -> None:
    drop_layers.write(model, (0,), tmp_path / "out.gguf")
    before, after = metadata(model), metadata(tmp_path / "out.gguf")
    types, count = before.pop("llama.block_count")
    assert count == COUNT
    assert after.pop("llama.block_count") == (types, COUNT - 1)
    assert after == before
    assert after["tokenizer.ggml.tokens"][1] == TOKENS


def test_the_same_recipe_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        drop_layers.write(model, (2, 3), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("layers", [(), (5,), (-1,), (1, 1), (0, 1, 2, 3, 4)])
def test_layers_that_cannot_go_are_refused(model: Path, tmp_path: Path, layers: tuple[int, ...]) -> None:
    with pytest.raises(ConfigFault, match="cannot leave out"):
        drop_layers.write(model, layers, tmp_path / "out.gguf")


def test_a_model_with_settings_for_each_layer_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path / "tiny.gguf", feed_forward_length=[4, 4, 8, 4, 4])
    with pytest.raises(ConfigFault) as caught:
        drop_layers.write(tmp_path / "tiny.gguf", (1,), tmp_path / "out.gguf")
    assert "llama.feed_forward_length" in caught.value.why


def test_what_is_not_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"hello, this is not a model")
    with pytest.raises(Mismatch, match=r"bad\.gguf"):
        drop_layers.write(tmp_path / "bad.gguf", (1,), tmp_path / "out.gguf")


def test_without_the_gguf_package_the_extra_is_named(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MachineFault) as caught:
        drop_layers.write(model, (1,), tmp_path / "out.gguf")
    assert "spark-spec[local]" in caught.value.fix
