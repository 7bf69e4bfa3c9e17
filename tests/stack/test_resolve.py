"""From preset and settings to one stack: order, sources, and what cannot be."""

from pathlib import Path

import pytest

from appliance.catalog.preset import names
from appliance.core.errors import ConfigFault
from appliance.core.paths import default_config
from appliance.stack.resolve import resolve, resolve_machine


@pytest.mark.parametrize("preset", names())
def test_every_preset_makes_a_stack(preset: str) -> None:
    assert resolve(preset, [], {}).stack.preset == preset


def test_the_later_layer_wins_and_is_named() -> None:
    default_config().parent.mkdir(parents=True)
    default_config().write_text("serve: {port: 8001, max_seq_len: 512, max_batch_size: 3}\n")
    environ = {"SPARK_SPEC_SERVE_PORT": "8002", "SPARK_SPEC_SERVE_MAX_SEQ_LEN": "256"}
    resolved = resolve("demo", ["serve.port=8003"], environ)
    assert (resolved.stack.serve.port, resolved.values["serve.port"].source) == (8003, "--set serve.port")
    assert (resolved.stack.serve.max_seq_len, resolved.values["serve.max_seq_len"].source) == (
        256,
        "environment SPARK_SPEC_SERVE_MAX_SEQ_LEN",
    )
    assert resolved.values["serve.max_batch_size"].source == f"config file {default_config()}"
    assert resolved.values["draft.k"].source == "preset demo"
    assert resolved.values["health.stall_s"].source == "default"


def test_every_setting_has_a_value_and_a_source() -> None:
    from appliance.stack.resolve import known_settings

    assert set(resolve("demo-baseline", [], {}).values) == set(known_settings())


def test_one_s_own_preset_file_works_like_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: Mine\nstack:\n  engine: llamacpp\n  target: {model: smollm2-135m-instruct}\n  serve: {name: x}\n"
    )
    resolved = resolve(str(path), [], {})
    assert resolved.stack.preset == "mine"
    assert resolved.values["engine"].source == f"preset file {path}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "not a mapping"),
        ("title: x\nstak: {}\n", "stak"),
        (
            "title: x\nstack: {engine: llamacpp, target: {model: m}, serve: {name: n, prot: 1}}\n",
            "serve.port",
        ),
        ("title: x\nstack: {engine: other, target: {model: m}, serve: {name: n}}\n", "engine"),
        ("title: x\nstack: {engine: llamacpp, serve: {name: n}}\n", "target"),
        (
            'title: x\nstack: {engine: llamacpp, target: {model: m}, serve: {name: n, port: "8000"}}\n',
            "serve.port",
        ),
    ],
)
def test_a_preset_file_with_a_fault_is_refused_with_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigFault) as caught:
        resolve(str(path), [], {})
    assert said in f"{caught.value.what} {caught.value.why} {caught.value.fix}"


def test_an_unknown_preset_fails_with_the_nearest_name() -> None:
    with pytest.raises(ConfigFault) as caught:
        resolve("demmo", [], {})
    assert "demo" in caught.value.fix


def test_no_spec_takes_the_preset_s_draft_away() -> None:
    resolved = resolve("demo", [], {}, no_spec=True)
    assert (resolved.stack.draft.method, resolved.stack.draft.model, resolved.stack.draft.k) == (
        "none",
        None,
        None,
    )
    assert resolved.values["draft.method"].source == "--no-spec"


def test_a_draft_without_a_method_or_a_method_without_a_draft_cannot_be() -> None:
    for pairs in (["draft.method=none", "draft.k=3"], ["draft.model=null"], ["draft.k=null"]):
        with pytest.raises(ConfigFault, match="do not make a stack"):
            resolve("demo", pairs, {})
    with pytest.raises(ConfigFault, match="do not make a stack"):
        resolve("demo-baseline", ["draft.k=3"], {})


@pytest.mark.parametrize("key", ["paths.models", "paths.state"])
@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_folder_setting_is_named(key: str, value: str) -> None:
    """Case 8, for each folder and each way of giving it."""
    variable = "SPARK_SPEC_" + key.replace(".", "_").upper()
    for pairs, environ in (([f"{key}={value}"], {}), ([], {variable: value})):
        with pytest.raises(ConfigFault, match="has an empty value"):
            resolve_machine(pairs, environ)
    default_config().parent.mkdir(parents=True)
    section, name = key.split(".")
    default_config().write_text(f'{section}: {{{name}: "{value}"}}\n')
    with pytest.raises(ConfigFault, match="has an empty value"):
        resolve_machine([], {})


def test_a_folder_must_be_absolute_and_may_begin_with_a_tilde() -> None:
    assert resolve_machine(["paths.models=~/x"], {}).paths.models == Path.home() / "x"
    with pytest.raises(ConfigFault, match=r"absolute|paths"):
        resolve_machine(["paths.models=x"], {})


def test_a_named_config_file_must_exist() -> None:
    with pytest.raises(ConfigFault, match="cannot read"):
        resolve("demo", [], {"SPARK_SPEC_CONFIG": "/nowhere/config.yaml"})
    with pytest.raises(ConfigFault, match="SPARK_SPEC_CONFIG is empty"):
        resolve("demo", [], {"SPARK_SPEC_CONFIG": ""})
