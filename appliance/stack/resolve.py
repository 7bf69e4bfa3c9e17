"""From a preset's name and the settings around it to one Stack, with the source of every value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from appliance.catalog.preset import Preset, load
from appliance.catalog.stack import Draft, Images, Paths, Stack, Strict
from appliance.core.errors import ConfigFault
from appliance.core.paths import (
    default_config,
    default_harmony,
    default_hub,
    default_models,
    default_state,
    named_file,
)
from appliance.core.settings import (
    CONFIG_VARIABLE,
    Known,
    Layer,
    Value,
    from_assignments,
    from_environment,
    from_tree,
    in_open,
    leaves,
    merge,
    tree,
)
from appliance.core.yamltext import read_yaml

DEFAULT = "default"
NO_SPEC = "--no-spec"


class MachineSettings(Strict):
    """The settings of the machine, beside those of the stack."""

    paths: Paths
    images: Images = Images()


@dataclass(frozen=True)
class Resolved:
    """A stack, the machine's settings, and every value with its source, by dotted key."""

    stack: Stack
    machine: MachineSettings
    preset: Preset
    values: Mapping[str, Value]


def known_settings() -> Known:
    """Every key a person may set."""
    stack = leaves(Stack)
    del stack["preset"]
    return leaves(MachineSettings) | stack


def resolve(
    preset: str, assignments: Iterable[str], environ: Mapping[str, str], *, no_spec: bool = False
) -> Resolved:
    """The stack that a preset and all settings around it make.

    Order: defaults < preset < config file < SPARK_SPEC_* < --set < --no-spec.
    Raises ConfigFault with the key, its value, where it came from and what would be right.
    """
    known = known_settings()
    chosen = load(preset)
    assignments = list(assignments)
    drafts = [pair for pair in assignments if pair.partition("=")[0].split(".")[0] == "draft"]
    if no_spec and drafts:
        raise ConfigFault(f"--no-spec and --set {drafts[0]} collide", "without speculation there is no draft",
                          "keep one of them")  # fmt: skip
    layers = [from_tree(chosen.stack, chosen.source, known), *_around(assignments, environ, known)]
    if no_spec:
        layers.append({"draft.method": Value("none", NO_SPEC)})
    values = _defaults(known) | merge(_without_overruled_draft(layers))
    machine = _build(MachineSettings, values)
    stack = _build(Stack, values | {"preset": Value(chosen.name, chosen.source)})
    return Resolved(stack, machine, chosen, values)


def resolve_machine(assignments: Iterable[str], environ: Mapping[str, str]) -> MachineSettings:
    """The machine's settings alone, for commands that name no preset."""
    known = known_settings()
    values = _defaults(known) | merge(_around(assignments, environ, known))
    return _build(MachineSettings, values)


def _around(assignments: Iterable[str], environ: Mapping[str, str], known: Known) -> list[Layer]:
    return [
        _config_file(environ, known),
        from_environment(environ, known),
        from_assignments(assignments, known),
    ]


def _config_file(environ: Mapping[str, str], known: Known) -> Layer:
    named = environ.get(CONFIG_VARIABLE)
    if named is not None and not named.strip():
        raise ConfigFault(
            f"{CONFIG_VARIABLE} is empty", "it should name a config file", f"unset {CONFIG_VARIABLE}"
        )
    place = named or default_config()
    if place is None:
        return {}
    path = named_file(str(place), "the config file")
    raw = read_yaml(path, optional=not named)
    return from_tree({} if raw is None else raw, f"config file {path}", known)


def _defaults(known: Known) -> dict[str, Value]:
    defaults = [*_model_defaults(MachineSettings), *_model_defaults(Stack)]
    values = {key: Value(value, DEFAULT) for key, value in defaults if key in known and not known[key].open}
    folders = {
        "paths.state": default_state(),
        "paths.models": default_models(),
        "paths.hub": default_hub(),
        "paths.harmony": default_harmony(),
    }
    return values | {key: Value(str(path), DEFAULT) for key, path in folders.items() if path}


def _model_defaults(model: type[BaseModel], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _model_defaults(kind, key + ".")
        elif not field.is_required():
            yield key, field.default


def _without_overruled_draft(layers: list[Layer]) -> list[Layer]:
    """`draft.method: none` in a layer takes the draft of the layers below with it."""
    top = max((i for i, layer in enumerate(layers) if "draft.method" in layer), default=-1)
    if top < 0 or layers[top]["draft.method"].value != "none":
        return layers
    gone = [f"draft.{name}" for name in Draft.model_fields if name != "method"]
    below = [{key: value for key, value in layer.items() if key not in gone} for layer in layers[:top]]
    return [*below, *layers[top:]]


ModelT = TypeVar("ModelT", bound=BaseModel)


def _build(model: type[ModelT], values: Layer) -> ModelT:
    known = leaves(model)
    values = _below_models(values)
    mine = {key: value for key, value in values.items() if key in known or in_open(key, known)}
    _require({key for key in known if key not in dict(_model_defaults(model))} - set(mine), known)
    try:
        return model.model_validate(tree(mine))
    except ValidationError as error:
        raise ConfigFault(*_explain(error, mine)) from None


def _below_models(values: Layer) -> Layer:
    """A user without a home names one folder for what is downloaded: the others lie in it."""
    models = values.get("paths.models")
    if models is None:
        return values
    inside = {
        f"paths.{name}": Value(f"{models.value}/{name}", "below paths.models") for name in ("hub", "harmony")
    }
    return {**inside, **values}


def _require(missing: Iterable[str], known: Known) -> None:
    """Raise ConfigFault, naming every key that needs a value, where any has none."""
    if keys := sorted(missing):
        raise ConfigFault(
            f"nothing sets {', '.join(keys)}",
            "; ".join(f"{key} has no default here: {known[key].description}" for key in keys),
            " ".join(["add", *(f"--set {key}=VALUE" for key in keys)]),
        )


def _explain(error: ValidationError, values: Layer) -> tuple[str, str, str]:
    """What, why and where from, for the first thing wrong; the rest follow in the same line."""
    told = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"] if part != "function-after")
        near = [value.source for name, value in values.items() if name == key or name.startswith(key + ".")]
        sources = ", ".join(sorted(set(near) - {DEFAULT}))
        message = str(item["msg"]).removeprefix("Value error, ")
        told.append(f"{key}: {message}" + (f" (set by {sources})" if sources else ""))
    return (
        "the settings do not make a stack",
        "; ".join(told),
        "`spark-spec show PRESET` says what each setting means",
    )
