"""A hub's model into the cache: only what is needed, one revision, each file's size and hash compared.

The order: may the folder be written; which revision; what of it is here and right; is there room; fetch the rest.
"""

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault, Mismatch
from appliance.models import hub_client
from appliance.models.folder import check_room, megabytes
from appliance.models.hub import main_revision
from appliance.models.hub_faults import explain
from appliance.models.hub_files import (
    HubFile,
    Listing,
    Record,
    digest_of,
    read_record,
    unchecked,
    write_record,
)
from appliance.models.hub_shelf import bring_home, check_ours, discard, opened, set_main, sweep
from appliance.models.parallel import Stopped, each
from appliance.models.place import hub_folder

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]
WORKERS = 8
ATTEMPTS = 2  # of a file that comes with the wrong content


def known_revision(source: HubSource, hub: Path) -> str | None:
    """The revision that is meant: the catalog's, else the one that was here first; None: the hub's current one."""
    return source.revision or main_revision(source, hub)


def pull(source: HubSource, hub: Path, say: Say, progress: Progress) -> None:
    """Make a model whole. What was checked before is not read again.

    Raises MachineFault (not ours, no room, clock), Unreachable, FetchFault (refused), Mismatch (another content, or
    size, twice), NoProgress. What is whole is kept whatever happens, and found again by its record.
    """
    folder = hub / hub_folder(source.repo)
    check_ours(folder)
    if folder.is_dir():
        with opened(folder, say):
            sweep(folder, say)
            bring_home(folder, say)
            if _whole(source, hub):
                return
    revision = known_revision(source, hub)
    listing = hub_client.listing(source.repo, revision, hub)
    with opened(folder, say):
        now = known_revision(source, hub)
        if now not in (None, listing.revision):  # another pull was first
            listing = hub_client.listing(source.repo, now, hub)
        sweep(folder, say)
        job = _Job(folder, _known(listing, listing.wanted(source), folder), progress)
        if source.revision is None:
            set_main(folder, listing.revision)
        _look(job, say)
        missing = job.missing()
        _tell(job, missing, listing, say)
        check_room(hub, sum(file.bytes for file in missing), source.repo)
        _fetch_all(job, missing)


def _whole(source: HubSource, hub: Path) -> bool:
    """Whether all was checked before, and is as it was. Raises FetchFault where it cannot be completed."""
    folder, revision = hub / hub_folder(source.repo), known_revision(source, hub)
    record = read_record(folder, revision) if revision else None
    if record is None:
        return False
    changed = unchecked(folder, record)
    if changed and record.origin == "folder":
        raise FetchFault(f"{source.repo} is damaged: {changed[0].path} is not as it was when it was added",
                         "it was added from a folder, so no hub is asked for it",
                         f"spark-spec models rm {source.repo}, then add it again")  # fmt: skip
    return not changed


def _known(listing: Listing, wanted: tuple[HubFile, ...], folder: Path) -> Record:
    record = read_record(folder, listing.revision)
    checked = record.checked if record else {}
    return Record(listing.repo, listing.revision, "hub", wanted, checked)


@dataclass
class _Job:
    """A pull under way."""

    folder: Path
    record: Record
    progress: Progress
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def pointer(self, file: HubFile) -> Path:
        return self.folder / "snapshots" / self.record.revision / file.path

    def missing(self) -> list[HubFile]:
        return unchecked(self.folder, self.record)

    def good(self, file: HubFile) -> None:
        """Record that a file is here and right."""
        with self.lock:
            mtime = self.pointer(file).stat().st_mtime_ns
            self.record = replace(self.record, checked=self.record.checked | {file.path: mtime})
            write_record(self.folder, self.record)

    def moved(self, label: str, file: HubFile, count: int) -> None:
        """So many bytes more of a file. The last step is said at the end only: files may come twice."""
        if self.stop.is_set():
            raise Stopped
        with self.lock:
            self.done[file.path] = min(self.done.get(file.path, 0) + count, file.bytes)
            self.progress(label, min(sum(self.done.values()), self.total - 1), self.total)


def _look(job: _Job, say: Say) -> None:
    """Hash what is here without a record, such as a download by other means. What is wrong is removed."""
    files = [file for file in job.missing() if job.pointer(file).exists()]
    job.total = sum(file.bytes for file in files)
    job.done = {}

    def check(file: HubFile) -> None:
        why = wrong(
            job.pointer(file), file, lambda count: job.moved(f"checking {job.record.repo}", file, count)
        )
        if why is None:
            job.good(file)
            return
        say(f"{file.path} of {job.record.repo} {why}: getting it anew")
        discard(job.folder, job.record.revision, file.path)

    _each(job, files, check, min(WORKERS, os.cpu_count() or 1))
    if files:
        job.progress(f"checking {job.record.repo}", job.total, job.total)


def wrong(pointer: Path, file: HubFile, moved: Callable[[int], None] = lambda _: None) -> str | None:
    """What keeps a file from being the right one; None where nothing does. Raises OSError."""
    size = pointer.stat().st_size
    if size != file.bytes:
        return f"has {size:,} bytes, not {file.bytes:,}"
    found = digest_of(pointer, file.algorithm, moved)
    return None if found == file.digest else f"has the {file.algorithm} {found}, not {file.digest}"


def _tell(job: _Job, missing: list[HubFile], listing: Listing, say: Say) -> None:
    """What will be fetched, and what of it was here."""
    kept = [file for file in job.record.files if file not in missing]
    size, whole = (sum(file.bytes for file in files) for files in (missing, listing.files))
    if kept:
        say(f"kept {len(kept)} whole files of {listing.repo} ({megabytes(sum(file.bytes for file in kept))})")
    if missing:
        say(f"fetching {len(missing)} files of {listing.repo} ({megabytes(size)}; the repository holds "
            f"{megabytes(whole)}) at revision {listing.revision}")  # fmt: skip


def _fetch_all(job: _Job, files: list[HubFile]) -> None:
    job.total = sum(file.bytes for file in files)
    job.done = {}
    write_record(job.folder, job.record)
    _each(job, files, lambda file: _fetch(job, file), WORKERS)
    if files:
        job.progress(f"downloading {job.record.repo}", job.total, job.total)


def _fetch(job: _Job, file: HubFile) -> None:
    """One file, fetched and compared; once more where it comes wrong."""
    record = job.record
    why: str | None = None
    for _ in range(ATTEMPTS):
        with job.lock:
            job.done[file.path] = 0
        try:
            hub_client.download(
                record.repo, record.revision, file, job.folder.parent,
                lambda count: job.moved(f"downloading {record.repo}", file, count),
            )  # fmt: skip
            why = wrong(job.pointer(file), file)
        except hub_client.failures() as error:
            if "Consistency check failed" not in str(error):
                raise
            why = "comes with another size than the hub says"
        if why is None:
            job.good(file)
            return
        discard(job.folder, record.revision, file.path)
    raise Mismatch(
        f"{file.path} of {record.repo} is not what the hub says it is",
        f"it {why}, {ATTEMPTS} times",
        "see what lies between here and the hub (HF_ENDPOINT, HTTPS_PROXY), and that the disk is sound",
    )


def _each(job: _Job, files: Iterable[HubFile], work: Callable[[HubFile], None], count: int) -> None:
    """Do the work for each file, several at once. Raises the first fault, in words."""
    fault = each(files, work, count, job.stop)
    if fault is not None:
        repo = job.record.repo
        raise explain(fault, repo, hub_client.page(repo), job.folder.parent) from fault
