"""How large a checkpoint's weights are, and its tensors' shapes, from the headers of its files alone.

Format: https://github.com/huggingface/safetensors#format: 8 bytes with the length of a JSON header, little-endian,
then the header (name -> dtype, shape, data_offsets), then the data, of which nothing is read here.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.checkpoint.files import INDEX_MOST, broken, open_file, parse_object, read_object, unreadable

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SHARDS_MOST = 10_000


@dataclass(frozen=True)
class Weights:
    """The weights of a checkpoint: bytes in all, what tells so, and the shapes of its tensors by name (none where
    the files are in a format without a header)."""

    bytes: int
    source: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def read_weights(folder: Path) -> Weights | None:
    """The weights in a model's folder: the shards that its index names, else model.safetensors, else all files of
    weights there. None where that cannot be told, as with a shard that is missing.

    Raises ConfigFault for a damaged file, MachineFault for one that cannot be read.
    """
    index = read_object(folder / INDEX, INDEX_MOST)
    if index is not None:
        return _indexed(folder, index)
    single = folder / SINGLE
    files = [single] if single.is_file() else sorted(folder.glob("*.safetensors"))
    if files:
        return _headers(files)
    pickled = [path for path in sorted(folder.glob("*.bin")) if path.is_file()]
    return Weights(sum(path.stat().st_size for path in pickled), "the files' sizes") if pickled else None


def _indexed(folder: Path, index: Mapping[str, Any]) -> Weights | None:
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(one, str) for one in places.values()):
        raise broken(folder / INDEX, "its weight_map does not say which tensor is in which file")
    names = sorted(set(places.values()))
    if len(names) > SHARDS_MOST or any("/" in name or name in ("", ".", "..") for name in names):
        raise broken(folder / INDEX, "its weight_map names files that are none of this folder")
    files = [folder / name for name in names]
    if all(file.is_file() for file in files):
        return _headers(files)
    told = index.get("metadata")
    total = told.get("total_size") if isinstance(told, dict) else None
    return (
        Weights(total, "the index; not all files are here") if isinstance(total, int) and total > 0 else None
    )


def _headers(files: list[Path]) -> Weights:
    total, shapes = 0, {}
    for file in files:
        size, inside = read_header(file)
        total += size
        shapes.update(inside)
    return Weights(total, f"{len(files)} header{'s' if len(files) > 1 else ''}", shapes)


def read_header(path: Path) -> tuple[int, dict[str, tuple[int, ...]]]:
    """(bytes of the data, shape by tensor) of a safetensors file. Raises ConfigFault where its header is longer than
    100 MiB or says more than the file has, MachineFault where it cannot be read."""
    stream = open_file(path)
    if stream is None:
        raise broken(path, "there is no such file")
    try:
        with stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(INDEX_MOST, size - 8):
                raise broken(
                    path, f"it is no safetensors file: a header of {length} bytes in a file of {size}"
                )
            raw = stream.read(length)
    except OSError as error:
        raise unreadable(path, error) from None
    header = parse_object(raw, path)
    tensors = {name: _tensor(path, name, one) for name, one in header.items() if name != "__metadata__"}
    end = max((last for last, _ in tensors.values()), default=0)
    if 8 + length + end > size:
        raise broken(path, f"it is cut off: its header speaks of {8 + length + end} bytes, and it has {size}")
    return end, {name: shape for name, (_, shape) in tensors.items()}


def _tensor(path: Path, name: str, told: Any) -> tuple[int, tuple[int, ...]]:
    """(where its data ends, its shape)."""
    match told:
        case {"shape": [*shape], "data_offsets": [int(first), int(last)]} if 0 <= first <= last:
            if all(isinstance(one, int) and one >= 0 for one in shape):
                return last, tuple(shape)
    raise broken(path, f"its header says nothing of use about {name}")
