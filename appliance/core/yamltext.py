"""YAML from people: plain data only, and whatever is wrong with it is a ConfigFault that names the place.

Stricter than YAML: a key stands once in a mapping, and there are no anchors or aliases, since a few lines of
them can stand for more data than a machine holds.
"""

from pathlib import Path
from typing import Any

import yaml

from appliance.core.errors import ConfigFault
from appliance.core.paths import read_small
from appliance.core.text import one_line, shown

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LONGEST_NUMBER = 40  # characters; longer ones cost much to read, and Python refuses to write them


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses anchors, aliases and repeated keys, and says where a value is none of its type."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "anchor", None) is not None:
            raise yaml.composer.ComposerError(
                None,
                None,
                "anchors and aliases (& and *) are not taken: write the value out",
                event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise yaml.constructor.ConstructorError(None, None, "this number is too long", node.start_mark)
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"this is no {kind} that can be read: {error}", node.start_mark
            ) from None


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {shown(key)} stands twice", key_node.start_mark
            )
        seen.add(key)
    return dict(loader.construct_mapping(node, deep=True))


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse_yaml(text: str, source: str) -> Any:
    """YAML text as data; `source` names it in messages. Raises ConfigFault where it is no plain YAML."""
    try:
        return yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        reason = one_line(str(error))
    except RecursionError:
        reason = "it is nested too deeply"
    raise ConfigFault(f"{source} is not valid YAML", reason, "correct it at the place named")


def read_yaml(path: Path, *, optional: bool = False) -> Any:
    """A YAML file as data; None where it may be absent (`optional`) and is. Raises ConfigFault."""
    text = read_small(path)
    if text is None:
        if optional:
            return None
        raise ConfigFault(f"cannot read {one_line(str(path))}", "there is no such file", "check the path")
    return parse_yaml(text, str(path))
