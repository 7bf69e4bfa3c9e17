"""A hub's model hashed anew: against the hub's own list where it can be asked, else against what was recorded."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.models import hub_client
from appliance.models.hub_faults import Unreachable
from appliance.models.hub_files import HubFile, forget, named_hash, needed, read_record
from appliance.models.hub_pull import WORKERS, known_revision, wrong
from appliance.models.hub_shelf import discard
from appliance.models.parallel import Stopped, each
from appliance.models.place import hub_folder

Progress = Callable[[str, int, int], None]


def verify(source: HubSource, hub: Path, progress: Progress, *, discard_bad: bool = False) -> None:
    """Hash each needed file. Raises Mismatch, naming those that are absent or not what they should be, and what of
    them is known is forgotten: the next pull gets them anew. `discard_bad` also removes them. Raises FetchFault where
    nothing says what they should be, MachineFault where they cannot be read."""
    folder = hub / hub_folder(source.repo)
    revision = known_revision(source, hub)
    if revision is None:
        raise Mismatch(f"{source.repo} is not there", f"{folder} has no refs/main", "it was never fetched")
    files = expected(source, hub, revision)
    bad = _bad(folder / "snapshots" / revision, source.repo, files, progress)
    record = read_record(folder, revision)
    if not bad:
        return
    try:
        if record:
            forget(folder, record, bad)
        for path in bad if discard_bad else ():
            discard(folder, revision, path)
    except OSError as error:
        raise MachineFault(f"{folder} cannot be written", str(error), "see to its rights") from error
    raise Mismatch(
        "; ".join(f"{folder / 'snapshots' / revision / path} is damaged" for path in bad),
        "; ".join(f"it {why}" for why in bad.values()),
        "get only that anew: spark-spec models verify PRESET --repair",
    )


def expected(source: HubSource, hub: Path, revision: str) -> tuple[HubFile, ...]:
    """What a model's files should be: by the hub, else by our record, else by the names of their blobs."""
    folder = hub / hub_folder(source.repo)
    record = read_record(folder, revision)
    if record is None or record.origin == "hub":
        try:
            return hub_client.listing(source.repo, revision, hub).wanted(source)
        except Unreachable:
            pass
    if record is not None:
        return record.files
    found = named(folder / "snapshots" / revision, source)
    if not found:
        raise FetchFault(
            f"nothing says what {source.repo} should be",
            "the hub cannot be asked, and its files have no hashes for names",
            "run it again where the network is",
        )
    return found


def named(snapshot: Path, source: HubSource) -> tuple[HubFile, ...]:
    """The files of a snapshot whose blobs have their hash for a name, as the library keeps them."""
    found = []
    for pointer in sorted(snapshot.rglob("*")):
        path = str(pointer.relative_to(snapshot))
        if pointer.is_symlink() and needed(path, source) and (known := named_hash(pointer.readlink().name)):
            size = pointer.stat().st_size if pointer.exists() else 0
            found.append(HubFile(path, size, *known))
    return tuple(found)


def _bad(snapshot: Path, repo: str, files: tuple[HubFile, ...], progress: Progress) -> dict[str, str]:
    """What is wrong, by path. Files are hashed side by side, as many as there are processors."""
    total, done = sum(file.bytes for file in files), 0
    lock, stop = Lock(), Event()
    found: dict[str, str] = {}

    def moved(count: int) -> None:
        nonlocal done
        if stop.is_set():
            raise Stopped
        with lock:
            done += count
            progress(f"checking {repo}", min(done, total - 1), total)

    def look(file: HubFile) -> None:
        try:
            why = wrong(snapshot / file.path, file, moved)
        except FileNotFoundError:
            why = "is not there"
        if why is not None:
            found[file.path] = why

    largest_first = sorted(files, key=lambda file: -file.bytes)
    fault = each(largest_first, look, min(WORKERS, os.cpu_count() or 1), stop)
    if isinstance(fault, OSError):
        raise MachineFault(
            f"{fault.filename or snapshot} cannot be read", fault.strerror or str(fault),
            "see to its rights and to the disk",
        ) from fault  # fmt: skip
    if fault is not None:
        raise fault
    if total:
        progress(f"checking {repo}", total, total)
    return dict(sorted(found.items()))
