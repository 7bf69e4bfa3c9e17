"""From preset and settings to one stack: order, sources, and what cannot be."""

import os
from pathlib import Path

import pytest

from appliance.catalog.preset import names
from appliance.core.errors import ConfigFault
from appliance.core.paths import default_config
from appliance.stack.resolve import known_settings, resolve, resolve_machine


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
    known = known_settings()
    assert set(resolve("demo-baseline", [], {}).values) == {key for key in known if not known[key].open}


def test_one_s_own_preset_file_works_like_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: Mine\nstack:\n  engine: {name: llamacpp}\n"
        "  target: {model: smollm2-135m-instruct}\n  serve: {name: x}\n"
    )
    resolved = resolve(str(path), [], {})
    assert resolved.stack.preset == "mine"
    assert resolved.values["engine.name"].source == f"preset file {path}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "not a mapping"),
        ("title: x\nstak: {}\n", "stak"),
        (
            "title: x\nstack: {engine: {name: llamacpp}, target: {model: m}, serve: {name: n, prot: 1}}\n",
            "serve.port",
        ),
        ("title: x\nstack: {engine: {name: other}, target: {model: m}, serve: {name: n}}\n", "engine"),
        ("title: x\nstack: {engine: {name: llamacpp}, serve: {name: n}}\n", "target"),
        (
            'title: x\nstack: {engine: {name: llamacpp}, target: {model: m}, serve: {name: n, port: "8000"}}\n',
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


def test_no_spec_and_a_draft_of_one_s_own_collide() -> None:
    for pair in ("draft.k=2", "draft={k: 2}", "draft.model=x"):
        with pytest.raises(ConfigFault, match="collide"):
            resolve("demo", [pair], {}, no_spec=True)


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
    with pytest.raises(ConfigFault, match="config file cannot be"):
        resolve("demo", [], {"SPARK_SPEC_CONFIG": "~nosuchuser/config.yaml"})


def given(key: str, text: str, layer: str) -> None:
    """The demo with one key set in one layer; `text` may be what only an escape can write."""
    section, _, name = key.rpartition(".")
    quoted = '"' + "".join(f"\\U{ord(mark):08x}" for mark in text) + '"'
    line = f"{section}: {{{name}: {quoted}}}\n" if section else f"{name}: {quoted}\n"
    if layer == "file":
        default_config().parent.mkdir(parents=True, exist_ok=True)
        default_config().write_text(line)
    variable = "SPARK_SPEC_" + key.replace(".", "_").upper()
    resolve(
        "demo",
        [f"{key}={text}"] if layer == "set" else [],
        {variable: text} if layer == "environment" else {},
    )


@pytest.mark.parametrize("layer", ["file", "environment", "set"])
@pytest.mark.parametrize("key", list(known_settings()))
@pytest.mark.parametrize("mark", ["\x1b", "\n", "\0", "\x7f", "\u0085", "\ud800", "\ufffe", "\u202e"])
def test_no_setting_takes_what_cannot_be_shown(key: str, layer: str, mark: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        given(key, f"/a{mark}b", layer)
    told = f"{caught.value.what} {caught.value.why}"
    assert key in told
    assert told.isprintable()


def test_neither_a_preset_s_path_nor_its_words_nor_a_base_folder_take_what_cannot_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "stack: {engine: {name: llamacpp}, target: {model: m}, serve: {name: n}}\n"
    (tmp_path / "a\x1bb.yaml").write_text("title: x\n" + body)
    (tmp_path / "title.yaml").write_text('title: "a\\eb"\n' + body)
    (tmp_path / "about.yaml").write_text('title: x\nabout: "a\\nb\\ec"\n' + body)
    (tmp_path / "name.yaml").write_text("title: x\nname: other\n" + body)
    for path in ("a\x1bb.yaml", "title.yaml", "about.yaml", "name.yaml"):
        with pytest.raises(ConfigFault):
            resolve(str(tmp_path / path), [], {})
    monkeypatch.setenv("XDG_STATE_HOME", "/a\x1bb")
    with pytest.raises(ConfigFault) as caught:
        resolve("demo", [], {})
    assert "paths.state" in caught.value.why


@pytest.mark.parametrize("layer", ["file", "environment", "set"])
@pytest.mark.parametrize(
    ("key", "text"),
    [
        (key, text)
        for key in ("health.stall_s", "health.wedge_s")
        for text in ("inf", "nan", "0", "-1", "1e11")
    ]
    + [("llamacpp.threads", "1025"), ("serve.max_batch_size", "1025"), ("serve.max_seq_len", "10000001")],
)
def test_every_number_has_its_bounds(key: str, text: str, layer: str) -> None:
    environ, pairs = {}, []
    if layer == "file":
        section, _, name = key.partition(".")
        default_config().parent.mkdir(parents=True)
        written = f".{text}" if text in {"inf", "nan"} else text.replace("1e11", "1.0e+11")
        default_config().write_text(f"{section}: {{{name}: {written}}}\n")
    elif layer == "set":
        pairs = [f"{key}={text}"]
    else:
        environ = {"SPARK_SPEC_" + key.replace(".", "_").upper(): text}
    with pytest.raises(ConfigFault) as caught:
        resolve("demo", pairs, environ)
    assert key in f"{caught.value.what} {caught.value.why}"
    assert "valid number" not in caught.value.why


@pytest.mark.parametrize("key", ["image", "images.registry"])
@pytest.mark.parametrize(
    "text", ["-v", "--privileged", "a b", "A", "/a", "a//b", "a/", ".a", "a:", "a" * 600, "a/-b"]
)
def test_an_image_or_registry_is_only_what_can_be_one(key: str, text: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        resolve("demo", [f"{key}={text}"], {})
    assert "write " in caught.value.why


@pytest.mark.parametrize(
    ("key", "text"),
    [("image", "x"), ("image", "host.example:5000/a/b__c-d:V1.2_x@sha256:" + "0" * 64), ("image", "sha256:" + "a" * 64),
     ("image", "spark-spec/serve-llamacpp:2026.12"), ("images.registry", "localhost:5000"),
     ("images.registry", "ghcr.io/some-one/spark-spec"), ("images.registry", "10.0.0.1:5000/x")],
)  # fmt: skip
def test_an_image_or_registry_of_any_usual_form_is_taken(key: str, text: str) -> None:
    assert resolve("demo", [f"{key}={text}"], {}).values[key].value == text


def test_without_a_home_what_needs_one_is_named_and_what_does_not_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", "none")
    with pytest.raises(ConfigFault, match=r"paths\.models, paths\.state") as caught:
        resolve("demo", [], {})
    assert "--set paths.state=" in caught.value.fix
    assert resolve_machine(["paths.state=/s", "paths.models=/m"], {}).paths.state == Path("/s")


def test_a_home_that_nobody_has_is_a_fault() -> None:
    with pytest.raises(ConfigFault) as caught:
        resolve("demo", ["paths.models=~nosuchuser/x"], {})
    assert "paths.models" in f"{caught.value.what} {caught.value.why}"
    with pytest.raises(ConfigFault, match="preset file"):
        resolve("~nosuchuser/x.yaml", [], {})


def test_a_config_or_preset_that_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    for preset, environ in ((str(tmp_path / "x.yaml"), {}), ("demo", {"SPARK_SPEC_CONFIG": "/dev/zero"})):
        with pytest.raises(ConfigFault, match="cannot read"):
            resolve(preset, [], environ)
