"""What is known of each engine version's own settings, and the judge that holds options against it.

`known/ENGINE-VERSION.json` is a JSON Schema (2020-12) of what an engine takes: of trtllm its config file, of vllm
and sglang the options of the command line (`max_num_seqs` for --max-num-seqs). Our own words in them:
`x-alias-of` (another name of that setting), `x-instead` (what replaces a deprecated one) and `x-argument`, how a
value reaches the command line where it is not one word after its option: `flag` (given or not), `pair` (--x or
--no-x), `append` (the option once an item), `many` (all items after one option), `json` (as JSON text).
An empty schema means: known, but not what it takes. The same, read out of an image by `images lock`, is the user's
own (catalog/lock.py) and decides alone about the version that it was read for.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.catalog.lock import engine_key, locked
from appliance.core.errors import ConfigFault
from appliance.core.settings import nearest
from appliance.core.text import one_line, shown
from appliance.engines.option_words import choices_of, in_words

if TYPE_CHECKING:
    from packaging.version import Version

FOLDER = Path(__file__).parent / "known"

Schema = Mapping[str, Any]
# Judged by the walk below, key by key and item by item, or (required) not at all: options are a part of a config.
_WALKED = frozenset(
    {"properties", "additionalProperties", "required", "items", "prefixItems", "contentSchema"}
)
_CHOICES = ("anyOf", "oneOf")


@dataclass(frozen=True)
class Known:
    """What one version of an engine takes; `tag` is what a stack calls the version, where that is another name."""

    engine: str
    version: str
    schema: Schema
    tag: str | None = None

    def __str__(self) -> str:
        return f"{self.engine} {self.version}"


@dataclass(frozen=True)
class _Spot:
    """A place in one version's schema: what may stand there, in alternatives without $ref, anyOf or oneOf."""

    known: Known
    alternatives: tuple[Schema, ...]


@cache
def known(engine: str) -> tuple[Known, ...]:
    """All that is known of an engine, oldest version first; empty where nothing is."""
    from packaging.version import Version

    found = [
        Known(engine, path.stem.removeprefix(f"{engine}-"), json.loads(path.read_text(encoding="utf-8")))
        for path in FOLDER.glob(f"{engine}-*.json")
    ]
    return tuple(sorted(found, key=lambda one: Version(one.version)))


def locked_options(engine: str, tag: str) -> tuple[Known, ...]:
    """What the user's lock holds of the engine that a stack calls `tag`; empty where it holds nothing."""
    held = locked().engines.get(engine_key(engine, tag))
    return (Known(engine, held.version, held.options, tag),) if held else ()


def around(engine: str, version: "Version | None") -> tuple[Known, ...]:
    """The version itself if it is known, else its two known neighbours, else the nearest one; of a version that
    is not known (None) the newest. Empty where nothing is known of the engine."""
    from packaging.version import Version

    every = known(engine)
    if version is None:
        return every[-1:]
    exact = tuple(one for one in every if Version(one.version) == version)
    older = tuple(one for one in every if Version(one.version) < version)
    newer = tuple(one for one in every if Version(one.version) > version)
    return exact or older[-1:] + newer[:1]


def judge(
    section: str, options: Mapping[str, Any], known: Sequence[Known], engine_version: str
) -> tuple[str, ...]:
    """Hold nested options, as the engine's config takes them, against one or two versions (see `around`).

    The options may be a part of a config: what is missing is not judged. Returns warnings: a key or value that
    only one version knows, a deprecated key. Raises ConfigFault on the first key, at any depth, or value that
    none of the versions takes, and where a setting is given under two names. `section` leads every path.
    """
    spots = [_Spot(one, tuple(_expand(one.schema, one.schema, options))) for one in known]
    exact = any(engine_version in (one.version, one.tag) for one in known)
    return tuple(_Judge(engine_version, _versions(known), exact).walk(section, options, spots))


def _versions(known: Sequence[Known]) -> str:
    return " and ".join(map(str, known))


@dataclass(frozen=True)
class _Judge:
    engine_version: str
    versions: str
    exact: bool

    def walk(self, path: str, value: Any, spots: Sequence[_Spot]) -> Iterator[str]:
        """Warnings about a value and all inside it. Raises ConfigFault."""
        fitting = [_fitting(spot, value) for spot in spots]
        takers = [spot for spot in fitting if spot.alternatives]
        if not takers:
            raise self._bad_value(path, value, spots)
        if len(takers) < len(spots):
            yield self._only_some(f"{one_line(path)}: {shown(value)}", "taken", takers, spots)
        if all({} in spot.alternatives for spot in takers):
            return
        if isinstance(value, Mapping):
            yield from self._keys(path, value, takers)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                spots_there = [_at_item(spot, index, item) for spot in takers]
                yield from self.walk(f"{path}[{index}]", item, spots_there)
        elif isinstance(value, str):
            yield from self._json_text(path, value, takers)

    def _keys(self, path: str, value: Mapping[Any, Any], spots: Sequence[_Spot]) -> Iterator[str]:
        for key, inner in value.items():
            here = f"{path}.{key}"
            inside = [_at_key(spot, key, inner) for spot in spots]
            knowing = [spot for spot in inside if spot.alternatives]
            if not knowing:
                raise self._unknown(here, str(key), spots)
            if len(knowing) < len(spots):
                yield self._only_some(one_line(here), "known", knowing, spots)
            other = _first("x-alias-of", knowing)
            if other in value:
                raise ConfigFault(one_line(f"{here} and {path}.{other} are both given"),
                                  "they are two names of one setting", "keep one of them")  # fmt: skip
            yield from self._deprecated(here, knowing)
            yield from self.walk(here, inner, knowing)

    def _json_text(self, path: str, text: str, spots: Sequence[_Spot]) -> Iterator[str]:
        """Where an option takes JSON, as text too, what the text says is judged like the data it stands for."""
        if not all(any("contentSchema" in one for one in spot.alternatives) for spot in spots):
            return
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ConfigFault(f"{one_line(path)} cannot be {shown(text)}", f"it is not JSON: {error}",
                              "write it as YAML below its key, or correct the JSON") from None  # fmt: skip
        inside = [_in_text(spot, data) for spot in spots]
        yield from self.walk(path, data, inside)

    def _deprecated(self, path: str, spots: Sequence[_Spot]) -> Iterator[str]:
        old = [s.known for s in spots if all(one.get("deprecated") for one in s.alternatives)]
        if old:
            instead = _first("x-instead", spots)
            hint = f"; use {instead}" if instead else ""
            yield f"{one_line(path)} is deprecated in {_versions(old)}{hint}"

    def _only_some(self, what: str, how: str, takers: Sequence[_Spot], spots: Sequence[_Spot]) -> str:
        yes = [spot.known for spot in takers]
        no = [spot.known for spot in spots if spot.known not in yes]
        return (
            f"{what} is {how} by {_versions(yes)}, not by {_versions(no)}; "
            f"whether {self.engine_version} takes it is not known"
        )

    def _whose(self) -> str:
        """The versions held against, and why these where the engine's own is not among them."""
        if self.exact:
            return self.versions
        return f"{self.versions} (the nearest known to version {self.engine_version})"

    def _unknown(self, path: str, key: str, spots: Sequence[_Spot]) -> ConfigFault:
        names = sorted(
            {
                name
                for spot in spots
                for one in spot.alternatives
                for name in one.get("properties", {})
                if not name.startswith("_")
            }
        )
        fix = nearest(key, names) or one_line(f"leave it out; known there: {', '.join(names)}")
        who = self._whose().replace(" and ", " or ", 1)
        return ConfigFault(f"unknown setting {one_line(path)}", f"no such setting is known to {who}", fix)

    def _bad_value(self, path: str, value: Any, spots: Sequence[_Spot]) -> ConfigFault:
        wants = {str(spot.known): in_words(spot.alternatives) for spot in spots}
        if len(set(wants.values())) == 1:
            why = f"{self._whose()}: it must be {next(iter(wants.values()))}"
        else:
            why = "; ".join(f"{who}: it must be {want}" for who, want in wants.items())
        choices = [str(one) for spot in spots for schema in spot.alternatives for one in choices_of(schema)]
        fix = nearest(value, choices) if isinstance(value, str) else ""
        return ConfigFault(
            f"{one_line(path)} cannot be {shown(value)}", why, fix or "give another value, or leave it out"
        )


def _expand(schema: Schema, root: Schema, value: Any) -> Iterator[Schema]:
    """The alternatives of a schema, without $ref, anyOf and oneOf; of a union told apart by a discriminator only
    the variant that the value names, or all where it names none."""
    rest = {key: one for key, one in schema.items() if key not in ("$ref", "discriminator", *_CHOICES)}
    if "$ref" in schema:
        options = [_find(schema["$ref"], root)]
    elif choices := next((schema[word] for word in _CHOICES if word in schema), None):
        named = _variant(schema.get("discriminator"), value)
        options = [{"$ref": named}] if named else choices
    else:
        yield rest
        return
    for one in options:
        yield from _expand({**one, **rest}, root, value)


def _find(reference: str, root: Schema) -> Schema:
    place: Any = root
    for part in reference.removeprefix("#/").split("/"):
        place = place[part]
    found: Schema = place
    return found


def _variant(discriminator: Mapping[str, Any] | None, value: Any) -> str | None:
    if discriminator is None or not isinstance(value, Mapping):
        return None
    named = value.get(discriminator["propertyName"])
    found = discriminator["mapping"].get(named) if isinstance(named, str) else None
    return str(found) if found else None


def _under(spot: _Spot, schemas: Iterator[Schema], value: Any) -> Iterator[Schema]:
    for schema in schemas:
        yield from _expand(schema, spot.known.schema, value)


def _at_key(spot: _Spot, key: Any, value: Any) -> _Spot:
    """What may stand under a key; no alternatives where the key is not known."""

    def schemas() -> Iterator[Schema]:
        for one in spot.alternatives:
            inner = one.get("properties", {}).get(key, one.get("additionalProperties", True))
            if inner is not False:
                yield {} if inner is True else inner

    return replace(spot, alternatives=tuple(_under(spot, schemas(), value)))


def _at_item(spot: _Spot, index: int, value: Any) -> _Spot:
    def schemas() -> Iterator[Schema]:
        for one in spot.alternatives:
            first = one.get("prefixItems", [])
            yield first[index] if index < len(first) else one.get("items", {})

    return replace(spot, alternatives=tuple(_under(spot, schemas(), value)))


def _in_text(spot: _Spot, data: Any) -> _Spot:
    schemas = (one["contentSchema"] for one in spot.alternatives if "contentSchema" in one)
    return replace(spot, alternatives=tuple(_under(spot, schemas, data)))


def _fitting(spot: _Spot, value: Any) -> _Spot:
    """The alternatives that a value fits by itself, whatever is inside it."""
    from jsonschema import Draft202012Validator

    def fits(schema: Schema) -> bool:
        own = {word: one for word, one in schema.items() if word not in _WALKED}
        return bool(Draft202012Validator(own).is_valid(value))

    return replace(spot, alternatives=tuple(one for one in spot.alternatives if fits(one)))


def _first(word: str, spots: Sequence[_Spot]) -> Any:
    return next((one[word] for spot in spots for one in spot.alternatives if word in one), None)
