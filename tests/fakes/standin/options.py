"""An argparse command line out of an engine's dumped options. Failing is argparse's own."""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "ge": lambda value, bound: value >= bound,
    "gt": lambda value, bound: value > bound,
    "le": lambda value, bound: value <= bound,
    "lt": lambda value, bound: value < bound,
}
BOUND_WORDS = {
    "ge": ("greater_than_equal", "greater than or equal to"), "gt": ("greater_than", "greater than"),
    "le": ("less_than_equal", "less than or equal to"), "lt": ("less_than", "less than"),
}  # fmt: skip


class _Pair(argparse.Action):
    """--x and --no-x."""

    def __call__(self, _parser: Any, namespace: Any, _values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, not (option_string or "").startswith("--no-"))


def human_int(text: str) -> int:
    """1k, 1.5m, 4K, 2Gi."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]i?)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"invalid integer: {text!r}")
    number, suffix = match[1], match[2] or ""
    if suffix in BINARY or (suffix and suffix.isupper()):
        return int(number) * BINARY[suffix if suffix in BINARY else suffix + "i"]
    return int(float(number) * DECIMAL.get(suffix.lower(), 1))


def from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>.") from None


def _int_or_auto(text: str) -> int:
    return -1 if text in ("auto", "-1") else human_int(text)


def _str_or_json(text: str) -> Any:
    return from_json(text) if text.startswith("{") else text


def _csv(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


CONVERT: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "str": str, "human_int": human_int, "human_int_or_auto": _int_or_auto,
    "json": from_json, "json_list": from_json, "json_cuda_graph": from_json, "str|json": _str_or_json, "csv": _csv,
    "lower_underscore": lambda text: text.lower().replace("-", "_"),
}  # fmt: skip


def converter(kind: str) -> Callable[[str], Any]:
    optional, plain = kind.endswith("|None"), kind.removesuffix("|None")
    inner = CONVERT["json" if plain.startswith("json:") else plain]

    def convert(text: str) -> Any:
        return None if optional and text in ("", "None") else inner(text)

    convert.__name__ = plain
    return convert


def parser(prog: str, usage: str, options: Iterable[dict[str, Any]]) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=prog, usage=usage)
    for option in options:
        action, kind = option.get("action"), option["type"]
        if action == "help":
            continue
        if "positional" in option:
            made.add_argument(option["positional"], nargs=option.get("nargs"), default=option["default"])
            continue
        # argparse would convert a text default; those that are no text here only name a class.
        default = option.get("default")
        named = isinstance(default, str) and not kind.startswith("str")
        words: dict[str, Any] = {"dest": dest(option), "default": None if named else default}
        if option.get("required"):
            words["required"] = True
        if action in ("flag", "pair"):
            words |= {"action": "store_true"} if action == "flag" else {"action": _Pair, "nargs": 0}
        else:
            words |= {"type": converter(kind)} | {
                k: option[k] for k in ("choices", "nargs", "const") if k in option
            }
            words |= {"action": "append", "default": []} if action == "append" else {}
        made.add_argument(*option["flags"], **words)
    return made


def dest(option: dict[str, Any]) -> str:
    if "dest" in option:
        return str(option["dest"])
    long = next((flag for flag in option["flags"] if flag.startswith("--")), option["flags"][0])
    return str(long.lstrip("-").replace("-", "_"))


def given(parser: argparse.ArgumentParser, argv: Sequence[str]) -> list[str]:
    """The options that a command line names, as `dest`, each as often as it names it."""
    found = []
    for word in argv:
        flag = word.partition("=")[0]
        if flag.startswith("-") and flag in parser._option_string_actions:
            found.append(parser._option_string_actions[flag].dest)
    return found


def twice(parser: argparse.ArgumentParser, argv: Sequence[str]) -> list[str]:
    """Options given more than once that do not gather."""
    names = given(parser, argv)
    gather = {action.dest for action in parser._actions if isinstance(action, argparse._AppendAction)}
    return sorted({name for name in names if names.count(name) > 1} - gather)


def out_of_bounds(value: Any, bounds: dict[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a number: pydantic's kind and text."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for name, bound in bounds.items():
        if name in OPERATORS and not OPERATORS[name](value, bound):
            kind, text = BOUND_WORDS[name]
            return kind, f"Input should be {text} {bound}"
    return None
