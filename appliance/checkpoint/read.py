"""A checkpoint, from headers alone: its shape, the size of its weights, its vocabulary."""

from dataclasses import dataclass
from pathlib import Path

from appliance.checkpoint.config import Config, read_config
from appliance.checkpoint.gguf import read_gguf
from appliance.checkpoint.tokenizer import Tokenizer, read_tokenizer
from appliance.checkpoint.weights import Weights, read_weights


@dataclass(frozen=True)
class Checkpoint:
    """What the files of a model say of it. `weights` and `tokenizer` are None where they do not say."""

    path: Path
    config: Config
    weights: Weights | None
    tokenizer: Tokenizer | None


def read(path: Path, *, vocabulary: bool = True) -> Checkpoint | None:
    """The checkpoint in a folder, or in a GGUF file; None where there is none. Reads no weights, and the vocabulary,
    which takes longest, only where it is asked for.

    Raises ConfigFault for a damaged file, MachineFault for one that cannot be read; both name it.
    """
    if path.is_file():
        found = read_gguf(path)
        return Checkpoint(path, *found) if found else None
    config = read_config(path)
    if config is None:
        return None
    return Checkpoint(path, config, read_weights(path), read_tokenizer(path) if vocabulary else None)
