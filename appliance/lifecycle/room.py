"""Before a stack starts: do its models fit one another, and all of it into memory."""

from collections.abc import Iterator
from pathlib import Path

from appliance import engines
from appliance.catalog.entries import Entry, HubSource
from appliance.catalog.stack import Paths, Stack
from appliance.checkpoint.read import read
from appliance.core.errors import MachineFault, SparkSpecError
from appliance.core.talk import Talk
from appliance.lifecycle.managed import Managed
from appliance.machine.facts import Machine
from appliance.machine.memory import cached_bytes, give_back, read_memory
from appliance.models.bring import path_of
from appliance.models.hub import WEIGHTS, main_revision
from appliance.stack import remedy
from appliance.stack.fit import check_fit
from appliance.stack.memory import RESERVE, Budget, Model, Models, budget
from appliance.stack.render import stack_models

GB = 1e9

Stacks = tuple[Managed, ...]


def read_models(stack: Stack, paths: Paths, *, vocabulary: bool = True) -> Models:
    """The stack's models, with what the headers of those that are here say; their vocabularies only where there are
    two to compare. Raises ConfigFault or MachineFault for one that is damaged or cannot be read."""
    entry, *others = stack_models(stack)
    draft = None
    if others:
        draft = Model(others[0], read(_files_of(others[0], paths), vocabulary=vocabulary))
    compared = draft is not None and draft.checkpoint is not None and draft.checkpoint.tokenizer is not None
    return Models(Model(entry, read(_files_of(entry, paths), vocabulary=compared)), draft)


def plan(stack: Stack, paths: Paths, leaving: Stacks = ()) -> tuple[Budget, Models, tuple[str, ...]]:
    """The stack's budget on this machine, its models, and warnings of their fit. `leaving` are the stacks that will
    stop for it. Raises ConfigFault where the models do not fit one another, and as `read_models`."""
    models = read_models(stack, paths)
    told = check_fit(stack, models)
    return _budget(stack, paths, models, leaving), models, told


def check_ahead(stack: Stack, paths: Paths, machine: Machine, leaving: Stacks) -> None:
    """Before anything is fetched: raises MachineFault for a stack of which so much is known that it cannot fit."""
    if _shares_memory(stack, machine):
        models = read_models(stack, paths, vocabulary=False)
        check_room(stack, models, _budget(stack, paths, models, leaving))


def judge(stack: Stack, paths: Paths, machine: Machine, leaving: Stacks, talk: Talk) -> tuple[Budget, Models]:
    """Hold the models that are here against one another and against memory.

    Raises ConfigFault where they do not fit one another; MachineFault, with the numbers and the settings that would
    do, where they do not fit into the memory that they share with a GPU.
    """
    found, models, warnings = plan(stack, paths, leaving)
    for warning in (*warnings, *found.notes):
        talk.say(f"warning: {warning}")
    if _shares_memory(stack, machine):
        check_room(stack, models, found)
        if found.unknown:
            talk.say(
                f"warning: how much {' and '.join(found.unknown)} takes is not known; the rest fits into memory"
            )
    return found, models


def make_room(stack: Stack, paths: Paths, machine: Machine, leaving: Stacks, talk: Talk) -> None:
    """The same; and where a GPU's memory would be short of what the models' files have of the page cache, that is
    given back: a driver does not take it by itself. Raises as `judge`."""
    found, models = judge(stack, paths, machine, leaving, talk)
    if not _shares_memory(stack, machine) or found.needs <= found.memory.free + found.freed:
        return
    files = [file for model in (models.target, models.draft) if model for file in weight_files(model)]
    if cached := sum(cached_bytes(file) or 0 for file in files):
        talk.say(f"giving {cached / GB:.1f} GB back that the models' files have of the page cache")
    give_back(files)


def _shares_memory(stack: Stack, machine: Machine) -> bool:
    """Whether it takes memory through a GPU's driver, which neither swaps nor is bounded by a container's limit."""
    return engines.get(stack.engine.name).gpu and machine.runtime == "docker" and machine.gpu != "none"


def _budget(stack: Stack, paths: Paths, models: Models, leaving: Stacks) -> Budget:
    return budget(stack, models, read_memory(), sum(_held(one, paths) for one in leaving))


def check_room(stack: Stack, models: Models, found: Budget) -> None:
    """Raises MachineFault where a budget does not fit."""
    if found.fits is not False:
        return
    parts = ", ".join(f"{part.name} {part.bytes / GB:.1f}" for part in found.parts if part.bytes)
    why = f"it needs {found.needs / GB:.1f} GB ({parts})"
    if found.at_start and found.at_start[0] == found.needs:
        why = f"{found.at_start[1]} wants {found.needs / GB:.1f} GB free at the start"
    raise MachineFault(
        f"{stack.preset} does not fit into this machine's memory",
        f"{why}; there are {found.room / GB:.1f} GB of {found.memory.total / GB:.1f}",
        " or ".join(_ways_out(stack, models, found)),
    )


def _ways_out(stack: Stack, models: Models, found: Budget) -> Iterator[str]:
    """What would do: settings, less of it, or fewer other programs."""
    if settings := remedy.settings(stack, models, found):
        yield f"take what fits: {' '.join(f'--set {one}' for one in settings)};"
    elif remedy.without_draft(stack, models, found):
        yield "leave the draft out: --no-spec fits;"
    else:
        yield "choose a smaller model;"
    if found.needs <= found.memory.total:
        yield f"end other programs: {(found.needs - found.room) / GB:.1f} GB are missing"
    else:
        yield "run it on a machine with more memory"


def weight_files(model: Model) -> list[Path]:
    """The files with a model's weights that are here."""
    if model.checkpoint is None:
        return []
    path = model.checkpoint.path
    return [path] if path.is_file() else [file for pattern in WEIGHTS for file in path.glob(pattern)]


def _files_of(entry: Entry, paths: Paths) -> Path:
    """A model's file, or the folder of its snapshot; it need not be there."""
    path = path_of(entry, paths)
    if not isinstance(entry.source, HubSource):
        return path
    revision = entry.source.revision or main_revision(entry.source, paths.hub)
    return path / "snapshots" / (revision or "none")


def _held(stack: Managed, paths: Paths) -> int:
    """Bytes that a stack gives back when it stops, as its own budget has them; 0 where that cannot be told. What a
    GPU's driver holds for it is in no process's books."""
    try:
        release = stack.current()
        if release is None or not stack.observe().alive:
            return 0
        inside = release.stack()
        found = budget(inside, read_models(inside, paths, vocabulary=False), read_memory())
    except (SparkSpecError, OSError, ValueError, KeyError):
        return 0
    return found.known - (found.bytes_of(RESERVE) or 0)
