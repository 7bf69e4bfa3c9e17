"""A model of any source: where it is, whether it is here, and getting it."""

from pathlib import Path

from appliance.catalog.entries import Entry, HubSource
from appliance.catalog.stack import Paths
from appliance.core.errors import FetchFault, MachineFault
from appliance.models import ensure as files
from appliance.models.ensure import Progress, Say, quiet
from appliance.models.hub import check_snapshot
from appliance.models.place import place


def path_of(entry: Entry, paths: Paths) -> Path:
    """Its file, or its folder in the hub's cache; it need not be there."""
    return (paths.hub if isinstance(entry.source, HubSource) else paths.models) / place(entry)


def is_here(entry: Entry, paths: Paths) -> bool:
    """Whether it can be loaded, as far as a look tells."""
    if not isinstance(entry.source, HubSource):
        return path_of(entry, paths).is_file()
    try:
        check_snapshot(entry.source, paths.hub)
    except (FetchFault, MachineFault):
        return False
    return True


def bring(entry: Entry, paths: Paths, say: Say, progress: Progress = quiet) -> Path:
    """See to it that a model is here. Returns its path. Raises as `ensure` does, and as `check_snapshot` for
    a hub's model."""
    if isinstance(entry.source, HubSource):
        check_snapshot(entry.source, paths.hub)
    else:
        files.ensure(entry, paths.models, say, progress)
    return path_of(entry, paths)


def verify(entry: Entry, paths: Paths, progress: Progress = quiet) -> None:
    """Look closely at a model that should be here. Raises Mismatch, FetchFault or MachineFault."""
    if isinstance(entry.source, HubSource):
        check_snapshot(entry.source, paths.hub)
    else:
        files.verify(entry, paths.models, progress)
