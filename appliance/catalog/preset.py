"""Presets: named stacks as YAML data, the appliance's own or a person's."""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from appliance.catalog.stack import Strict
from appliance.core.errors import ConfigFault
from appliance.core.settings import nearest, read_yaml

FOLDER = Path(__file__).parent / "presets"


class Preset(Strict):
    """A preset file: what it is, in words, and the settings of its stack."""

    name: str
    title: str = Field(min_length=1)
    about: str = ""
    stack: dict[str, Any]
    source: str


def names() -> list[str]:
    """The appliance's own presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(reference: str) -> Preset:
    """A preset by name, or by the path of one's own file (anything with a slash, or ending in .yaml or .yml).

    Raises ConfigFault where there is no such preset, or the file is not one.
    """
    if "/" in reference or reference.endswith((".yaml", ".yml")):
        path = Path(reference).expanduser()
        return _read(path, path.stem, f"preset file {path}")
    if reference not in names():
        raise ConfigFault(
            f"there is no preset {reference!r}",
            f"the presets are: {', '.join(names())}",
            nearest(reference, names()) or "choose one of them, or give the path of your own preset file",
        )
    return _read(FOLDER / f"{reference}.yaml", reference, f"preset {reference}")


def _read(path: Path, name: str, source: str) -> Preset:
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ConfigFault(
            f"{source} is not a preset", "it is not a mapping", "a preset has title, about and stack"
        )
    try:
        return Preset.model_validate({"name": name, "source": source} | raw)
    except ValidationError as error:
        reason = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigFault(
            f"{source} is not a preset", reason, "a preset has title, about and stack"
        ) from None
