"""YAML from people: plain data, or a ConfigFault; in a file and after --set alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.core.errors import ConfigFault
from appliance.core.settings import from_assignments
from appliance.core.yamltext import read_yaml
from appliance.stack.resolve import known_settings

LAUGHS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 30))
NOT_PLAIN = {
    "billion laughs": f"l0: &l0 [ha]\n{LAUGHS}\n",
    "an anchor": "{port: &p 1}",
    "an alias": "{port: *p}",
    "a merge of an alias": "{<<: *p}",
    "a date that is none": "{name: 2026-13-45}",
    "an int that is none": "!!int abc",
    "an int of nothing": "!!int ''",
    "a bool that is none": "!!bool abc",
    "a float that is none": "!!float abc",
    "a timestamp that is none": "!!timestamp abc",
    "binary that is none": "!!binary é",
    "a number that is long": "{port: 0x" + "f" * 5000 + "}",
    "a number of many parts": "{port: 1" + ":1" * 5000 + "}",
    "deep nesting": "[" * 3000,
    "deep nesting, closed": "[" * 3000 + "]" * 3000,
    "a key that stands twice": "{port: 1, port: 2}",
    "a key that is no scalar": "? {a: 1}\n: 2",
    "a Python object": "!!python/object:os.system {}",
    "two documents": "a: 1\n---\nb: 2",
    "an open bracket": "a: [",
    "a tab": "\tx: 1",
    "a control character": "a: \x07",
}


def in_a_file(text: str, folder: Path) -> Any:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return read_yaml(path)


def after_set(text: str, folder: Path) -> Any:
    del folder
    return from_assignments([f"serve={text}"], known_settings())


@pytest.mark.parametrize("read", [in_a_file, after_set])
@pytest.mark.parametrize("case", list(NOT_PLAIN))
def test_what_is_no_plain_yaml_is_a_fault_on_a_line(
    tmp_path: Path, case: str, read: Callable[[str, Path], Any]
) -> None:
    with pytest.raises(ConfigFault, match="not valid YAML") as caught:
        read(NOT_PLAIN[case], tmp_path)
    assert caught.value.why.isprintable()
    assert 0 < len(caught.value.why) <= 300


def test_the_place_and_the_kind_of_fault_are_named(tmp_path: Path) -> None:
    for text, said in (
        ("a: 1\na: 2\n", "'a' stands twice"),
        ("a: 1\nb: &x 2\n", "anchors"),
        ("b: 1\na: !!int x\n", "int"),
    ):
        with pytest.raises(ConfigFault) as caught:
            in_a_file(text, tmp_path)
        assert said in caught.value.why
        assert "line 2" in caught.value.why


def test_plain_yaml_is_read_with_or_without_a_bom(tmp_path: Path) -> None:
    for mark in ("", "\ufeff"):
        assert in_a_file(mark + "a: {b: [1, 2.5, x, null, true]}\n", tmp_path) == {
            "a": {"b": [1, 2.5, "x", None, True]}
        }


def test_a_file_that_may_be_absent_reads_as_nothing(tmp_path: Path) -> None:
    assert read_yaml(tmp_path / "none.yaml", optional=True) is None
    with pytest.raises(ConfigFault, match="cannot read"):
        read_yaml(tmp_path / "none.yaml")
