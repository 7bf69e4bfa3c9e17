"""The images that the presets and the jobs beside them ask for."""

from collections.abc import Iterable, Mapping

from appliance.catalog.preset import names
from appliance.images.versions import ImageName, own, versions
from appliance.stack.render import stack_image
from appliance.stack.resolve import resolve


def wanted_images(assignments: Iterable[str], environ: Mapping[str, str]) -> dict[ImageName, list[str]]:
    """Each image with the presets that it serves, then the other ones of ours: those on an engine's image in each
    version that a preset has. Raises ConfigFault where the settings around the presets are off."""
    found: dict[ImageName, list[str]] = {}
    told: dict[str, set[str]] = {}  # the versions of a base
    sets = list(assignments)
    for preset in names():
        stack = resolve(preset, sets, environ).stack
        image = stack_image(stack)
        found.setdefault(image, []).append(preset)
        if image.image:
            told.setdefault(versions().images[image.image].base, set()).add(stack.engine.version or "")
    served = {image.image for image in found}
    for name, made_of in versions().images.items():
        if name not in served:
            engine_s = versions().bases[made_of.base].tag is None
            for version in sorted(told.get(made_of.base, set())) if engine_s else [""]:
                found[own(name, version)] = []
    return found
