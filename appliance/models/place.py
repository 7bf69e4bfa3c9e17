"""Where a model's file lies below the models folder. Pure."""

import hashlib
import json
from pathlib import PurePosixPath

from appliance.catalog.entries import DropLayersSource, Entry, load_entry
from appliance.models.drop_layers import WRITER_VERSION


def place(entry: Entry) -> str:
    """The path of the model's file relative to the models folder.

    A derived model has the hash of its recipe in its name, so another recipe, another parent or another
    writer is another file.
    """
    source = entry.source
    if isinstance(source, DropLayersSource):
        parent = PurePosixPath(place(load_entry(source.parent)))
        dropped = "-".join(str(layer) for layer in source.layers)
        stem = parent.name.split(".")[0]
        return f"{entry.folder}/{stem}.drop-{dropped}.{recipe(entry)[:12]}{parent.suffix}"
    return f"{entry.folder}/{PurePosixPath(source.member).name}"


def recipe(entry: Entry) -> str:
    """What decides the model's bytes, as 64 hex digits: its sha256, or the hash of how it is derived."""
    source = entry.source
    if isinstance(source, DropLayersSource):
        how = {"parent": recipe(load_entry(source.parent)), "drop": source.layers, "writer": WRITER_VERSION}
        return hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()
    return source.sha256
