"""Checkpoints for tests: of data alone, or as folders with weight files of any size that take no room on the disk."""

import json
import struct
from pathlib import Path
from typing import Any

from appliance.catalog.entries import load_entry
from appliance.checkpoint.config import parse_config
from appliance.checkpoint.read import Checkpoint
from appliance.checkpoint.tokenizer import Tokenizer, make
from appliance.checkpoint.weights import Weights
from appliance.stack.memory import Model

GIB = 1 << 30
SHAPES = {"model.norm.weight": (8,)}


def vocabulary(words: str, added: dict[int, str] | None = None) -> Tokenizer:
    """A vocabulary of the words of a text, numbered from 0."""
    return make("BPE", dict(enumerate(words.split())), added or {}, [])


def checkpoint(
    config: dict[str, Any],
    size: int | None = GIB,
    *,
    tokenizer: Tokenizer | None = None,
    shapes: dict[str, tuple[int, ...]] | None = None,
    quantization: dict[str, Any] | None = None,
) -> Checkpoint:
    """A checkpoint of data: `size` is the bytes of its weights, None where they are not known."""
    path = Path("/nowhere/config.json")
    weights = None if size is None else Weights(size, "1 header", SHAPES if shapes is None else shapes)
    return Checkpoint(path.parent, parse_config(config, quantization or {}, path), weights, tokenizer)


def model(entry: str, config: dict[str, Any], size: int | None = GIB, **more: Any) -> Model:
    """A model of the catalog with such a checkpoint."""
    return Model(load_entry(entry), checkpoint(config, size, **more))


def sparse(path: Path, size: int, name: str = "model.embed_tokens.weight") -> Path:
    """A safetensors file with one tensor of `size` bytes, which are a hole in the file."""
    header = {name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    raw = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(raw)) + raw)
        stream.truncate(8 + len(raw) + size)
    return path


def gguf(path: Path, pairs: dict[str, Any], *, head: bytes = b"GGUF", version: int = 3) -> Path:
    """A GGUF file of metadata alone: texts, whole numbers (u32), and lists of one of them."""
    raw = head + struct.pack("<IQQ", version, 0, len(pairs))
    for key, value in pairs.items():
        raw += _text(key) + _typed(value)
    path.write_bytes(raw)
    return path


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _typed(value: Any) -> bytes:
    if isinstance(value, list):
        items = [_typed(one) for one in value]
        kind = items[0][:4] if items else struct.pack("<I", 4)
        return (
            struct.pack("<I", 9) + kind + struct.pack("<Q", len(items)) + b"".join(one[4:] for one in items)
        )
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    return struct.pack("<II", 4, value)
