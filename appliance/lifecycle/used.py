"""Which stacks use a model: any that has a release with it, for each release can be started again."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from appliance.catalog.stack import Paths
from appliance.core.errors import ConfigFault, UsageFault
from appliance.core.settings import nearest
from appliance.core.text import shown
from appliance.models.ensure import Say
from appliance.models.remove import remove_file, remove_folder
from appliance.models.shelf import Held, shelf
from appliance.stack.release import StackFolder, stack_names


def users(names: set[str], state: Path) -> list[str]:
    """The stacks with a published release that needs a model, which is told by its id, its name or its folder.

    Raises ConfigFault where a release cannot be read: nobody knows what it needs.
    """
    found = []
    for stack in stack_names(state):
        folder = StackFolder(state, stack)
        releases = [folder.release(number) for number in folder.numbers()]
        if any(names & _named(model) for one in releases for model in _all(one.manifest["models"])):
            found.append(stack)
    return found


def remove_unused(model: str, paths: Paths, say: Say) -> tuple[Held, int]:
    """Remove a model that no stack uses; the model, and the bytes on the disk that it had.

    Raises UsageFault where it is not here, ConfigFault where a stack uses it, MachineFault, NoProgress.
    """
    held = shelf(paths)
    one = next((one for one in held if model in (one.id, one.name)), None)
    if one is None or not one.path.exists():
        here = [other.id for other in held if other.path.exists()]
        raise UsageFault(f"there is no model {shown(model)} here",
                         f"here are: {', '.join(here) or 'none'}",
                         (one is None and nearest(model, here)) or "`spark-spec models list` names them")  # fmt: skip
    if stacks := users({one.id, one.name}, paths.state):
        raise ConfigFault(
            f"{one.id} is used",
            f"releases of {', '.join(stacks)} need it, and each can be started again",
            f"first remove what uses it: {', '.join(str(paths.state / 'stacks' / stack) for stack in stacks)} "
            "(after `spark-spec down`)",
        )
    return one, remove_folder(one.path, say) if one.hub else remove_file(one.path)


def _all(models: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for model in models:
        yield model
        yield from _all(model.get("needs", []))


def _named(model: Mapping[str, Any]) -> set[str]:
    return {model["id"], model["name"], model["source"].get("repo") or model["id"]}
