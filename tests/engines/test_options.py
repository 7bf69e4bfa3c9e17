"""What is known of the engines' own settings, held against the facts it came from; and the judge over it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from packaging.version import Version

from appliance.catalog.lock import Lock, LockedEngine, write
from appliance.core.errors import ConfigFault
from appliance.engines.options import FOLDER, Known, around, judge, known, locked_options
from appliance.stack.check import check
from appliance.stack.resolve import resolve

FACTS = Path(__file__).resolve().parents[3] / "shared" / "facts"
with_facts = pytest.mark.skipif(not FACTS.is_dir(), reason="the facts are not beside the repository")

BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
RANGES = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def facts(name: str) -> Any:
    return json.loads((FACTS / name).read_text(encoding="utf-8"))


def document(engine: str, version: str) -> Any:
    return next(one.schema for one in known(engine) if one.version == version)


def judged(engine: str, version: str, options: dict[Any, Any]) -> tuple[str, ...]:
    return judge(engine, options, around(engine, Version(version)), version)


def refused(engine: str, version: str, options: dict[Any, Any]) -> tuple[str, str, str]:
    with pytest.raises(ConfigFault) as caught:
        judged(engine, version, options)
    assert caught.value.code == 3
    return caught.value.what, caught.value.why, caught.value.fix


# The data


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_document_is_a_schema_that_names_its_source_and_is_strict(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    engine, _, version = path.stem.partition("-")
    assert version in schema["$comment"]
    assert any(one.version == version for one in known(engine))
    loose = [
        node
        for node in _nodes(schema)
        if "properties" in node and node.get("additionalProperties") is not False
    ]
    assert not loose


def _nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _nodes(inner)


def test_the_versions_come_oldest_first() -> None:
    assert [one.version for one in known("trtllm")] == ["1.2.1", "1.4.0rc0"]
    assert [one.version for one in known("vllm")] == ["0.32.0", "0.33.0"]
    assert [one.version for one in known("sglang")] == ["0.5.23"]
    assert known("llamacpp") == ()


def _plain(node: Any, named: bool = False) -> Any:
    """Without prose; `named` where the keys are names of settings, not words of the schema."""
    if isinstance(node, dict):
        words = set() if named else {"$comment", "$schema", "title", "x-telemetry-allowed-values", "examples"}
        names = not named
        return {
            key: _plain(inner, names and key in ("properties", "$defs", "mapping"))
            for key, inner in node.items()
            if key not in words
        }
    return [_plain(inner) for inner in node] if isinstance(node, list) else node


@with_facts
def test_trtllm_1_4_says_what_the_facts_say_and_nothing_else() -> None:
    assert _plain(document("trtllm", "1.4.0rc0")) == _plain(facts("serve-config-1.4.json"))


def _types(schema: Any) -> set[str]:
    kinds = schema.get("type", [])
    found = {kinds} if isinstance(kinds, str) else set(kinds)
    return found.union(*(_types(one) for one in schema.get("anyOf", []))) | ({"object"} & {_mapping(schema)})


def _mapping(schema: Any) -> str:
    return "object" if "$ref" in schema or "oneOf" in schema else ""


@with_facts
def test_every_field_of_trtllm_1_2_1_is_there_and_no_other() -> None:
    raw = facts("decoding-1.2.1.json")
    schema = document("trtllm", "1.2.1")
    torch = raw["TorchLlmArgs"]
    _same_fields({**torch["base_fields"], **torch["torch_fields"]}, schema)
    base = raw["DecodingBaseConfig"]["fields"]
    classes = {name: one for name, one in raw.items() if isinstance(one, dict) and "fields" in one}
    del classes["DecodingBaseConfig"]
    assert set(classes) == set(schema["$defs"])
    for name, one in classes.items():
        _same_fields({**(base if "inherits" in one else {}), **one["fields"]}, schema["$defs"][name])


def _same_fields(fields: dict[str, Any], schema: Any) -> None:
    ours = schema["properties"]
    aliases = {field["alias"] for field in fields.values() if "alias" in field}
    assert set(fields) | aliases == set(ours) - {"decoding_type"}
    for name, field in fields.items():
        required = name in schema.get("required", [])
        if "type" in field and not required:
            assert _types(ours[name]) == _types(field), name
        for word in RANGES[1:]:
            assert field.get(word, ours[name].get(word)) == ours[name].get(word), (name, word)


@with_facts
def test_trtllm_1_2_1_spells_its_decoding_types_as_its_files_must() -> None:
    union = document("trtllm", "1.2.1")["properties"]["speculative_config"]["anyOf"][0]
    raw = facts("decoding-1.2.1.json")["decoding_type"]
    assert set(union["discriminator"]["mapping"]) == set(raw["from_dict_keys"]) - set(raw["not_pytorch"])


def _options(raw: Any) -> dict[str, Any]:
    """The facts' options by our name; what is no setting (--help, the positional model) left out."""
    every = [one for group in raw["options"].values() for one in group]
    return {_name(one): one for one in every if one.get("action") != "help" and "positional" not in one}


def _name(option: Any) -> str:
    flag: str = next(flag for flag in option["flags"] if flag.startswith("--"))
    return flag.removeprefix("--").replace("-", "_")


@with_facts
@pytest.mark.parametrize(
    ("engine", "version", "left_out"),
    [("vllm", "0.32.0", 2), ("sglang", "0.5.23", 1)],
    ids=["vllm", "sglang"],
)
def test_every_option_of_a_command_line_is_there(engine: str, version: str, left_out: int) -> None:
    raw = facts(f"{engine}-serve.json")
    properties = document(engine, version)["properties"]
    ours = {name: one for name, one in properties.items() if "x-alias-of" not in one}
    options = _options(raw)
    assert set(ours) == set(options)
    assert len(ours) + left_out == raw["counts"]["options"]
    for name, option in options.items():
        _same_option(name, option, ours[name])
    aliases = {name for name, one in properties.items() if "x-alias-of" in one}
    flags = [flag for option in options.values() for flag in option["flags"] if flag.startswith("--")]
    others = {flag[2:].replace("-", "_") for flag in flags if not flag.startswith("--no-")}
    assert aliases == others - set(ours)


def _same_option(name: str, option: Any, ours: Any) -> None:
    form = ours.get("x-argument")
    if option.get("action") in ("flag", "pair"):
        assert ("boolean" in _types(ours), form) == (True, option["action"]), name
    elif option.get("nargs") in ("+", "*") or option.get("action") == "append":
        assert "array" in _types(ours), name
        assert form == ("append" if option.get("action") == "append" else "many"), name
    elif "json" in option["type"]:
        assert {"object", "array"} & _types(ours), name
        assert "string" in _types(ours), name
        assert form == "json", name
    choices = [one for one in option.get("choices", []) if one is not None]
    enum = ours.get("items", ours).get("enum", [])
    assert [one for one in enum if one is not None] == choices, name
    bounds = {BOUNDS[word]: limit for word, limit in option.get("bounds", {}).items()}
    assert {word: ours[word] for word in RANGES[2:] if word in ours} == bounds, name


@with_facts
def test_vllms_json_options_are_known_field_by_field() -> None:
    raw = facts("vllm-serve.json")
    defs = dict(document("vllm", "0.32.0")["$defs"])
    assert set(defs.pop("SpeculativeConfig")["properties"]) == set(raw["speculative"]["fields"])
    assert {name: set(one["properties"]) for name, one in defs.items()} == {
        name: set(fields) for name, fields in raw["json_configs"].items()
    }
    assert len(defs) == raw["counts"]["json_config_classes"]
    assert sum(len(one["properties"]) for one in defs.values()) == raw["counts"]["json_config_fields"]


@with_facts
def test_vllm_0_33_is_0_32_with_its_changes() -> None:
    newer = facts("vllm-serve.json")["newer_0.33.0"]
    old, new = document("vllm", "0.32.0"), document("vllm", "0.33.0")
    added = {flags.split("/")[0][2:].replace("-", "_") for flags in newer["options_added"]}
    assert set(new["properties"]) - set(old["properties"]) == added
    assert set(old["properties"]) <= set(new["properties"])
    before, after = (one["$defs"]["SpeculativeConfig"]["properties"] for one in (old, new))
    assert set(after) - set(before) == set(newer["speculative_fields_added"])
    assert "fly" in after["rejection_sample_method"]["enum"]
    assert "medusa" in before["method"]["enum"]
    assert "medusa" not in after["method"]["enum"]


@pytest.mark.parametrize("engine", ["trtllm", "vllm", "sglang"])
def test_every_default_is_a_value_the_setting_takes(engine: str) -> None:
    for one in known(engine):
        for name, schema in _settings(one.schema):
            if "default" in schema:
                alone = {"properties": {name: schema}, "$defs": one.schema.get("$defs", {})}
                judge(engine, {name: schema["default"]}, [Known(engine, one.version, alone)], one.version)


def _settings(schema: Any) -> Iterator[tuple[str, Any]]:
    for node in _nodes(schema):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"].items()


# Which versions


@pytest.mark.parametrize(
    ("version", "versions"),
    [
        ("1.2.1", ["1.2.1"]),
        ("1.3.0rc12", ["1.2.1", "1.4.0rc0"]),
        ("1.4.0rc0", ["1.4.0rc0"]),
        ("1.0.0", ["1.2.1"]),
        ("1.4.0", ["1.4.0rc0"]),
        (None, ["1.4.0rc0"]),
    ],
)
def test_a_version_is_held_against_itself_or_its_neighbours(version: str | None, versions: list[str]) -> None:
    found = around("trtllm", Version(version) if version else None)
    assert [one.version for one in found] == versions


def test_of_an_engine_with_nothing_known_nothing_is_held_against() -> None:
    assert around("llamacpp", Version("1.0")) == ()


# Keys


@pytest.mark.parametrize(
    ("engine", "version", "options", "path", "near"),
    [
        ("trtllm", "1.4.0rc0", {"max_batchsize": 1}, "trtllm.max_batchsize", "max_batch_size"),
        ("trtllm", "1.2.1", {"kv_cache_config": {"enable_blok_reuse": 1}},
         "trtllm.kv_cache_config.enable_blok_reuse", "enable_block_reuse"),
        ("trtllm", "1.4.0rc0", {"kv_cache_config": {"kv_events_config": {"topik": ""}}},
         "trtllm.kv_cache_config.kv_events_config.topik", "topic"),
        ("trtllm", "1.4.0rc0", {"cuda_graph_config": {"extra_model_inputs": [{"nam": "x"}]}},
         "trtllm.cuda_graph_config.extra_model_inputs[0].nam", "name"),
        ("trtllm", "1.4.0rc0", {"multimodal_config": {"encoder_cuda_graph": {"x": {"bucket": []}}}},
         "trtllm.multimodal_config.encoder_cuda_graph.x.bucket", "buckets"),
        ("vllm", "0.33.0", {"compilation_config": {"pass_config": {"fuse_act_qunt": True}}},
         "vllm.compilation_config.pass_config.fuse_act_qunt", "fuse_act_quant"),
        ("vllm", "0.33.0", {"speculative_config": '{"methd": "eagle3"}'},
         "vllm.speculative_config.methd", "method"),
        ("vllm", "0.33.0", {"max-model-len": 1}, "vllm.max-model-len", "max_model_len"),
        ("sglang", "0.5.23", {"cuda_graph_config": {"decode": {"maxbs": 1}}},
         "sglang.cuda_graph_config.decode.maxbs", "max_bs"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_refused_at_any_depth(
    engine: str, version: str, options: dict[Any, Any], path: str, near: str
) -> None:
    what, why, fix = refused(engine, version, options)
    assert what == f"unknown setting {path}"
    assert why == f"no such setting is known to {engine} {version}"
    assert fix == f"Did you mean {near}?"


def test_a_key_unknown_to_both_neighbours_is_refused() -> None:
    assert refused("trtllm", "1.3.0rc12", {"kv_cache_config": {"enable_blok_reuse": False}}) == (
        "unknown setting trtllm.kv_cache_config.enable_blok_reuse",
        "no such setting is known to trtllm 1.2.1 or trtllm 1.4.0rc0 (the nearest known to version 1.3.0rc12)",
        "Did you mean enable_block_reuse?",
    )


def test_where_no_name_is_near_those_that_are_known_are_listed() -> None:
    _, _, fix = refused("trtllm", "1.2.1", {"attention_dp_config": {"zzz": 1}})
    assert fix == "leave it out; known there: batching_wait_iters, enable_balance, timeout_iters"


def test_a_key_known_to_one_neighbour_is_a_warning() -> None:
    options = {"kv_cache_config": {"onboard_blocks": True}, "print_iter_log": True}
    assert judged("trtllm", "1.3.0rc12", options) == (
        "trtllm.kv_cache_config.onboard_blocks is known by trtllm 1.2.1, not by trtllm 1.4.0rc0; "
        "whether 1.3.0rc12 takes it is not known",
    )
    assert judged("trtllm", "1.2.1", options) == ()


def test_a_key_only_one_neighbour_knows_is_still_judged_inside() -> None:
    what, _, _ = refused("trtllm", "1.3.0rc12", {"mx_config": {"server_ur": "x"}})
    assert what == "unknown setting trtllm.mx_config.server_ur"


def test_a_key_that_is_no_text_is_an_unknown_key() -> None:
    assert refused("trtllm", "1.4.0rc0", {1: 2})[0] == "unknown setting trtllm.1"


def test_a_deprecated_key_is_a_warning_with_what_replaces_it() -> None:
    assert judged("trtllm", "1.4.0rc0", {"backend": "pytorch"}) == (
        "trtllm.backend is deprecated in trtllm 1.4.0rc0",
    )
    assert judged("vllm", "0.33.0", {"log_config_file": "x"}) == (
        "vllm.log_config_file is deprecated in vllm 0.33.0; use logging_config.pylogging_config_file",
    )


def test_one_setting_under_two_names_is_refused() -> None:
    assert judged("sglang", "0.5.23", {"tensor_parallel_size": 2}) == ()
    assert refused("sglang", "0.5.23", {"tp_size": 2, "tensor_parallel_size": 2}) == (
        "sglang.tensor_parallel_size and sglang.tp_size are both given",
        "they are two names of one setting",
        "keep one of them",
    )


def test_free_form_mappings_take_anything() -> None:
    options = {"env_overrides": {"A": {"b": [1]}}, "model_kwargs": {"x": None}, "decoding_config": {"y": 1}}
    assert judged("trtllm", "1.4.0rc0", options) == ()
    assert judged("vllm", "0.33.0", {"additional_config": {"x": {"y": 1}}, "watchdog_config": {"z": 1}}) == ()


# Unions


def test_the_named_variant_decides_which_keys_are_known() -> None:
    eagle = {"decoding_type": "Eagle", "eagle3_one_model": True, "speculative_model_dir": "/m"}
    assert judged("trtllm", "1.2.1", {"speculative_config": eagle}) == ()
    what, _, _ = refused("trtllm", "1.2.1", {"speculative_config": eagle | {"decoding_type": "DraftTarget"}})
    assert what == "unknown setting trtllm.speculative_config.eagle3_one_model"


def test_without_a_named_variant_every_variants_keys_are_known() -> None:
    both = {"eagle3_model_arch": "llama3", "max_matching_ngram_size": 2}
    for version in ("1.2.1", "1.4.0rc0"):
        assert judged("trtllm", version, {"speculative_config": both}) == ()
    assert refused("trtllm", "1.4.0rc0", {"speculative_config": {"eagl3_model_arch": ""}})[2] == (
        "Did you mean eagle3_model_arch?"
    )


def test_an_unknown_variant_is_refused_with_those_there_are() -> None:
    assert refused("trtllm", "1.2.1", {"speculative_config": {"decoding_type": "Draft_Target"}}) == (
        "trtllm.speculative_config.decoding_type cannot be 'Draft_Target'",
        "trtllm 1.2.1: it must be one of Eagle, DraftTarget, NGram, MTP, SaveState, UserProvided, AUTO",
        "Did you mean DraftTarget?",
    )


def test_a_variant_only_one_neighbour_spells_so_is_a_warning() -> None:
    assert judged("trtllm", "1.3.0rc12", {"speculative_config": {"decoding_type": "Draft_Target"}}) == (
        "trtllm.speculative_config.decoding_type: 'Draft_Target' is taken by trtllm 1.4.0rc0, not by trtllm 1.2.1; "
        "whether 1.3.0rc12 takes it is not known",
    )


@pytest.mark.parametrize("name", ["speculative_config", "cuda_graph_config", "sparse_attention_config"])
def test_null_turns_off_what_may_be_null(name: str) -> None:
    assert judged("trtllm", "1.3.0rc12", {name: None}) == ()


# Values


@pytest.mark.parametrize(
    ("engine", "options", "what", "why", "fix"),
    [
        ("trtllm", {"kv_cache_config": {"free_gpu_memory_fraction": 1.5}},
         "trtllm.kv_cache_config.free_gpu_memory_fraction cannot be 1.5",
         "it must be a number, at least 0 and at most 1, or null", "give another value, or leave it out"),
        ("trtllm", {"stream_interval": 0}, "trtllm.stream_interval cannot be 0",
         "it must be a whole number, above 0", "give another value, or leave it out"),
        ("trtllm", {"tensor_parallel_size": "2"}, "trtllm.tensor_parallel_size cannot be '2'",
         "it must be a whole number", "give another value, or leave it out"),
        ("trtllm", {"tensor_parallel_size": True}, "trtllm.tensor_parallel_size cannot be True",
         "it must be a whole number", "give another value, or leave it out"),
        ("trtllm", {"print_iter_log": "yes"}, "trtllm.print_iter_log cannot be 'yes'",
         "it must be true or false", "give another value, or leave it out"),
        ("trtllm", {"print_iter_log": None}, "trtllm.print_iter_log cannot be None",
         "it must be true or false", "give another value, or leave it out"),
        ("trtllm", {"moe_config": [1]}, "trtllm.moe_config cannot be [1]",
         "it must be a mapping", "give another value, or leave it out"),
        ("trtllm", {"cuda_graph_config": {"batch_sizes": [1, "2"]}},
         "trtllm.cuda_graph_config.batch_sizes[1] cannot be '2'",
         "it must be a whole number", "give another value, or leave it out"),
        ("trtllm", {"guided_decoding_backend": "xgramar"}, "trtllm.guided_decoding_backend cannot be 'xgramar'",
         "it must be one of xgrammar, llguidance, or null", "Did you mean xgrammar?"),
        ("trtllm", {"nvfp4_gemm_config": {"allowed_backends": []}},
         "trtllm.nvfp4_gemm_config.allowed_backends cannot be []",
         "it must be a list of texts, at least 1 long", "give another value, or leave it out"),
        ("trtllm", {"speculative_config": {"decoding_type": "Eagle3", "eagle3_layers_to_capture": [1, 1]}},
         "trtllm.speculative_config.eagle3_layers_to_capture cannot be [1, 1]",
         "it must be a list of whole numbers without repeats, or null", "give another value, or leave it out"),
        ("vllm", {"gpu_memory_utilization": 0}, "vllm.gpu_memory_utilization cannot be 0",
         "it must be a number, above 0 and at most 1", "give another value, or leave it out"),
        ("vllm", {"max_model_len": "32q"}, "vllm.max_model_len cannot be '32q'",
         "it must be a whole number, at least -1, or text such as 4k, 1.5g, 2M, auto, or null",
         "give another value, or leave it out"),
        ("vllm", {"speculative_config": {"num_speculative_tokens": 0}},
         "vllm.speculative_config.num_speculative_tokens cannot be 0",
         "it must be a whole number, above 0", "give another value, or leave it out"),
        ("sglang", {"speculative_attention_mode": "prefil"}, "sglang.speculative_attention_mode cannot be 'prefil'",
         "it must be one of prefill, decode", "Did you mean prefill?"),
    ],
)  # fmt: skip
def test_a_value_is_refused_in_plain_words(
    engine: str, options: dict[Any, Any], what: str, why: str, fix: str
) -> None:
    newest = known(engine)[-1]
    assert refused(engine, newest.version, options) == (what, f"{newest}: {why}", fix)


def test_where_the_neighbours_differ_each_says_what_it_takes() -> None:
    _, why, _ = refused("trtllm", "1.3.0rc12", {"scheduler_config": {"context_chunking_policy": "x"}})
    assert why == (
        "trtllm 1.2.1: it must be one of FIRST_COME_FIRST_SERVED, EQUAL_PROGRESS, or null; "
        "trtllm 1.4.0rc0: it must be one of FIRST_COME_FIRST_SERVED, EQUAL_PROGRESS, FORCE_CHUNK, or null"
    )


def test_a_value_one_neighbour_takes_is_a_warning() -> None:
    assert judged("trtllm", "1.3.0rc12", {"moe_config": {"backend": "WIDEEP"}}) == (
        "trtllm.moe_config.backend: 'WIDEEP' is taken by trtllm 1.2.1, not by trtllm 1.4.0rc0; "
        "whether 1.3.0rc12 takes it is not known",
    )


def test_json_as_text_must_be_json() -> None:
    what, why, _ = refused("vllm", "0.33.0", {"speculative_config": "{method"})
    assert what == "vllm.speculative_config cannot be '{method'"
    assert why.startswith("it is not JSON: ")


@pytest.mark.parametrize("value", [32768, "32k", "1.5g", "auto", -1, None])
def test_vllm_takes_its_lengths_in_every_spelling(value: Any) -> None:
    assert judged("vllm", "0.33.0", {"max_model_len": value}) == ()


@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc12", "1.4.0rc0"])
def test_what_the_playbook_sets_passes_everywhere(version: str) -> None:
    options = {
        "enable_attention_dp": False,
        "disable_overlap_scheduler": True,
        "enable_autotuner": False,
        "print_iter_log": True,
        "cuda_graph_config": {"max_batch_size": 1},
        "kv_cache_config": {"enable_block_reuse": False, "free_gpu_memory_fraction": 0.9, "max_tokens": 8192},
        "speculative_config": {
            "decoding_type": "Eagle",
            "max_draft_len": 4,
            "speculative_model_dir": "/head",
            "draft_len_schedule": {1: 4},
        },
    }
    assert judged("trtllm", version, options) == ()


def test_what_is_missing_is_not_judged() -> None:
    part = {"speculative_config": {"decoding_type": "SaveState", "write_interval": 5}}
    assert judged("trtllm", "1.2.1", part) == ()


def test_a_hand_made_schema_is_judged_like_the_shipped_ones() -> None:
    own = Known("mine", "1", {"properties": {"a": {"$ref": "#/$defs/A"}}, "additionalProperties": False,
                              "$defs": {"A": {"type": "integer"}}})  # fmt: skip
    assert judge("mine", {"a": 1}, [own], "1") == ()
    with pytest.raises(ConfigFault):
        judge("mine", {"a": "1"}, [own], "1")


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of two engines, whose own words know one option each."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    only = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"new_option": {"type": "integer"}},
    }
    held = {
        "vllm:26.05.post1-py3": LockedEngine(version="0.30.1", image="x:1", options=only),
        "trtllm:1.3.0rc12": LockedEngine(version="1.3.0rc12", image="y:1", options=only),
    }
    write(Lock(engines=held))


@pytest.mark.usefixtures("lock")
def test_what_is_locked_of_a_version_decides_alone() -> None:
    (held,) = locked_options("vllm", "26.05.post1-py3")
    assert str(held) == "vllm 0.30.1"
    assert judge("vllm", {"new_option": 3}, (held,), "26.05.post1-py3") == ()
    with pytest.raises(ConfigFault) as caught:
        judge("vllm", {"max_num_seqs": 3}, (held,), "26.05.post1-py3")
    assert caught.value.why == "no such setting is known to vllm 0.30.1"
    assert locked_options("vllm", "0.32.0") == ()


@pytest.mark.usefixtures("lock")
@pytest.mark.parametrize(("preset", "engine"), [("eagle3", "trtllm"), ("eagle3-vllm", "vllm")])
def test_a_stack_is_held_against_what_is_locked(preset: str, engine: str) -> None:
    with pytest.raises(ConfigFault, match=f"unknown setting {engine}[.]"):
        check(resolve(preset, [], {}).stack)
