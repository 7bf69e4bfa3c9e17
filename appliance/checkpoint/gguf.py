"""The metadata of a GGUF file, read by hand: its shape and its vocabulary. Format: ggml's docs/gguf.md.

Nothing of the tensors is read; the weights are as large as the file.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from appliance.checkpoint.config import FULL, Config
from appliance.checkpoint.files import broken, open_file, unreadable
from appliance.checkpoint.tokenizer import Tokenizer, make
from appliance.checkpoint.weights import Weights

MAGIC, VERSIONS = b"GGUF", (2, 3)
KEYS_MOST, ITEMS_MOST, TEXT_MOST = 10_000, 4_000_000, 16 << 20
STRING, ARRAY = 8, 9
# Type number -> struct format of a scalar.
SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
ADDED = (3, 4)  # token types: control, user-defined


class _Wrong(ValueError):
    """What is wrong with the file."""


def read_gguf(path: Path) -> tuple[Config, Weights, Tokenizer | None] | None:
    """A GGUF file's shape, size and vocabulary; None where there is no file. Raises ConfigFault where it is damaged,
    MachineFault where it cannot be read."""
    stream = open_file(path)
    if stream is None:
        return None
    try:
        with stream:
            told = _metadata(stream)
            size = stream.seek(0, 2)
    except OSError as error:
        raise unreadable(path, error) from None
    except (_Wrong, UnicodeDecodeError) as error:
        raise broken(path, f"it is no GGUF file that can be used: {error}") from None
    return _config(told), Weights(size, "the file's size"), _tokenizer(told)


def _config(told: Mapping[str, Any]) -> Config:
    name = told.get("general.architecture")

    def number(key: str) -> int | None:
        value = told.get(f"{name}.{key}")
        return value if isinstance(value, int) and 1 <= value <= 1_000_000_000 else None

    layers, heads, hidden = number("block_count"), number("attention.head_count"), number("embedding_length")
    tokens = told.get("tokenizer.ggml.tokens")
    special = {f"{role}_token_id": told.get(f"tokenizer.ggml.{role}_token_id") for role in ("bos", "eos")}
    return Config(
        model_type=name if isinstance(name, str) else None,
        hidden_size=hidden,
        intermediate_size=number("feed_forward_length"),
        experts_per_token=number("expert_used_count"),
        layers=layers,
        # One number a layer (a list) is not understood here: the cache is unknown then.
        kv_heads=number("attention.head_count_kv") if f"{name}.attention.head_count_kv" in told else heads,
        head_dim=number("attention.key_length") or (hidden // heads or None if hidden and heads else None),
        vocab_size=number("vocab_size") or (len(tokens) or None if isinstance(tokens, list) else None),
        context=number("context_length"),
        layer_kinds={FULL: layers} if layers else None,
        special={key: (one,) for key, one in special.items() if isinstance(one, int)},
    )


def _tokenizer(told: Mapping[str, Any]) -> Tokenizer | None:
    tokens, kinds = told.get("tokenizer.ggml.tokens"), told.get("tokenizer.ggml.token_type")
    if not isinstance(tokens, list):
        return None
    by_id = {number: str(text) for number, text in enumerate(tokens)}
    kinds = kinds if isinstance(kinds, list) else []
    added = {number: by_id[number] for number, kind in enumerate(kinds[: len(by_id)]) if kind in ADDED}
    return make(str(told.get("tokenizer.ggml.model")), by_id, added, told.get("tokenizer.ggml.merges"))


def _metadata(stream: BinaryIO) -> dict[str, Any]:
    if _take(stream, 4) != MAGIC:
        raise _Wrong("its first bytes are others")
    version, _tensors, count = struct.unpack("<IQQ", _take(stream, 20))
    if version not in VERSIONS:
        raise _Wrong(f"version {version} of the format is not known")
    if count > KEYS_MOST:
        raise _Wrong(f"it has {count} keys")
    return dict(_pair(stream) for _ in range(count))


def _pair(stream: BinaryIO) -> tuple[str, Any]:
    key = _text(stream)
    return key, _value(stream, _scalar(stream, "<I"))


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == STRING:
        return _text(stream)
    if kind in SCALARS:
        return _scalar(stream, SCALARS[kind])
    if kind != ARRAY:
        raise _Wrong(f"a value of type {kind}")
    inner, count = struct.unpack("<IQ", _take(stream, 12))
    if count > ITEMS_MOST:
        raise _Wrong(f"a list of {count} items")
    if inner == STRING:
        return [_text(stream) for _ in range(count)]
    if inner not in SCALARS:
        raise _Wrong(f"a list of type {inner}")
    form = SCALARS[inner]
    return [one for (one,) in struct.iter_unpack(form, _take(stream, count * struct.calcsize(form)))]


def _scalar(stream: BinaryIO, form: str) -> Any:
    return struct.unpack(form, _take(stream, struct.calcsize(form)))[0]


def _text(stream: BinaryIO) -> str:
    length = _scalar(stream, "<Q")
    if length > TEXT_MOST:
        raise _Wrong(f"a text of {length} bytes")
    return _take(stream, length).decode("utf-8", errors="surrogateescape")


def _take(stream: BinaryIO, count: int) -> bytes:
    raw = stream.read(count)
    if len(raw) < count:
        raise _Wrong("it ends in the middle of its metadata")
    return raw
