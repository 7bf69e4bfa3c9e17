"""A GGUF file says its shape and vocabulary in its metadata, which is read by hand and within bounds."""

import struct
from pathlib import Path

import pytest

from appliance.checkpoint.gguf import read_gguf
from appliance.checkpoint.read import read
from appliance.checkpoint.tokenizer import compare
from appliance.core.errors import ConfigFault
from tests.checkpoint.made import GIB, gguf

PAIRS = {
    "general.architecture": "llama",
    "llama.block_count": 30,
    "llama.embedding_length": 576,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "llama.context_length": 8192,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["<end>", "a", "b"],
    "tokenizer.ggml.token_type": [3, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 0,
}


def test_its_shape_and_vocabulary(tmp_path: Path) -> None:
    found = read(gguf(tmp_path / "model.gguf", PAIRS))
    assert found is not None and found.tokenizer is not None and found.weights is not None
    config = found.config
    assert (config.layers, config.kv_heads, config.head_dim, config.context) == (30, 3, 64, 8192)
    assert (config.vocab_size, config.layer_kinds) == (3, {"full_attention": 30})
    assert config.special == {"eos_token_id": (0,)}
    assert (found.tokenizer.tokens, found.tokenizer.added) == ({1: "a", 2: "b"}, {0: "<end>"})
    assert found.weights.bytes == (tmp_path / "model.gguf").stat().st_size


def test_only_the_metadata_is_read(tmp_path: Path) -> None:
    path = gguf(tmp_path / "model.gguf", PAIRS)
    with path.open("r+b") as stream:
        stream.truncate(8 * GIB)
    found = read_gguf(path)
    assert found is not None and found[1].bytes == 8 * GIB


def test_what_has_one_number_a_layer_is_not_guessed(tmp_path: Path) -> None:
    found = read(gguf(tmp_path / "model.gguf", {**PAIRS, "llama.attention.head_count_kv": [3, 4]}))
    assert found is not None and found.config.kv_heads is None


def test_a_file_that_says_little_is_read_all_the_same(tmp_path: Path) -> None:
    found = read(gguf(tmp_path / "model.gguf", {}))
    assert found is not None and found.tokenizer is None and found.config.layers is None


def test_nothing_there_is_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "model.gguf") is None


def whole(tmp_path: Path) -> bytes:
    return gguf(tmp_path / "whole.gguf", PAIRS).read_bytes()


def key(kind: int, rest: bytes = b"") -> bytes:
    return (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", kind) + rest
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGML" + bytes(64),
        b"GGUF" + struct.pack("<IQQ", 99, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60),
        key(77),
        key(8, struct.pack("<Q", 2**60)),
        key(9, struct.pack("<IQ", 8, 2**60)),
        key(9, struct.pack("<IQ", 9, 1)),
        key(9, struct.pack("<IQ", 4, 4_000_000)),
        key(4),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigFault) as caught:
        read_gguf(path)
    assert str(path) in caught.value.what


def test_a_file_cut_anywhere_in_its_metadata_is_refused(tmp_path: Path) -> None:
    raw = whole(tmp_path)
    for end in range(0, len(raw), 7):
        (tmp_path / "cut.gguf").write_bytes(raw[:end])
        with pytest.raises(ConfigFault):
            read_gguf(tmp_path / "cut.gguf")


@pytest.mark.engine
def test_the_demo_s_draft_has_the_vocabulary_of_its_target(models_dir: Path) -> None:
    target, draft = (read(path) for path in sorted((models_dir / "SmolLM2-135M-Instruct").glob("*.gguf"))[:2])
    assert target and draft and target.tokenizer and draft.tokenizer
    assert compare(target.tokenizer, draft.tokenizer).share == 1.0
    assert {target.config.layers, draft.config.layers} <= {26, 30}
