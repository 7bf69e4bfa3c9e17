"""Templates: strict, and no value becomes structure."""

from pathlib import Path

import pytest
import yaml
from jinja2 import UndefinedError

from appliance.core import paths
from appliance.core.template import Variable, render_yaml

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
    "user": "10001:10001",
    "gpu": "none",
    "mounts": [("/srv/models", "/models")],
}
QUOTED = ["project", "stack", "preset", "digest", "home", "image", "user"]
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


@pytest.mark.parametrize("value", ODD)
def test_an_odd_folder_stays_a_folder(value: str) -> None:
    odd = yaml.safe_load(render_yaml("compose/compose.yaml.j2", CONTEXT | {"mounts": [(value, "/models")]}))
    assert [mount["source"] for mount in odd["services"]["engine"]["volumes"]] == ["./engine", value]


@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_stays_a_value_in_an_engine_s_config(value: str) -> None:
    config = {"speculative_config": {"speculative_model_dir": value}, "dtype": value, "list": [value, 1]}
    text = render_yaml("extra-llm-api/config.yml.j2", {"version": "1", "config": config})
    assert yaml.safe_load(text) == config


def _shape(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: _shape(value) for key, value in tree.items()}
    return [_shape(value) for value in tree] if isinstance(tree, list) else type(tree)


def _leaves(tree: object) -> list[object]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in _leaves(value)]
    return [leaf for value in tree for leaf in _leaves(value)] if isinstance(tree, list) else [tree]


def test_a_dollar_is_for_compose_only_where_a_variable_was_meant() -> None:
    text = render_yaml(
        "compose/compose.yaml.j2", CONTEXT | {"mounts": [(Variable("${A:?b}"), "/m")], "image": "a$b"}
    )
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
