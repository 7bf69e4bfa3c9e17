"""A model of any source: where it is, whether it is here, getting and checking it."""

from collections.abc import Iterable
from pathlib import Path

from appliance.catalog.entries import Entry, HubSource
from appliance.catalog.stack import Paths
from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.models import ensure as files
from appliance.models import hub_client, hub_verify
from appliance.models.ensure import Progress, Say, quiet
from appliance.models.folder import check_room, check_writable, make
from appliance.models.hub import check_snapshot
from appliance.models.hub_faults import Unreachable
from appliance.models.hub_pull import pull as pull_hub
from appliance.models.hub_shelf import check_ours
from appliance.models.place import place
from appliance.models.plan import plan


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


def bring(
    entries: Iterable[Entry], paths: Paths, say: Say, progress: Progress = quiet, preset: str = "PRESET"
) -> list[Path]:
    """See to it that a preset's models are here. Returns their paths. A hub's model that is here, as far as a look
    tells, is not asked for at the hub. Where it cannot be asked, the fault says what is missing.

    Raises as `ensure` and `pull` do.
    """
    entries = list(entries)
    _check_all(entries, paths)
    for entry in entries:
        if not isinstance(entry.source, HubSource):
            files.ensure(entry, paths.models, say, progress)
        elif not is_here(entry, paths):
            _get(entry.source, paths, say, progress, preset)
    return [path_of(entry, paths) for entry in entries]


def pull(
    entries: Iterable[Entry], paths: Paths, say: Say, progress: Progress = quiet, preset: str = "PRESET"
) -> list[Path]:
    """As `bring`; and each file of a hub's model that was never compared with the hub is, such as those of a download
    by other means."""
    entries = list(entries)
    found = bring(entries, paths, say, progress, preset)
    for entry in entries:
        if isinstance(entry.source, HubSource):
            try:
                pull_hub(entry.source, paths.hub, say, progress)
            except Unreachable as fault:
                say(f"{entry.source.repo} is here, but was not compared with the hub: {fault.why}")
    return found


def _check_all(entries: list[Entry], paths: Paths) -> None:
    """What can be refused before the first byte is fetched: folders that are not ours, and a disk that is too small for
    all of it together."""
    missing = [
        entry for entry in entries if isinstance(entry.source, HubSource) and not is_here(entry, paths)
    ]
    if not missing or hub_client.offline():
        return
    for entry in missing:
        check_ours(path_of(entry, paths))
    check_writable(paths.hub, paths.hub)
    plans = [plan(entry, paths) for entry in missing]
    if total := sum(one.missing or 0 for one in plans):
        make(paths.hub)
        check_room(paths.hub, total, " and ".join(one.name for one in plans))


def _get(source: HubSource, paths: Paths, say: Say, progress: Progress, preset: str) -> None:
    try:
        pull_hub(source, paths.hub, say, progress)
    except Unreachable as fault:
        try:
            check_snapshot(source, paths.hub, preset)
        except FetchFault as lacking:
            raise FetchFault(
                lacking.what,
                f"{lacking.why}; {fault.why}",
                f"{lacking.fix}    ({fault.fix}; or bring the folder from elsewhere)",
            ) from fault


def verify(entry: Entry, paths: Paths, progress: Progress = quiet) -> None:
    """Hash a model that should be here. Raises Mismatch, FetchFault or MachineFault."""
    if isinstance(entry.source, HubSource):
        hub_verify.verify(entry.source, paths.hub, progress)
    else:
        files.verify(entry, paths.models, progress)


def repair(entry: Entry, paths: Paths, say: Say, progress: Progress = quiet) -> None:
    """Hash a model anew, and get what of it is damaged or absent, and only that. Raises as `bring` does."""
    try:
        if isinstance(entry.source, HubSource):
            hub_verify.verify(entry.source, paths.hub, progress, discard_bad=True)
        else:
            files.verify(entry, paths.models, progress)
        return
    except Mismatch as bad:
        say(f"{bad.what}: {bad.why}")
    if isinstance(entry.source, HubSource):
        pull_hub(entry.source, paths.hub, say, progress)
    else:
        files.ensure(entry, paths.models, say, progress)
