"""Models: what the appliance can serve or draft with, as YAML data, and where each one comes from."""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from appliance.catalog.stack import Positive, Strict
from appliance.core.errors import ConfigFault
from appliance.core.settings import nearest
from appliance.core.yamltext import read_yaml

FOLDER = Path(__file__).parent / "models"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[^/.][^/]*$")]


class WheelSource(Strict):
    """A file inside a Python wheel that any package index has. Sizes in bytes."""

    kind: Literal["wheel"]
    package: str
    version: str
    wheel_sha256: Sha256
    wheel_bytes: Positive
    member: str
    sha256: Sha256
    bytes: Positive


class DropLayersSource(Strict):
    """Another model of the catalog without some of its layers."""

    kind: Literal["drop-layers"]
    parent: str
    layers: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]


class Entry(Strict):
    """One model of the catalog. `folder` is its folder below the models folder."""

    id: str
    name: str = Field(min_length=1, description="The public name.")
    license: str = Field(min_length=1)
    format: Literal["gguf"]
    quantization: str
    context_length: Positive = Field(description="Tokens the model was trained for.")
    folder: FileName
    source: Annotated[WheelSource | DropLayersSource, Field(discriminator="kind")]

    def manifest(self) -> dict[str, Any]:
        """What a release's manifest says of this model: all that decides its bytes."""
        return self.model_dump(mode="json") | {"needs": [entry.manifest() for entry in needs(self)]}


def entry_ids() -> list[str]:
    """The ids of all models of the catalog."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def load_entry(model: str) -> Entry:
    """A model of the catalog by its id. Raises ConfigFault where there is none, with the nearest one."""
    if model not in entry_ids():
        raise ConfigFault(
            f"there is no model {model!r}",
            f"the models are: {', '.join(entry_ids())}",
            nearest(model, entry_ids()) or "choose one of them",
        )
    return parse_entry(model, read_yaml(FOLDER / f"{model}.yaml"))


def parse_entry(model: str, raw: Any) -> Entry:
    """An entry from YAML's data. Raises ConfigFault with the key that is wrong."""
    try:
        # Through JSON: there a list is how a tuple is written; in Python data a strict model would refuse it.
        return Entry.model_validate_json(json.dumps({"id": model} | dict(raw)))
    except (ValidationError, TypeError, ValueError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            reason = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigFault(
            f"the catalog's model {model} is not one", reason, "correct its YAML file"
        ) from None


def needs(entry: Entry) -> tuple[Entry, ...]:
    """The models that must be here before this one can be made."""
    return (load_entry(entry.source.parent),) if isinstance(entry.source, DropLayersSource) else ()
