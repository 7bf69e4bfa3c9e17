"""Where a model's file lies below the models folder. Pure."""

import hashlib
import json
from pathlib import PurePosixPath

from appliance.catalog.entries import DropLayersSource, Entry, HubSource, load_entry
from appliance.models.drop_layers import WRITER_VERSION


def place(entry: Entry) -> str:
    """The path of the model's file relative to the models folder; of a hub's model, of its folder in the hub's
    cache (https://huggingface.co/docs/huggingface_hub/guides/manage-cache).

    A derived model has the hash of its recipe in its name, so another recipe, another parent or another
    writer is another file.
    """
    source = entry.source
    if isinstance(source, HubSource):
        return hub_folder(source.repo)
    if isinstance(source, DropLayersSource):
        parent = PurePosixPath(place(load_entry(source.parent)))
        dropped = "-".join(str(layer) for layer in source.layers)
        stem = parent.name.split(".")[0]
        return f"{entry.folder}/{stem}.drop-{dropped}.{recipe(entry)[:12]}{parent.suffix}"
    return f"{entry.folder}/{PurePosixPath(source.member).name}"


def hub_folder(repo: str) -> str:
    """A repository's folder in the hub's cache."""
    return f"models--{repo.replace('/', '--')}"


def recipe(entry: Entry) -> str:
    """What decides the model's bytes, as 64 hex digits: its sha256, or the hash of how it is derived."""
    source = entry.source
    if isinstance(source, DropLayersSource):
        how = {"parent": recipe(load_entry(source.parent)), "drop": source.layers, "writer": WRITER_VERSION}
        return hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()
    if isinstance(source, HubSource):
        raise ValueError(f"{entry.id} is a folder of files, not one file")
    return source.sha256
