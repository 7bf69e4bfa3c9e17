"""A draft made of its target: the same GGUF without some of its layers. Format: ggml's docs/gguf.md."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance.core.errors import ConfigFault, MachineFault, Mismatch

# Part of every derived file's name: raise it when the bytes written for the same recipe change.
WRITER_VERSION = 1

_BLOCK = re.compile(r"^blk\.(\d+)\.(.+)$")


def renumber(layers: Iterable[int], count: int) -> dict[int, int]:
    """Old layer number -> new one, for the layers that stay.

    Raises ConfigFault where a number is given twice or is not below `count`, or where no layer would stay.
    """
    dropped = list(layers)
    known = range(count)
    wrong = sorted({number for number in dropped if number not in known or dropped.count(number) > 1})
    if wrong or not dropped or len(dropped) >= count:
        raise ConfigFault(
            f"cannot leave out the layers {dropped}",
            f"the model has {count} layers, 0 to {count - 1}; each may be named once and one must stay",
            "name other layers",
        )
    return {old: new for new, old in enumerate(number for number in known if number not in dropped)}


def write(source: Path, layers: Iterable[int], path: Path) -> None:
    """Write the model in `source` without `layers` to `path`: the rest renumbered, all else as it was.

    Byte-deterministic for one `gguf` version. Tensors go from file to file through a memory map.
    Raises ConfigFault for layers that cannot be left out, Mismatch where `source` is not a GGUF,
    MachineFault where the `gguf` package is absent, OSError.
    """
    gguf = _gguf()
    try:
        reader = gguf.GGUFReader(source)
    except ValueError as error:
        raise Mismatch(
            f"{source} is not a GGUF model file", str(error), "remove it: the next run gets it anew"
        ) from error
    architecture = reader.get_field("general.architecture").contents()
    count_key = f"{architecture}.block_count"
    count = reader.get_field(count_key).contents()
    places = renumber(layers, count)
    writer = gguf.GGUFWriter(path, architecture, endianess=reader.endianess)
    try:
        writer.data_alignment = reader.alignment
        for field in reader.fields.values():
            if field.name.startswith("GGUF.") or field.name == "general.architecture":
                continue  # the writer's own
            if field.name.startswith(f"{architecture}.") and len(field.data) == count > 1:
                raise ConfigFault(
                    "no layer can be left out of this model",
                    f"its setting {field.name} has one value a layer",
                    "choose another way to draft",
                )
            value = len(places) if field.name == count_key else field.contents()
            kind, *items = field.types
            writer.add_key_value(field.name, value, kind, sub_type=items[-1] if items else None)
        kept = [(name, tensor) for tensor in reader.tensors if (name := _renamed(tensor.name, places))]
        for name, tensor in kept:
            writer.add_tensor_info(
                name, tensor.data.shape, tensor.data.dtype, tensor.data.nbytes, tensor.tensor_type
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _, tensor in kept:
            writer.write_tensor_data(tensor.data, tensor_endianess=reader.endianess)
    finally:
        writer.close()


def _gguf() -> Any:
    try:
        import gguf
    except ImportError as error:
        raise MachineFault(
            "a draft cannot be written",
            f"the Python package gguf is not there ({error})",
            "pip install 'spark-spec[local]'",
        ) from error
    return gguf


def _renamed(name: str, places: dict[int, int]) -> str | None:
    """A tensor's name in the new file, or None where its layer goes."""
    block = _BLOCK.match(name)
    if not block:
        return name
    new = places.get(int(block[1]))
    return None if new is None else f"blk.{new}.{block[2]}"
