"""Settings: layers, sources, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from appliance.core.errors import ConfigFault
from appliance.core.settings import (
    Value,
    from_assignments,
    from_environment,
    from_tree,
    merge,
    tree,
)
from appliance.core.yamltext import parse_yaml
from appliance.stack.resolve import known_settings

KNOWN = known_settings()


def test_a_leaf_is_read_by_its_type() -> None:
    layer = from_assignments(["serve.port=8001", "offers.json=true", "serve.name=123"], KNOWN)
    assert [item.value for item in layer.values()] == [8001, True, "123"]


def test_null_unsets_what_may_be_absent() -> None:
    assert from_assignments(["llamacpp.threads=null"], KNOWN)["llamacpp.threads"].value is None


def test_every_value_says_where_it_came_from() -> None:
    layer = merge(
        [
            from_tree({"serve": {"port": 1, "name": "a"}}, "preset p", KNOWN),
            from_environment({"SPARK_SPEC_SERVE_PORT": "2"}, KNOWN),
            from_assignments(["serve.port=3"], KNOWN),
        ]
    )
    assert layer["serve.port"] == Value(3, "--set serve.port")
    assert layer["serve.name"] == Value("a", "preset p")


@pytest.mark.parametrize("key", list(KNOWN))
def test_every_key_has_an_environment_variable(key: str) -> None:
    name = "SPARK_SPEC_" + key.replace(".", "_").upper()
    with pytest.raises(ConfigFault, match="empty value"):
        from_environment({name: ""}, KNOWN)


@pytest.mark.parametrize("key", list(KNOWN))
def test_every_key_is_documented(key: str) -> None:
    assert KNOWN[key].description


def test_a_section_may_be_set_whole() -> None:
    layer = from_assignments(["draft={model: m, k: 2}"], KNOWN)
    assert tree(layer) == {"draft": {"model": "m", "k": 2}}


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (["serve.prt=1"], "serve.port"),
        (["draft.max_len=1"], "unknown setting draft.max_len"),
        (["serve=3"], "is a section"),
        (["serve.port"], "has no value"),
        (["serve.port=8001.5"], "cannot be '8001.5'"),
        (["serve.port=70000"], "cannot be '70000'"),
        (["serve.port="], "empty value"),
        (["paths.models= "], "empty value"),
        (["draft.k=2", "draft={k: 3}"], "collide"),
        (["draft={k: 3}", "draft.k=2"], "collide"),
        (["draft.k=2", "draft.k=2"], "said twice"),
        (["serve={port: {a: 1}}"], "serve"),
    ],
)
def test_what_cannot_be_meant_is_refused(pairs: list[str], said: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        layer = from_assignments(pairs, KNOWN)
        from appliance.stack.resolve import resolve

        del layer
        resolve("demo", pairs, {})
    assert said in f"{caught.value.what} {caught.value.why} {caught.value.fix}"


def test_an_unknown_variable_fails_with_the_nearest_name() -> None:
    with pytest.raises(ConfigFault) as caught:
        from_environment({"SPARK_SPEC_SERVE_PROT": "1"}, KNOWN)
    assert "SPARK_SPEC_SERVE_PORT" in caught.value.fix


@pytest.mark.parametrize("written", [{"serve.port": 1}, {"serve": {"port": 1}, "serve.port": 2}])
def test_a_dotted_name_inside_yaml_is_unknown_and_the_fix_nests_it(written: dict[str, object]) -> None:
    with pytest.raises(ConfigFault, match=r"unknown setting serve\.port") as caught:
        from_tree(written, "config file x", KNOWN)
    assert "nest it" in caught.value.fix


@pytest.mark.parametrize(
    "pairs",
    [["serve=" + "x" * 10_000], ["x" * 10_000 + "=1"], ["x" * 10_000], ["serve.port=" + "9" * 10_000],
     ["x\x1b[31m\ny=1"], ['serve={"a\\eb": 1}']],
)  # fmt: skip
def test_whatever_was_given_a_message_stays_a_short_line(pairs: list[str]) -> None:
    with pytest.raises(ConfigFault) as caught:
        from_assignments(pairs, KNOWN)
    for text in (caught.value.what, caught.value.why, caught.value.fix):
        assert len(text) < 600
        assert text.isprintable()


# Open sections: any key at any depth, judged by who owns them


def layered(*layers: Mapping[str, Value]) -> dict[str, Any]:
    return tree(merge(layers))


def yaml_layer(text: str, source: str = "preset p") -> dict[str, Value]:
    return from_tree(parse_yaml(text, source), source, KNOWN)


def refused(pairs: list[str]) -> ConfigFault:
    with pytest.raises(ConfigFault) as caught:
        from_assignments(pairs, KNOWN)
    return caught.value


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("trtllm.a=1", 1),
        ("trtllm.a=0.5", 0.5),
        ("trtllm.a=true", True),
        ("trtllm.a=null", None),
        ("trtllm.a=AUTO", "AUTO"),
        ("trtllm.a='1'", "1"),
        ("trtllm.a=[1, 2]", [1, 2]),
        ("trtllm.a={}", {}),
    ],
)
def test_a_value_of_an_open_section_is_read_as_yaml(pair: str, value: object) -> None:
    layer = from_assignments([pair], KNOWN)
    assert layer == {"trtllm.a": Value(value, "--set trtllm.a")}
    assert type(layer["trtllm.a"].value) is type(value)


def test_keys_are_set_at_any_depth_alone_or_as_a_section() -> None:
    deep = from_assignments(["trtllm.a.b.c=1", "trtllm.a.b.d=[2]", "vllm.x=3"], KNOWN)
    whole = from_assignments(["trtllm={a: {b: {c: 1, d: [2]}}}", "vllm={x: 3}"], KNOWN)
    assert tree(deep) == tree(whole) == {"trtllm": {"a": {"b": {"c": 1, "d": [2]}}}, "vllm": {"x": 3}}
    assert deep["trtllm.a.b.c"].source == "--set trtllm.a.b.c"


def test_layers_are_merged_key_by_key_and_keep_their_sources() -> None:
    preset = yaml_layer("trtllm: {kv: {max_tokens: 1, reuse: false}, x: 1}")
    merged = merge([preset, from_assignments(["trtllm.kv.max_tokens=2", "trtllm.kv.fraction=0.5"], KNOWN)])
    assert tree(merged) == {"trtllm": {"kv": {"max_tokens": 2, "reuse": False, "fraction": 0.5}, "x": 1}}
    assert merged["trtllm.kv.max_tokens"].source == "--set trtllm.kv.max_tokens"
    assert merged["trtllm.kv.reuse"].source == "preset p"


def test_a_section_given_whole_adds_its_keys() -> None:
    preset = yaml_layer("trtllm: {kv: {max_tokens: 1, reuse: false}}")
    over = from_assignments(["trtllm={kv: {max_tokens: 2}}"], KNOWN)
    assert layered(preset, over) == {"trtllm": {"kv": {"max_tokens": 2, "reuse": False}}}


def test_a_leaf_takes_the_place_of_a_branch_and_a_branch_that_of_a_leaf() -> None:
    preset = yaml_layer("trtllm: {graphs: {batch: 1, padding: false}, kv: {x: 1}, list: [1, 2]}")
    for off in ("null", "{}", "1"):
        over = from_assignments([f"trtllm.graphs={off}"], KNOWN)
        assert layered(preset, over)["trtllm"]["graphs"] in (None, {}, 1)
        back = from_assignments(["trtllm.graphs.batch=2"], KNOWN)
        assert layered(preset, over, back)["trtllm"]["graphs"] == {"batch": 2}
    assert layered(preset, from_assignments(["trtllm.list=[3]"], KNOWN))["trtllm"]["list"] == [3]


def test_a_name_that_begins_alike_is_another_key() -> None:
    preset = yaml_layer("trtllm: {max: {x: 1}, max_tokens: 2}")
    over = from_assignments(["trtllm.max=null"], KNOWN)
    assert layered(preset, over) == {"trtllm": {"max": None, "max_tokens": 2}}
    assert from_assignments(["trtllm.max=1", "trtllm.max_tokens=2"], KNOWN)


@pytest.mark.parametrize(
    "pairs",
    [
        ["trtllm.a.b=1", "trtllm.a={c: 1}"],
        ["trtllm={a: 1}", "trtllm.b=1"],
        ["trtllm.a=null", "trtllm.a.b.c=1"],
    ],
)
def test_a_parent_and_its_child_collide(pairs: list[str]) -> None:
    for said in (pairs, pairs[::-1]):
        assert "collide" in refused(said).what


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("trtllm=3", "is a section"),
        ("trtllm=null", "is a section"),
        ("trtllm=[1]", "is a section"),
        ("trtllm.a=", "empty value"),
        ("trtllm.a.b='  '", "empty value"),
        ("trtllm.a={b.c: 1}", "unknown setting trtllm.a.b.c"),
        ("trtllm={a.b: 1}", "unknown setting trtllm.a.b"),
        ("trtllm.a=[", "trtllm.a"),
        ("trtlm.a=1", "unknown setting trtlm.a"),
        ("serve.extra.a=1", "unknown setting serve.extra.a"),
        ('trtllm.a="\\e[31m"', "cannot be"),
        ('trtllm.a=[x, "\\0"]', "cannot be"),
        ('trtllm.a=[{b: ["\\u202e"]}]', "cannot be"),
        ('trtllm={"a\\eb": 1}', "cannot be"),
    ],
)
def test_what_cannot_be_in_an_open_section_is_refused_on_one_plain_line(pair: str, said: str) -> None:
    fault = refused([pair])
    assert said in fault.what
    assert all(text.isprintable() and text for text in (fault.what, fault.why, fault.fix))


def test_a_dot_in_a_yaml_key_is_told_to_be_nested() -> None:
    for text in ("trtllm: {a.b: 1}", "trtllm: {a: {b.c: {d: 1}}}"):
        with pytest.raises(ConfigFault, match="unknown setting") as caught:
            yaml_layer(text)
        assert "nest it" in caught.value.fix


def test_an_open_section_comes_from_the_environment_as_yaml() -> None:
    layer = from_environment({"SPARK_SPEC_TRTLLM": "{kv: {max_tokens: 5}, graphs: null}"}, KNOWN)
    assert tree(layer) == {"trtllm": {"kv": {"max_tokens": 5}, "graphs": None}}
    assert {item.source for item in layer.values()} == {"environment SPARK_SPEC_TRTLLM"}
    preset = yaml_layer("trtllm: {kv: {max_tokens: 1, reuse: false}}")
    over = from_assignments(["trtllm.kv.max_tokens=9"], KNOWN)
    assert layered(preset, layer, over)["trtllm"]["kv"] == {"max_tokens": 9, "reuse": False}


@pytest.mark.parametrize("text", ["3", "[", "null", "{a.b: 1}", '{a: "\\e"}', "&x {a: *x}"])
def test_what_is_no_section_in_the_environment_is_refused(text: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        from_environment({"SPARK_SPEC_TRTLLM": text}, KNOWN)
    assert "SPARK_SPEC_TRTLLM" in f"{caught.value.what} {caught.value.why}"


def test_an_empty_section_sets_nothing() -> None:
    assert from_assignments(["trtllm={}"], KNOWN) == {}
    assert yaml_layer("trtllm: {}") == {}
