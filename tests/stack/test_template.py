"""Templates: strict, and no value becomes structure."""

from pathlib import Path

import pytest
import yaml
from jinja2 import UndefinedError

from appliance.core import paths
from appliance.machine.facts import Variable
from appliance.stack.template import render_yaml

CONTEXT = {
    "version": "1",
    "preset": "p",
    "project": "p",
    "stack": "p",
    "digest": "d",
    "home": "/home/x",
    "image": "i:1",
    "port": 8000,
    "container_port": 8000,
    "models": "/models",
    "container_models": "/models",
}
QUOTED = ["project", "stack", "preset", "digest", "home", "image", "models", "container_models"]
ODD = [
    "a: b",
    "x\n  privileged: true",
    "'\"",
    "#",
    "{{ 1 }}",
    "a\\n",
    "- x",
    "&a",
    "!!int 3",
    "yes",
    "é ü",
    "[",
    "\t",
]


@pytest.mark.parametrize("key", QUOTED)
@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_stays_a_value(key: str, value: str) -> None:
    plain = yaml.safe_load(render_yaml("compose/compose.yaml.j2", CONTEXT))
    odd = yaml.safe_load(render_yaml("compose/compose.yaml.j2", CONTEXT | {key: value}))
    assert _shape(odd) == _shape(plain)
    assert value in _leaves(odd)


def _shape(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _shape(value) for key, value in tree.items()}
    return [_shape(value) for value in tree] if isinstance(tree, list) else type(tree)


def _leaves(tree: object) -> list[object]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in _leaves(value)]
    return [leaf for value in tree for leaf in _leaves(value)] if isinstance(tree, list) else [tree]


def test_a_dollar_is_for_compose_only_where_a_variable_was_meant() -> None:
    text = render_yaml("compose/compose.yaml.j2", CONTEXT | {"models": Variable("${A:?b}"), "image": "a$b"})
    assert '"${A:?b}"' in text
    assert '"a$$b"' in text


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_yaml(
            "compose/compose.yaml.j2", {key: value for key, value in CONTEXT.items() if key != "image"}
        )


def test_templates_cannot_reach_into_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jinja2.exceptions import SecurityError

    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "bad.j2").write_text("{{ ''.__class__.__mro__ }}")
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "package")
    with pytest.raises(SecurityError):
        render_yaml("bad.j2", {})
