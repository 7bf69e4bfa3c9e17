"""What a bundle has to hold: the models, vocabulary and images of its presets, brought here where they are not."""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.bundle.manifest import Blob, HubBlob, HubModel, NamedFile, PresetSet
from appliance.catalog.entries import Entry, HubSource
from appliance.catalog.stack import Paths
from appliance.core.errors import ConfigFault, FetchFault
from appliance.core.talk import Talk
from appliance.images.ensure import ensure_recorded
from appliance.models import record
from appliance.models.bring import path_of, pull
from appliance.models.harmony import HARMONY
from appliance.models.harmony_get import bring_harmony
from appliance.models.hub import main_revision
from appliance.models.hub_files import HubFile, read_record
from appliance.models.place import hub_folder, place
from appliance.stack.check import check
from appliance.stack.render import needs_harmony, stack_image, stack_models
from appliance.stack.resolve import Resolved


@dataclass(frozen=True)
class Wanted:
    """All but the launcher: what the manifest will name, and where each content lies on this machine, by its sha256.

    `images` are references that are here; their layers are only known once they are packed.
    """

    presets: tuple[PresetSet, ...]
    models: tuple[HubModel, ...]
    files: tuple[NamedFile, ...]
    vocabulary: tuple[NamedFile, ...]
    images: tuple[str, ...]
    sources: dict[str, Path]

    @property
    def contents(self) -> dict[str, Blob]:
        """The contents that are known by now, each once."""
        named = [*self.files, *self.vocabulary, *(file for model in self.models for file in model.files)]
        return {one.sha256: Blob(sha256=one.sha256, bytes=one.bytes) for one in named}


def gather(resolved: Sequence[Resolved], sets: Sequence[str], platform: str, talk: Talk) -> Wanted:
    """Get all of it here, and say what it is. Raises ConfigFault, MachineFault, FetchFault, Mismatch."""
    machine = resolved[0].machine
    stacks = [one.stack for one in resolved]
    for stack in stacks:
        for warning in check(stack):
            talk.say(f"{stack.preset}: {warning}")
    entries = list({entry.id: entry for stack in stacks for entry in stack_models(stack)}.values())
    harmony = any(map(needs_harmony, stacks))
    if harmony:
        bring_harmony(machine.paths.harmony, talk.say, talk.progress)
    pull(entries, machine.paths, talk.say, talk.progress, stacks[0].preset)
    images = dict.fromkeys(stack_image(stack) for stack in stacks)
    for image in images:
        ensure_recorded(image, platform, machine.images.registry, machine.paths.state, talk)
    hub = [entry for entry in entries if isinstance(entry.source, HubSource)]
    single = [entry for entry in entries if not isinstance(entry.source, HubSource)]
    sources: dict[str, Path] = {}
    return Wanted(
        presets=tuple(PresetSet(name=one.preset.name, sets=tuple(sets)) for one in resolved),
        models=tuple(_repository(entry, machine.paths, sources) for entry in hub),
        files=tuple(_single(entry, machine.paths, sources) for entry in single),
        vocabulary=tuple(_vocabulary(machine.paths.harmony, sources)) if harmony else (),
        images=tuple(image.reference for image in images),
        sources=sources,
    )


def _single(entry: Entry, paths: Paths, sources: dict[str, Path]) -> NamedFile:
    """A model of one file, which was checked when it was brought."""
    file = path_of(entry, paths)
    known = record.read(file)
    if known is None:
        raise FetchFault(f"the model {entry.id} is not known to be whole", f"{file} changed since it was checked",
                         f"spark-spec models verify {entry.id}")  # fmt: skip
    sources[known.sha256] = file
    return NamedFile(path=place(entry), sha256=known.sha256, bytes=known.bytes)


def _repository(entry: Entry, paths: Paths, sources: dict[str, Path]) -> HubModel:
    """A model of the hub, at the revision that is here, as far as each file was compared with the hub."""
    source = entry.source
    assert isinstance(source, HubSource)
    revision = source.revision or main_revision(source, paths.hub)
    folder = paths.hub / hub_folder(source.repo)
    known = read_record(folder, revision) if revision else None
    if revision is None or known is None:
        raise ConfigFault(
            f"{source.repo} cannot be put into a bundle: its content is not pinned",
            "it was never compared with the hub, so neither its revision nor its hashes are known to be right",
            f"on a machine that reaches the hub: spark-spec models pull {entry.id}",
        )
    files = tuple(_file(folder / "snapshots" / revision / one.path, one, sources) for one in known.files)
    return HubModel(repo=source.repo, revision=revision, origin=known.origin, files=files)


def _file(path: Path, known: HubFile, sources: dict[str, Path]) -> HubBlob:
    """A file of a snapshot; of a small one, which the hub names by git's hash, the sha256 is made here."""
    digest = known.digest if known.algorithm == "sha256" else hashlib.sha256(path.read_bytes()).hexdigest()
    sources[digest] = path
    return HubBlob(path=known.path, sha256=digest, bytes=known.bytes, cached=known.digest)


def _vocabulary(folder: Path, sources: dict[str, Path]) -> Iterable[NamedFile]:
    for name, digest in HARMONY.items():
        sources[digest] = folder / name
        yield NamedFile(path=name, sha256=digest, bytes=(folder / name).stat().st_size)


def room(folder: Path) -> int:
    """Bytes free on the file system that a folder is, or would be, on."""
    return shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.exists())).free
