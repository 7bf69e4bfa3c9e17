"""Settings in layers: every value knows where it came from; what is unknown, empty or said twice is refused.

A layer maps dotted keys of leaves (`serve.port`) to values. Later layers win. The known keys are those of a
pydantic model, so there is one list of keys and one description of each.
"""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from appliance.core.errors import ConfigFault
from appliance.core.text import one_line, printable, shown
from appliance.core.yamltext import parse_yaml

ENVIRONMENT_PREFIX = "SPARK_SPEC_"
CONFIG_VARIABLE = "SPARK_SPEC_CONFIG"


@dataclass(frozen=True)
class Value:
    """A setting and where it came from, in words a person can act on."""

    value: Any
    source: str


@dataclass(frozen=True)
class Leaf:
    """A known key: its type, what it means, and whether `null` is a value of it.

    `open`: a section that takes any key, at any depth; who owns it judges them (`trtllm.max_num_tokens`).
    """

    annotation: Any
    description: str
    nullable: bool
    open: bool = False


Layer = Mapping[str, Value]
Known = Mapping[str, Leaf]


def leaves(model: type[BaseModel], prefix: str = "") -> dict[str, Leaf]:
    """Every leaf of a model and of the models inside it, by dotted key, in the order they are written."""
    found: dict[str, Leaf] = {}
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= leaves(kind, key + ".")
        else:
            nullable = get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind)
            open_ = get_origin(kind) is dict
            found[key] = Leaf(field.rebuild_annotation(), field.description or "", nullable, open_)
    return found


def in_open(key: str, known: Known) -> bool:
    """Whether a dotted key lies inside a section that takes any."""
    section, dot, _ = key.partition(".")
    return bool(dot) and section in known and known[section].open


def nearest(word: str, words: Iterable[str]) -> str:
    """Words for "did you mean": the nearest known one, or nothing where none is near."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else ""


def from_tree(tree: Any, source: str, known: Known) -> dict[str, Value]:
    """A layer from nested mappings, as YAML gives them. Raises ConfigFault on a key that is not known."""
    if not isinstance(tree, Mapping):
        raise ConfigFault(
            f"{source} is not a mapping of settings", f"it is {shown(tree)}", "write key: value lines"
        )
    return dict(_walk(tree, "", source, known))


def _walk(tree: Mapping[Any, Any], prefix: str, source: str, known: Known) -> Iterator[tuple[str, Value]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if "." in str(name):
            raise unknown(key, source, known, "in YAML, nest it: write serve: {port: 8001} for serve.port")
        if key in known and known[key].open:
            if not isinstance(value, Mapping):
                raise ConfigFault(f"{key} is a section ({source})", f"it was given {shown(value)}",
                                  f"set a key in it: {key}.NAME")  # fmt: skip
            yield from _branches(value, f"{key}.", source, known)
        elif key in known:
            yield key, Value(_not_empty(key, value, source), source)
        elif any(other.startswith(key + ".") for other in known):
            if not isinstance(value, Mapping):
                inside = ", ".join(other for other in known if other.startswith(key + "."))
                raise ConfigFault(
                    f"{key} is a section ({source})", f"it was given {shown(value)}", f"set one of: {inside}"
                )
            yield from _walk(value, key + ".", source, known)
        else:
            raise unknown(key, source, known)


def _branches(tree: Mapping[Any, Any], prefix: str, source: str, known: Known) -> Iterator[tuple[str, Value]]:
    """The leaves of an open section. An empty mapping is a leaf."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if "." in str(name):
            raise unknown(key, source, known, "in YAML, nest it: write a: {b: 1} for a.b")
        if isinstance(value, Mapping) and value:
            yield from _branches(value, f"{key}.", source, known)
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigFault(
                f"{one_line(key)} cannot be {value} ({source})", "it is no number", "give a number"
            )
        for text in (str(name), *_texts(value)):
            try:
                printable(text)
            except ValueError as error:
                raise ConfigFault(one_line(f"{key} cannot be {shown(value)} ({source})"), str(error),
                                  "write it with plain characters") from None  # fmt: skip
        yield key, Value(_not_empty(key, value, source), source)


def _texts(value: Any) -> Iterator[str]:
    """The texts in a leaf, which may be a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in _texts(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in _texts(part))


def unknown(key: str, source: str, known: Iterable[str], fix: str = "") -> ConfigFault:
    """The error for a key nobody knows, with the nearest one that is known."""
    return ConfigFault(
        f"unknown setting {one_line(key)} ({source})",
        "no setting has that name",
        fix
        or nearest(key, known)
        or _nearest_section(key, known)
        or "`spark-spec show PRESET` lists every setting",
    )


def _nearest_section(key: str, known: Iterable[str]) -> str:
    section, dot, _ = key.partition(".")
    return nearest(section, {other.partition(".")[0] for other in known}) if dot else ""


def _not_empty(key: str, value: Any, source: str) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ConfigFault(f"{key} has an empty value ({source})", "an empty value means nothing here",
                          f"give {key} a value, or leave it out to get its default")  # fmt: skip
    return value


def from_text(key: str, text: str, source: str, known: Known) -> Any:
    """A leaf's value from text, by the leaf's type (`null` where it may be absent). Raises ConfigFault."""
    leaf = known[key]
    _not_empty(key, text, source)
    if leaf.nullable and text == "null":
        return None
    try:
        return TypeAdapter(leaf.annotation).validate_strings(text)
    except ValidationError as error:
        reason = "; ".join(str(item["msg"]).removeprefix("Value error, ") for item in error.errors())
        fix = f"give another value, or leave it out; {key} means: {leaf.description}"
        raise ConfigFault(f"{key} cannot be {shown(text)} ({source})", reason, fix) from None


def from_environment(environ: Mapping[str, str], known: Known) -> dict[str, Value]:
    """A layer from `SPARK_SPEC_SERVE_PORT=8001`. Raises ConfigFault on a variable that sets nothing."""
    names = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in known}
    layer: dict[str, Value] = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE:
            continue
        if variable not in names:
            section = next((key for name, key in names.items()
                            if known[key].open and variable.startswith(name + "_")), None)  # fmt: skip
            if section:
                raise ConfigFault(
                    f"unknown environment variable {one_line(variable)}",
                    f"the section {section} takes any key, so a variable cannot tell where one ends",
                    f"give the section as YAML: {ENVIRONMENT_PREFIX}{section.upper()}='{{key: value}}'",
                )
            raise ConfigFault(
                f"unknown environment variable {one_line(variable)}",
                "variables that begin with SPARK_SPEC_ are settings, and this is none",
                nearest(variable, names) or f"unset {one_line(variable)}",
            )
        source = f"environment {variable}"
        if known[names[variable]].open:
            _not_empty(names[variable], text, source)
            layer |= from_tree(
                {names[variable]: parse_yaml(text, f"{names[variable]} ({source})")}, source, known
            )
            continue
        layer[names[variable]] = Value(from_text(names[variable], text, source, known), source)
    return layer


def from_assignments(pairs: Iterable[str], known: Known) -> dict[str, Value]:
    """A layer from `--set a.b=v`, repeated. Raises ConfigFault on an unknown key, and where a key, or a section
    and a key inside it, are both set: which one is meant cannot be known."""
    layer: dict[str, Value] = {}
    said: list[str] = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ConfigFault(f"--set {one_line(pair)} has no value", "it has no =", "write --set key=value")
        if key in said:
            raise ConfigFault(
                one_line(f"--set {key} is said twice"), "only one can be meant", "keep one of them"
            )
        for other in said:
            if key.startswith(other + ".") or other.startswith(key + "."):
                raise ConfigFault(one_line(f"--set {other} and --set {key} collide"), "one contains the other",
                                  "keep one of them")  # fmt: skip
        said.append(key)
        source = f"--set {key}"
        if key in known and not known[key].open:
            layer[key] = Value(from_text(key, text, source, known), source)
        else:
            layer |= from_tree(_section(key, text, known), source, known)
    return layer


def _section(key: str, text: str, known: Known) -> Mapping[str, Any]:
    if not (any(other.startswith(key + ".") or other == key for other in known) or in_open(key, known)):
        raise unknown(key, "--set", known)
    _not_empty(key, text, f"--set {key}")
    tree: Any = parse_yaml(text, f"--set {key}")
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return dict(tree)


def merge(layers: Iterable[Layer]) -> dict[str, Value]:
    """All layers in one; the later wins, key by key. In an open section a key takes the place of all that earlier
    layers set inside it or above it."""
    merged: dict[str, Value] = {}
    for layer in layers:
        above = {section for key in layer for section in _sections_of(key)}
        gone = {old for old in merged if old in above or not layer.keys().isdisjoint(_sections_of(old))}
        merged = {key: value for key, value in merged.items() if key not in gone} | dict(layer)
    return merged


def _sections_of(key: str) -> list[str]:
    """The dotted keys above a dotted key."""
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def tree(layer: Layer) -> dict[str, Any]:
    """Nested mappings from dotted keys, without the sources."""
    root: dict[str, Any] = {}
    for key, item in layer.items():
        *path, last = key.split(".")
        place = root
        for part in path:
            place = place.setdefault(part, {})
        place[last] = item.value
    return root
