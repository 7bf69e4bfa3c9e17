"""What jsonschema finds wrong, said as pydantic says it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

KINDS = {
    "integer": ("int_type", "Input should be a valid integer"),
    "number": ("float_type", "Input should be a valid number"),
    "string": ("string_type", "Input should be a valid string"),
    "boolean": ("bool_type", "Input should be a valid boolean"),
    "array": ("list_type", "Input should be a valid list"),
    "object": ("model_type", "Input should be a valid dictionary or instance"),
    "null": ("none_required", "Input should be None"),
}
BOUNDS = {
    "minimum": ("greater_than_equal", "Input should be greater than or equal to {}"),
    "exclusiveMinimum": ("greater_than", "Input should be greater than {}"),
    "maximum": ("less_than_equal", "Input should be less than or equal to {}"),
    "minItems": ("too_short", "List should have at least {} item after validation"),
}


def problem(place: Iterable[Any], kind: str, text: str, value: Any) -> str:
    """One problem as pydantic prints it, below the heading."""
    shown = value if len(repr(value)) < 60 else f"{repr(value)[:50]}..."
    where = ".".join(str(part) for part in place)
    shape = type(value).__name__
    shown = shown if isinstance(shown, str) and shown is not value else repr(shown)
    return (
        (f"{where}\n" if where else "")
        + f"  {text} [type={kind}, input_value={shown}, input_type={'NoneType' if value is None else shape}]\n"
        f"    For further information visit https://errors.pydantic.dev/2.12/v/{kind}"
    )


def heading(problems: list[str], name: str = "TorchLlmArgs") -> str:
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''}"
    return f"pydantic_core._pydantic_core.ValidationError: {count} for {name}\n" + "\n".join(problems)


def problems(value: Any, schema: dict[str, Any], place: tuple[Any, ...] = ()) -> list[str]:
    """All that is wrong with a value, in pydantic's words."""
    found: list[str] = []
    for error in Draft202012Validator(schema).iter_errors(value):
        for leaf in _leaves(error):
            found += _said(leaf, place)
    return found


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """Of alternatives, the one that was meant: not null, and of the value's own kind."""
    if error.validator not in ("anyOf", "oneOf"):
        yield error
        return
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    meant = [
        b for b in branches.values() if not any(e.validator == "type" and e.path == error.path for e in b)
    ]
    meant = [b for b in meant if not all(not e.relative_path and e.validator == "type" for e in b)]
    if not meant:
        meant = [next(iter(branches.values()))]
    for inner in meant[0]:
        yield from _leaves(inner)


def _said(error: ValidationError, place: tuple[Any, ...]) -> Iterator[str]:
    expected: Any = error.validator_value
    schema: Any = error.schema
    value: Any = error.instance
    where = (*place, *error.absolute_path)
    if error.validator == "additionalProperties":
        known = set(schema.get("properties", {}))
        for key in value:
            if key not in known:
                yield problem((*where, key), "extra_forbidden", "Extra inputs are not permitted", value[key])
    elif error.validator == "required":
        for key in expected:
            if key not in value:
                yield problem((*where, key), "missing", "Field required", value)
    elif error.validator in ("enum", "const"):
        options = [
            repr(option) for option in (expected if error.validator == "enum" else [expected]) if option
        ]
        listed = " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))
        yield problem(where, "literal_error", f"Input should be {listed}", value)
    elif error.validator == "type":
        kind, text = KINDS[
            expected if isinstance(expected, str) else next(k for k in expected if k != "null")
        ]
        yield problem(where, kind, text, value)
    elif error.validator in BOUNDS:
        kind, text = BOUNDS[error.validator]
        yield problem(where, kind, text.format(json.dumps(expected)), value)
    else:
        yield problem(where, "value_error", f"Value error, {error.message}", value)
