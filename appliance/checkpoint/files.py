"""Files of a checkpoint, read within bounds: whatever is wrong with one is a fault that names it."""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from appliance.core.errors import ConfigFault, MachineFault
from appliance.core.text import one_line

CONFIG_MOST = 4 << 20  # bytes of a config; the longest in use have some hundred KiB
INDEX_MOST = 100 << 20  # of an index, or of a header: as safetensors itself bounds it
TOKENIZER_MOST = 200 << 20  # the longest in use have some 30 MiB


def broken(path: Path, why: str) -> ConfigFault:
    """The fault of a file whose content cannot be."""
    return ConfigFault(
        f"{one_line(str(path))} cannot be read",
        one_line(why),
        "fetch the model again: `spark-spec models verify` says which of its files are damaged",
    )


def open_file(path: Path) -> BinaryIO | None:
    """A regular file, open for reading; None where there is none. Raises ConfigFault where it is something else,
    such as a pipe, which may never end, and MachineFault where it may not be read."""
    try:
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise broken(path, "it is no regular file")
    return stream


def unreadable(path: Path, error: OSError) -> MachineFault:
    """The fault of a file that the machine does not give."""
    why = error.strerror or str(error)
    return MachineFault(f"{one_line(str(path))} cannot be read", why, "check its permissions, and the disk")


def read_bytes(path: Path, most: int) -> bytes | None:
    """The content of a file of at most `most` bytes; None where there is none. Raises as `open_file`, and
    ConfigFault where it is longer."""
    stream = open_file(path)
    if stream is None:
        return None
    try:
        with stream:
            raw = stream.read(most + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(raw) > most:
        raise broken(path, f"it is longer than {most >> 20} MiB")
    return raw


def parse_object(raw: bytes, path: Path) -> dict[str, Any]:
    """JSON text as a mapping. Raises ConfigFault, naming the file, where it is none."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise broken(path, f"it is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise broken(path, "it is not a JSON object")
    return data


def read_object(path: Path, most: int = CONFIG_MOST) -> dict[str, Any] | None:
    """A JSON file as a mapping; None where there is none. Raises as `read_bytes` and `parse_object`."""
    raw = read_bytes(path, most)
    return None if raw is None else parse_object(raw, path)
