"""A model by folder or by repository, as the Hugging Face library finds it without a network."""

import json
import os
import re
import struct
from pathlib import Path
from typing import Any

from standin.facts import Refused

OFFLINE = (
    "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
    "specified revision on the local disk and outgoing traffic has been disabled. To enable repo look-ups and "
    "downloads online, pass 'local_files_only=False' as input."
)
ONLINE = (
    "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the files on the "
    "Hub and we cannot find the appropriate snapshot folder for the specified revision on the local disk. Please "
    "check your internet connection and try again."
)


def offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def cache() -> Path:
    """The hub's cache: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")  # noqa: PTH111, PTH118
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")


def resolve(name: str, revision: str | None = None) -> Path:
    """The folder of a model. Raises Refused with the library's words."""
    if Path(name).is_dir():
        return Path(name)
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith("."):
        raise Refused(
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            f"'namespace/repo_name': '{name}'. Use `repo_type` argument if needed."
        )
    repo = cache() / f"models--{name.replace('/', '--')}"
    ref = repo / "refs" / (revision or "main")
    try:
        commit = ref.read_text(encoding="utf-8") if ref.is_file() else (revision or "")
        snapshot = repo / "snapshots" / commit
        if commit and snapshot.is_dir():
            return snapshot
    except OSError as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    raise Refused(OFFLINE if offline() else ONLINE)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model's folder. Raises Refused."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(f"OSError: {folder} does not appear to have a file named config.json.") from None
    except (OSError, ValueError) as error:
        raise Refused(
            f"OSError: It looks like the config file at '{path}' is not a valid JSON file: {error}"
        ) from None
    assert isinstance(config, dict)
    return config


def read_weights(folder: Path) -> int:
    """Read the header of every weight file; the number of tensors. Raises Refused: none, a dead link, torn."""
    files = sorted(path for path in folder.iterdir() if path.name.endswith(".safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        files = sorted({folder / name for name in json.loads(index.read_text())["weight_map"].values()})
    if not files:
        raise Refused(f"RuntimeError: No weight files found in {folder}.")
    return sum(_tensors(path) for path in files)


def _tensors(path: Path) -> int:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        end = max(
            (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0
        )
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"safetensors_rust.SafetensorError: Error while deserializing header: {error} ({path})"
        ) from None
    except OSError as error:
        raise Refused(f"{type(error).__name__}: {error}") from None
    if 8 + length + end > size:
        raise Refused(
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"
        )
    return sum(1 for name in header if name != "__metadata__")


def read_tokenizer(folder: Path) -> None:
    """Raises Refused where the target has no tokenizer."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        raise Refused(
            f"OSError: Can't load tokenizer for '{folder}'. If you were trying to load it from "
            "'https://huggingface.co/models', make sure you don't have a local directory with the same name."
        )
