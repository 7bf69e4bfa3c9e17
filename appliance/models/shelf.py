"""All models that are here: the catalog's, and what else lies in the hub's cache."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.catalog.entries import HubSource, entry_ids, load_entry
from appliance.catalog.stack import Paths
from appliance.models.bring import is_here, path_of
from appliance.models.remove import size_of

State = Literal["here", "not here", "in part"]


@dataclass(frozen=True)
class Held:
    """A model: its id (or its name, where the catalog has none), its file or folder, and its bytes on the disk."""

    id: str
    name: str
    license: str | None
    path: Path
    state: State
    bytes: int
    hub: bool


def shelf(paths: Paths) -> list[Held]:
    """The catalog's models in its order, then the hub's others by name."""
    found = [_of_catalog(model, paths) for model in entry_ids()]
    known = {one.path for one in found}
    others = [path for path in sorted(paths.hub.glob("models--*--*")) if path.is_dir() and path not in known]
    return found + [_other(path) for path in others]


def _of_catalog(model: str, paths: Paths) -> Held:
    entry = load_entry(model)
    path, hub = path_of(entry, paths), isinstance(entry.source, HubSource)
    held = (size_of(path) if hub else path.stat().st_size) if path.exists() else 0
    state: State = "here" if is_here(entry, paths) else "in part" if hub and held else "not here"
    return Held(entry.id, entry.name, entry.license, path, state, held if state != "not here" else 0, hub)


def _other(path: Path) -> Held:
    name = path.name.removeprefix("models--").replace("--", "/")
    source = HubSource(kind="hub", repo=name, revision=None, files=("*",), bytes=None)
    return Held(name, name, None, path, _state(source, path.parent), size_of(path), True)


def _state(source: HubSource, hub: Path) -> State:
    from appliance.core.errors import FetchFault, MachineFault
    from appliance.models.hub import check_snapshot

    try:
        check_snapshot(source, hub)
    except (FetchFault, MachineFault):
        return "in part"
    return "here"
