"""Settings: layers, sources, and what is refused."""

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
