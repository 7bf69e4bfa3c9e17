"""The command line of an engine that is told everything by options: what the stack says, and its open section.

Options are named as in the section: `max_num_seqs` for --max-num-seqs. How a value is written is told by what is
known of the engine (`x-argument`, see options.py).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from appliance.core.errors import ConfigFault
from appliance.engines.options import Known

Options = Mapping[str, Any]

# Why an option may not be set, in the words of every such engine.
SECRET = "a secret has no place in a command line: everyone on the machine can read it"
ENDPOINT = (
    "the appliance reaches the engine by plain HTTP inside its container; a gateway is what others reach"
)
HOST = "the engine binds inside its container; the port is published on 127.0.0.1"
SECOND_FILE = "its file would say things a second time: write its keys in this section"


def given(options: Options) -> dict[str, Any]:
    """The options that are set: null takes one out that a preset has."""
    return {name: value for name, value in options.items() if value is not None}


def check_owned(section: str, options: Options, owned: Mapping[str, str], barred: Mapping[str, str]) -> None:
    """Raises ConfigFault for an option that says a second time what the stack says, or that nobody may set.

    `owned` maps such an option (dotted inside a mapping) to the stack's own key, `barred` one to the reason.
    """
    for path, ours in owned.items():
        if _has(options, path):
            raise ConfigFault(
                f"{section}.{path} cannot be set",
                f"it is what {ours} stands for, and each value stands in one place",
                f"set {ours} instead",
            )
    for path, why in barred.items():
        if _has(options, path):
            raise ConfigFault(f"{section}.{path} cannot be set", why, "leave it out")


def arguments(options: Options, known: Sequence[Known]) -> tuple[str, ...]:
    """Judged options as arguments, in the order given, so that the same options make the same command line."""
    return tuple(word for name, value in options.items() for word in _argument(name, value, known))


def _argument(name: str, value: Any, known: Sequence[Known]) -> Iterator[str]:
    option = name.replace("_", "-")
    form = _form(name, known)
    if form == "flag":
        yield from [f"--{option}"] if value else []
    elif form == "pair":
        yield f"--{option}" if value else f"--no-{option}"
    elif form == "append":
        for item in value:
            yield from _pair(option, _text(item))
    elif form == "many":
        yield from (f"--{option}", *map(_text, value))
    else:
        yield from _pair(option, _text(value))


def _form(name: str, known: Sequence[Known]) -> str | None:
    """Of the newest version that knows the option."""
    schemas = (one.schema["properties"].get(name) for one in reversed(known))
    found: str | None = next((schema.get("x-argument") for schema in schemas if schema is not None), None)
    return found


def _pair(option: str, text: str) -> tuple[str, ...]:
    """A value that looks like an option is joined to its own."""
    return (f"--{option}={text}",) if text.startswith("-") else (f"--{option}", text)


def _text(value: Any) -> str:
    """A string as it is, all else as JSON: compact, and the same each time."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _has(options: Options, path: str) -> bool:
    tree: Any = options
    for part in path.split("."):
        if not isinstance(tree, Mapping) or part not in tree:
            return False
        tree = tree[part]
    return True
