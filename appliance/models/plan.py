"""What getting a model would mean: which files of which revision, how large, what of it is here, on what terms.

Nothing is fetched or written. Where the hub cannot be asked, it is the catalog that speaks, and None is unknown.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from appliance.catalog.entries import DropLayersSource, Entry, HubSource, WheelSource, load_entry
from appliance.catalog.stack import Paths
from appliance.models import hub_client
from appliance.models.hub_faults import Unreachable
from appliance.models.hub_files import HubFile, read_record
from appliance.models.hub_pull import known_revision
from appliance.models.place import hub_folder, place


@dataclass(frozen=True)
class PlannedFile:
    """A file, its size in bytes, and whether it is here in that size."""

    path: str
    bytes: int
    here: bool


@dataclass(frozen=True)
class ModelPlan:
    """One model of a plan. Sizes in bytes; `whole` is the repository's, with what no engine reads; `told_by` says
    where the figures are from."""

    id: str
    name: str
    origin: str
    revision: str | None
    pinned: bool
    files: tuple[PlannedFile, ...] | None
    bytes: int | None
    missing: int | None
    whole: int | None
    license: str | None
    gated: bool | None
    told_by: str
    in_hub: bool


def plan(entry: Entry, paths: Paths) -> ModelPlan:
    """The plan of one model. Raises FetchFault where the hub refuses, MachineFault where the clock is wrong."""
    if isinstance(entry.source, HubSource):
        return _of_hub(entry, entry.source, paths.hub)
    return _of_file(entry, paths.models / place(entry))


def _of_hub(entry: Entry, source: HubSource, hub: Path) -> ModelPlan:
    folder = hub / hub_folder(source.repo)
    revision = known_revision(source, hub)
    record = read_record(folder, revision) if revision else None
    known = ModelPlan(
        id=entry.id, name=entry.name, origin=hub_client.page(source.repo), revision=revision,
        pinned=source.revision is not None, files=None, bytes=source.bytes, missing=None, whole=None,
        license=entry.license, gated=entry.gated, told_by="the catalog", in_hub=True,
    )  # fmt: skip
    if record and record.origin == "folder":
        told = replace(known, origin="a folder that was added", told_by="its record")
        return _with_files(told, record.files, folder)
    try:
        listing = hub_client.listing(source.repo, revision, hub)
    except Unreachable:
        told = replace(known, told_by="the record of the last pull")
        return _with_files(told, record.files, folder) if record else known
    told = replace(
        known,
        revision=listing.revision,
        whole=sum(file.bytes for file in listing.files),
        license=entry.license or listing.license,
        gated=entry.gated if listing.gated is None else listing.gated,
        told_by=hub_client.endpoint(),
    )
    return _with_files(told, listing.wanted(source), folder)


def _with_files(told: ModelPlan, files: tuple[HubFile, ...], folder: Path) -> ModelPlan:
    snapshot = folder / "snapshots" / str(told.revision)
    planned = tuple(
        PlannedFile(one.path, one.bytes, _size(snapshot / one.path) == one.bytes) for one in files
    )
    return replace(
        told,
        files=planned,
        bytes=sum(one.bytes for one in planned),
        missing=sum(one.bytes for one in planned if not one.here),
    )


def _of_file(entry: Entry, file: Path) -> ModelPlan:
    source, size = entry.source, _size(file)
    if isinstance(source, WheelSource):
        origin, revision = f"the Python package {source.package} {source.version}", None
        total: int | None = source.bytes
    else:
        assert isinstance(source, DropLayersSource)
        parent = load_entry(source.parent)
        origin, revision = f"made of {parent.id}", None
        # About: a derived model is smaller than its parent, by how much is seen when it is written.
        total = size if size is not None else getattr(parent.source, "bytes", None)
    missing = 0 if size is not None else total
    planned = None if total is None else (PlannedFile(file.name, total, size is not None),)
    return ModelPlan(
        id=entry.id, name=entry.name, origin=origin, revision=revision, pinned=True, files=planned, bytes=total,
        missing=missing, whole=None, license=entry.license, gated=entry.gated, told_by="the catalog", in_hub=False,
    )  # fmt: skip


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None
