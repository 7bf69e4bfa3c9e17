"""What a JSON Schema takes, in plain words: `a whole number, at least 1, or null`."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_MANY = {
    "integer": "whole numbers",
    "number": "numbers",
    "string": "texts",
    "array": "lists",
    "object": "mappings",
}
_NUMERIC = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}
_BOUNDS = {
    "integer": _NUMERIC,
    "number": _NUMERIC,
    "string": {"minLength": "at least {} long"},
    "array": {"minItems": "at least {} long", "maxItems": "at most {} long"},
    "object": {"minProperties": "with at least {} key"},
}


def in_words(alternatives: Sequence[Schema]) -> str:
    """What the alternatives take together; each is without $ref, anyOf and oneOf."""
    choices = [str(one) for schema in alternatives for one in choices_of(schema) if one is not None]
    open_ones = [schema for schema in alternatives if not choices_of(schema)]
    said = [f"one of {', '.join(dict.fromkeys(choices))}"] if len(choices) > 1 else choices
    said += [_kind(kind, one) for one in open_ones for kind in _kinds(one) if kind != "null"]
    if any("null" in _kinds(schema) or None in choices_of(schema) for schema in alternatives):
        said.append("null")
    return ", or ".join(dict.fromkeys(said)) or "left out: nothing that can be written here is taken"


def choices_of(schema: Schema) -> list[Any]:
    """The values that a schema names one by one; empty where it names none."""
    return [schema["const"]] if "const" in schema else list(schema.get("enum", []))


def _kinds(schema: Schema) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _kind(kind: str, schema: Schema) -> str:
    """One kind of value with its bounds."""
    name = _KINDS[kind]
    if kind == "string" and "pattern" in schema:
        return f"text such as {', '.join(map(str, schema['examples']))}"
    if kind == "array":
        items = _kinds(schema.get("items", {}))
        name += f" of {_MANY[items[0]]}" if len(items) == 1 and items[0] in _MANY else ""
        name += " without repeats" if schema.get("uniqueItems") else ""
    bounds = _BOUNDS.get(kind, {})
    said = [text.format(schema[word]) for word, text in bounds.items() if word in schema]
    return f"{name}, {' and '.join(said)}" if said else name
