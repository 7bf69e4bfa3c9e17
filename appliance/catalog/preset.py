"""Presets: named stacks as YAML data, the appliance's own or a person's."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from appliance.catalog.stack import Strict, Text
from appliance.core.errors import ConfigFault
from appliance.core.paths import named_file
from appliance.core.settings import nearest
from appliance.core.text import one_line, printable, shown
from appliance.core.yamltext import read_yaml

FOLDER = Path(__file__).parent / "presets"


def _lines(text: str) -> str:
    for line in text.split("\n"):
        printable(line)
    return text


class PresetFile(Strict):
    """What a preset file says: what it is, in words, and the settings of its stack."""

    title: Text = Field(min_length=1)
    about: Annotated[str, AfterValidator(_lines)] = ""
    stack: dict[str, Any]


class Preset(PresetFile):
    """A preset, with its name and where it came from."""

    name: str
    source: str


def names() -> list[str]:
    """The appliance's own presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(reference: str) -> Preset:
    """A preset by name, or by the path of one's own file (anything with a slash, or ending in .yaml or .yml).

    Raises ConfigFault where there is no such preset, or the file is not one.
    """
    if "/" in reference or reference.endswith((".yaml", ".yml")):
        path = named_file(reference, "a preset file")
        return _read(path, path.stem, f"preset file {path}")
    if reference not in names():
        raise ConfigFault(
            f"there is no preset {shown(reference)}",
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
        said = PresetFile.model_validate(raw)
    except ValidationError as error:
        reason = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigFault(
            f"{source} is not a preset", one_line(reason), "a preset has title, about and stack"
        ) from None
    return Preset(name=name, source=source, title=said.title, about=said.about, stack=said.stack)
