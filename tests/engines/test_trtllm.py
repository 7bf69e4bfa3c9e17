"""TensorRT-LLM's config and command line, by version: held against the facts, read raw."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from packaging.version import Version

from appliance import engines
from appliance.catalog.entries import load_entry
from appliance.catalog.preset import load, names
from appliance.core.errors import ConfigFault
from appliance.engines import trtllm_versions as versions
from appliance.engines.base import Launch, Pair
from appliance.engines.trtllm import CONFIG, ENGINE
from appliance.engines.trtllm_config import BARRED, OWNED
from appliance.stack.check import check, pair_of
from appliance.stack.render import render
from appliance.stack.resolve import resolve
from tests.conftest import Cli
from tests.engines.served import DRAFT_TARGET, EAGLE3, FACTS, GPT, PLACE, entry, stack, with_facts
from tests.golden import machine

TRTLLM = [name for name in names() if load(name).stack["engine"]["name"] == "trtllm"]
SPARK = [name for name in names() if load(name).stack["engine"]["name"] != "llamacpp"]
SPECULATING = [name for name in SPARK if "draft" in load(name).stack]
V1, V2 = "engine.version=1.2.1", "engine.version=1.4.0rc0"
TABLE = {
    "spark-single-gpu-dev": "DraftTarget",
    "1.1.0": "DraftTarget",
    "1.2.1": "DraftTarget",
    "1.3.0rc7": "Draft_Target",
    "1.3.0rc12": "Draft_Target",
    "1.4.0rc0": "Draft_Target",
}


def rendered(preset: str, *sets: str, no_spec: bool = False) -> dict[str, str]:
    made = resolve(preset, sets, {}, no_spec=no_spec).stack
    return dict(render(made, machine("docker"), preset).files)


def config(preset: str, *sets: str, no_spec: bool = False) -> dict[str, Any]:
    told = yaml.safe_load(rendered(preset, *sets, no_spec=no_spec)[f"engine/{CONFIG}"])
    assert isinstance(told, dict)
    return told


def argv(preset: str, *sets: str) -> list[str]:
    words = json.loads(rendered(preset, *sets)["engine/supervise.json"])["argv"]
    assert isinstance(words, list)
    return words


def warned(preset: str, *sets: str, no_spec: bool = False) -> str:
    return "\n".join(check(resolve(preset, sets, {}, no_spec=no_spec).stack))


def refused(preset: str, *sets: str) -> ConfigFault:
    """Refused with exit 3, why and a way out, by all that looks at a stack."""
    made = resolve(preset, sets, {}).stack
    with pytest.raises(ConfigFault) as caught:
        check(made)
    with pytest.raises(ConfigFault):
        render(made, machine("docker"), preset)
    assert caught.value.code == 3 and caught.value.why and caught.value.fix
    return caught.value


def launched(pair: Pair, **sections: Any) -> Launch:
    made = stack("trtllm", pair, **sections)
    ENGINE.check(made, pair)
    return ENGINE.launch(made, pair, PLACE)


# The config, held against the facts


def schema() -> Draft202012Validator:
    raw = json.loads((FACTS / "serve-config-1.4.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(raw)
    return Draft202012Validator(raw)


@with_facts
@pytest.mark.parametrize("sets", [(), (V2,)], ids=["its own version", "1.4.0rc0"])
@pytest.mark.parametrize("preset", ["eagle3", "draft-target", "eagle3-v3", "eagle3-70b", "head-default"])
def test_the_config_passes_the_schema_of_1_4(preset: str, sets: tuple[str, ...]) -> None:
    told = config(preset, *sets)
    assert [error.message for error in schema().iter_errors(told)] == []
    assert list(schema().iter_errors(told | {"max_batchsize": 1}))


def walk_1_2_1(told: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong in a config by the walk over 1.2.1's classes: keys, types, bounds, choices and decoding tags."""
    facts = json.loads((FACTS / "decoding-1.2.1.json").read_text(encoding="utf-8"))
    top = facts["TorchLlmArgs"]
    yield from _fields(facts, "", told, {**top["base_fields"], **top["torch_fields"]})


JSON_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,), "number": (int, float), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "array": (list,), "object": (dict,),
}  # fmt: skip


def _fields(facts: Any, path: str, told: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    by_alias = {one["alias"]: one for one in known.values() if "alias" in one}
    for key, value in told.items():
        here = f"{path}.{key}".removeprefix(".")
        field = by_alias.get(key) or known.get(key)
        if field is None:
            yield f"{here} is not known"
        elif here == "speculative_config":
            yield from _decoding(facts, value)
        else:
            yield from _value(facts, here, value, field)


def _value(facts: Any, here: str, value: Any, field: Mapping[str, Any]) -> Iterator[str]:
    types = field.get("type", [])
    types = [types] if isinstance(types, str) else types
    right = [name for name in types if isinstance(value, JSON_TYPES[name])]
    if types and (not right or (isinstance(value, bool) and "boolean" not in types)):
        yield f"{here} is {value!r}, not of type {types}"
    if "enum" in field and value not in field["enum"]:
        yield f"{here} is {value!r}, none of {field['enum']}"
    if isinstance(value, (int, float)) and not (
        field.get("minimum", value) <= value <= field.get("maximum", value)
    ):
        yield f"{here} is {value}, out of bounds"
    if isinstance(value, dict) and (inner := facts.get(field.get("class", ""))):
        yield from _fields(facts, here, value, inner["fields"])


def _decoding(facts: Any, told: Mapping[str, Any]) -> Iterator[str]:
    tag = told["decoding_type"]
    if tag not in facts["decoding_type"]["from_dict_keys"]:
        yield f"Invalid decoding type: {tag}"
        return
    kind = next(
        one for one in facts.values() if isinstance(one, dict) and one.get("decoding_type_in_yaml") == tag
    )
    fields = {**facts["DecodingBaseConfig"]["fields"], **kind["fields"]}
    rest = {key: value for key, value in told.items() if key != "decoding_type"}
    yield from _fields(facts, "decoding", rest, fields)


@with_facts
@pytest.mark.parametrize("preset", ["eagle3", "draft-target", "eagle3-v3", "eagle3-baseline"])
def test_the_config_for_1_2_1_agrees_with_its_classes(preset: str) -> None:
    assert list(walk_1_2_1(config(preset, V1))) == []


@with_facts
def test_the_walk_over_1_2_1_bites() -> None:
    told = config("draft-target", V1)
    spoiled = told | {
        "max_batchsize": 1,
        "disable_overlap_scheduler": "yes",
        "kv_cache_config": {"max_token": 1, "free_gpu_memory_fraction": 2},
        "speculative_config": told["speculative_config"] | {"max_draft_len": True, "greedy_sampling": True},
    }
    assert len(list(walk_1_2_1(spoiled))) == 6
    renamed = told["speculative_config"] | {"decoding_type": "Draft_Target"}
    assert list(walk_1_2_1(told | {"speculative_config": renamed})) == ["Invalid decoding type: Draft_Target"]


@with_facts
@pytest.mark.parametrize("preset", TRTLLM)
def test_every_option_of_the_command_line_is_a_real_one(preset: str) -> None:
    raw = json.loads((FACTS / "serve-cli.json").read_text(encoding="utf-8"))["commands"]["serve"]
    known = {flag for one in raw.values() for flag in one["flags"]}
    used = {word for word in argv(preset) if word.startswith("-")}
    assert used and used <= known


# Spellings, by version


@pytest.mark.parametrize(("version", "tag"), TABLE.items())
def test_draft_target_is_spelled_as_the_version_has_it(version: str, tag: str) -> None:
    """Case 40."""
    made = config("draft-target", f"engine.version={version}")["speculative_config"]
    assert made["decoding_type"] == tag


@pytest.mark.parametrize("version", [f"1.3.0rc{n}" for n in range(7)])
def test_where_its_spelling_is_not_known_draft_target_is_refused(version: str) -> None:
    """Case 40."""
    fault = refused("draft-target", f"engine.version={version}")
    assert "cannot be written" in fault.what and "1.2.1" in fault.fix and versions.DEFAULT in fault.fix


@pytest.mark.parametrize("version", [*TABLE, "1.0.0", "1.3.0rc3", "1.3.0rc6", "1.4.0"])
def test_eagle_is_spelled_alike_in_all_versions(version: str) -> None:
    told = config("eagle3", f"engine.version={version}")["speculative_config"]
    assert (told["decoding_type"], "speculative_model" in told) == ("Eagle", False)
    assert told["speculative_model_dir"].endswith("/nvidia/gpt-oss-120b-Eagle3-long-context")


def test_sampling_is_switched_on_where_the_version_has_the_switch_and_told_where_it_cannot_be() -> None:
    greedy = "answers greedily when it speculates"
    for version, switched in (("1.1.0", None), ("1.2.0", None), ("1.2.1", True), ("1.3.0rc12", True),
                              ("1.4.0rc0", None), ("1.4.0", None)):  # fmt: skip
        for preset in ("eagle3", "draft-target"):
            one = f"engine.version={version}"
            assert config(preset, one)["speculative_config"].get("allow_advanced_sampling") is switched
            assert (greedy in warned(preset, one)) == (version < "1.2.1")
            assert greedy not in warned(f"{preset}-baseline", one)


@pytest.mark.parametrize(
    ("version", "preset", "why"),
    [
        ("1.2.0rc0", "eagle3", "#8474"),
        ("1.2.0rc8", "eagle3", "#11313"),
        ("1.3.0rc2", "eagle3-baseline", "#11313"),
        ("1.3.0rc15", "eagle3", "#14500"),
        ("1.3.0rc15", "draft-target", "#14500"),
    ],
)
def test_a_version_known_to_fail_is_refused_with_reason_and_way_out(
    version: str, preset: str, why: str
) -> None:
    fault = refused(preset, f"engine.version={version}")
    assert why in fault.why and versions.DEFAULT in fault.fix


def test_a_version_that_fails_with_gpt_oss_serves_others() -> None:
    for version in ("1.2.0rc0", "1.2.0rc8"):
        assert config("draft-target", f"engine.version={version}")


@pytest.mark.parametrize(("version", "said"), [("latest", "is no version"), ("0.21.0", "cannot be used")])
def test_what_is_no_version_or_before_the_first_is_refused(version: str, said: str) -> None:
    fault = refused("eagle3", f"engine.version={version}")
    assert said in fault.what and versions.DEFAULT in fault.fix


# K, and each value in one place


@pytest.mark.parametrize(("preset", "of"), [("eagle3", "5"), ("draft-target", "4")])
def test_k_changes_everywhere_it_stands(preset: str, of: str) -> None:
    before, after = rendered(preset), rendered(preset, "draft.k=3")
    name = f"engine/{CONFIG}"
    assert before[name].count(f"max_draft_len: {of}\n") == 1
    assert after[name] == before[name].replace(f"max_draft_len: {of}\n", "max_draft_len: 3\n")
    kept = (json.loads(files["manifest.json"])["stack"] for files in (before, after))
    one, other = ({**tree, "draft": {**tree["draft"]}} for tree in kept)
    assert (one["draft"].pop("k"), other["draft"].pop("k")) == (int(of), 3)
    assert one == other
    digest = [json.loads(files["manifest.json"])["digest"] for files in (before, after)]
    for path in ("compose.yaml", "engine/supervise.json"):  # they say K nowhere, but to whom they belong
        assert before[path].replace(*digest) == after[path]


FRACTION = "trtllm.kv_cache_config.free_gpu_memory_fraction"


def test_a_kv_fraction_of_preset_and_set_is_one_value_in_the_config_and_never_on_the_command_line() -> None:
    """Case 41."""
    assert config("eagle3-original")["kv_cache_config"]["free_gpu_memory_fraction"] == 0.95
    text = rendered("eagle3-original", f"{FRACTION}=0.8")
    assert text[f"engine/{CONFIG}"].count("free_gpu_memory_fraction: 0.8\n") == 1
    assert "0.95" not in text[f"engine/{CONFIG}"]
    assert not any("fraction" in word for word in json.loads(text["engine/supervise.json"])["argv"])
    both = config("eagle3", f"{FRACTION}=0.8")["kv_cache_config"]
    assert both == {"enable_block_reuse": False, "max_tokens": 36864, "free_gpu_memory_fraction": 0.8}


@pytest.mark.parametrize("preset", TRTLLM)
def test_no_value_of_the_config_is_on_the_command_line_too(preset: str) -> None:
    words = argv(preset)
    options = {word.removeprefix("--") for word in words if word.startswith("--")}
    assert options <= {"backend", "tokenizer", "host", "port", "served_model_name", "extra_llm_api_options"}
    keys = set(config(preset))
    assert not options & keys
    assert words.count("--extra_llm_api_options") == 1
    assert words[-2:] == ["--extra_llm_api_options", f"/etc/spark-spec/{CONFIG}"]


@pytest.mark.parametrize(("path", "ours"), [*OWNED.items(), *dict.fromkeys(BARRED).items()])
def test_what_the_stack_says_itself_is_refused_in_the_section(path: str, ours: str | None) -> None:
    fault = refused("eagle3", f"trtllm.{path}=1")
    assert fault.what == f"trtllm.{path} cannot be set"
    assert fault.fix == (f"set {ours} instead" if ours else "leave it out")


@pytest.mark.parametrize("section", ["speculative_config", "kv_cache_config"])
@pytest.mark.parametrize("value", ["null", "[]", "x"])
def test_a_section_the_stack_has_keys_in_is_not_taken_away(section: str, value: str) -> None:
    assert "cannot be" in refused("eagle3", f"trtllm.{section}={value}").what


# The open section


@pytest.mark.parametrize(
    ("pair", "near"),
    [
        ("trtllm.max_num_token=1", "max_num_tokens"),
        ("trtllm.kv_cache_config.max_token=1", "max_tokens"),
        ("trtllm.kv_cache_config={max_token: 1}", "max_tokens"),
        ("trtllm.speculative_config.eagle3_model_arc=llama3", "eagle3_model_arch"),
        (
            "trtllm.scheduler_config.dynamic_batch_config.enable_batch_size_tunin=true",
            "enable_batch_size_tuning",
        ),
    ],
)
@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc12", "1.4.0rc0"])
def test_an_unknown_key_at_any_depth_is_refused_with_the_nearest_name(
    version: str, pair: str, near: str
) -> None:
    fault = refused("eagle3", pair, f"engine.version={version}")
    assert fault.what.startswith("unknown setting trtllm.") and fault.fix == f"Did you mean {near}?"


@pytest.mark.parametrize(
    ("preset", "key"),
    [
        ("eagle3", "max_matching_ngram_size=2"),
        ("draft-target", "max_matching_ngram_size=2"),
        ("draft-target", "eagle3_one_model=true"),
    ],
)
@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc12", "1.4.0rc0"])
def test_a_key_of_another_way_to_draft_is_unknown(version: str, preset: str, key: str) -> None:
    fault = refused(preset, f"trtllm.speculative_config.{key}", f"engine.version={version}")
    assert "unknown setting trtllm.speculative_config." in fault.what


def test_at_the_command_line_it_is_exit_3_in_three_lines(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cli("render", "eagle3", "-o", str(out), "--set", "trtllm.kv_cache_config.max_token=1")
    assert done.returncode == 3 and not out.exists() and done.stdout == ""
    assert "unknown setting trtllm.kv_cache_config.max_token" in done.stderr
    assert "Did you mean max_tokens?" in done.stderr and "Traceback" not in done.stderr


def test_every_other_key_is_reachable_and_ends_beside_ours() -> None:
    told = config("eagle3", "trtllm.speculative_config.eagle3_model_arch=llama3", "trtllm.moe_config.backend=TRITON",
                  "trtllm.cuda_graph_config=null", "trtllm.max_num_tokens=16384")  # fmt: skip
    assert told["speculative_config"]["eagle3_model_arch"] == "llama3"
    assert told["speculative_config"]["max_draft_len"] == 5
    assert told["moe_config"] == {"backend": "TRITON"}
    assert told["cuda_graph_config"] is None and told["max_num_tokens"] == 16384


def test_a_key_that_only_a_neighbour_knows_is_a_warning() -> None:
    assert "whether 1.3.0rc12 takes it is not known" in warned("eagle3", "trtllm.sleep_config={}")
    fault = refused("eagle3", V1, "trtllm.sleep_config={}")
    assert "unknown setting trtllm.sleep_config" in fault.what


def test_a_value_out_of_bounds_is_refused() -> None:
    assert FRACTION in refused("eagle3", f"{FRACTION}=1.5").what


# What is always so


@pytest.mark.parametrize("preset", TRTLLM)
def test_statistics_are_on_telemetry_off_and_nothing_is_fetched(preset: str) -> None:
    plan = json.loads(rendered(preset)["engine/supervise.json"])
    assert config(preset)["enable_iter_perf_stats"] is True
    assert plan["counters"]["path"] == "/metrics" and plan["counters"]["format"] == "iterations"
    off = {"TRTLLM_NO_USAGE_STATS", "TELEMETRY_DISABLED", "DO_NOT_TRACK"}
    offline = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}
    assert {name: plan["env"].get(name) for name in off | offline} == dict.fromkeys(off | offline, "1")
    assert plan["env"]["HF_HUB_CACHE"] == "/var/lib/spark-spec/hub"
    gpt_oss = "openai/gpt-oss-120b" in plan["argv"]
    assert (plan["env"].get("TIKTOKEN_ENCODINGS_BASE") == "/harmony") == gpt_oss == bool(plan["files"])
    assert plan["argv"][plan["argv"].index("--host") + 1] == "0.0.0.0"
    assert plan["chat_path"] == "/v1/chat/completions"


def test_the_tokenizer_is_named_by_its_folder_because_by_a_repository_s_name_its_loader_asks_the_hub() -> (
    None
):
    words = argv("eagle3")
    assert words[words.index("--tokenizer") + 1] == "/var/lib/spark-spec/models/openai/gpt-oss-120b"


def test_a_prompt_of_full_length_fits_one_step() -> None:
    assert config("eagle3")["max_num_tokens"] == config("eagle3")["max_seq_len"] == 32768
    assert "max_num_tokens" not in config("draft-target")
    assert "max_seq_len" not in config("eagle3-original")


# The public name


@pytest.mark.parametrize("version", TABLE)
def test_the_model_s_own_name_is_public_in_every_version_because_it_is_what_is_served(version: str) -> None:
    words = argv("draft-target", f"engine.version={version}")
    assert words[:2] == ["trtllm-serve", "nvidia/Llama-3.3-70B-Instruct-FP4"]
    assert "--served_model_name" not in words


def test_another_name_needs_a_version_that_has_an_option_for_it() -> None:
    words = argv("eagle3", "serve.name=house-model", V2)
    assert words[words.index("--served_model_name") + 1] == "house-model"
    assert words[1] == "openai/gpt-oss-120b"
    fault = refused("eagle3", "serve.name=house-model")
    assert "serve.name" in fault.what and "1.4.0rc0" in fault.fix and "openai/gpt-oss-120b" in fault.fix


# Heads


def test_the_v3_head_is_told_its_own_layers_and_no_others() -> None:
    """Case 19."""
    right = config("eagle3-v3")["speculative_config"]["eagle3_layers_to_capture"]
    assert right == list((load_entry("gpt-oss-120b-eagle3-v3").head or pytest.fail()).layers["trtllm"])
    assert right == [23, 29, 35]
    key = "trtllm.speculative_config.eagle3_layers_to_capture"
    for wrong in ("[-1]", "[24, 30, 36]", "-1"):
        fault = refused("eagle3-v3", f"{key}={wrong}")
        assert "[23, 29, 35]" in fault.why and "leave the key out" in fault.fix
    assert config("eagle3-v3", f"{key}=[35, 23, 29]")


def test_a_head_that_says_its_layers_itself_is_told_none() -> None:
    assert "eagle3_layers_to_capture" not in config("eagle3")["speculative_config"]


def test_the_one_token_head_drafts_no_three() -> None:
    """Case 19."""
    fault = refused("eagle3", "draft.model=gpt-oss-120b-eagle3-throughput", "draft.k=3")
    assert "at most 1" in fault.why and "draft.k=1" in fault.fix
    assert config("eagle3", "draft.model=gpt-oss-120b-eagle3-throughput", "draft.k=1")


# What does not go together


def test_guided_decoding_and_speculation_are_refused_together_until_the_crash_ends() -> None:
    fault = refused("eagle3", "trtllm.guided_decoding_backend=xgrammar")
    assert "#15022" in fault.why and "--no-spec" in fault.fix
    assert config("eagle3-baseline", "trtllm.guided_decoding_backend=xgrammar")
    assert config("eagle3", "trtllm.guided_decoding_backend=xgrammar", V2)


def test_a_pipeline_and_speculation_are_refused_together() -> None:
    assert "pipeline" in refused("eagle3", "trtllm.pipeline_parallel_size=2").why
    assert config("eagle3", "trtllm.pipeline_parallel_size=1")


# Warnings


def test_the_presets_for_today_warn_only_of_what_nobody_can_mend() -> None:
    for preset in ("eagle3", "eagle3-v3"):
        told = [line for line in warned(preset).splitlines() if "no revision is pinned" not in line]
        assert len(told) == 1 and "#16377" in told[0]
    for preset in ("draft-target", "eagle3-baseline", "draft-target-baseline"):
        assert [line for line in warned(preset).splitlines() if "no revision" not in line] == []


@pytest.mark.parametrize(
    ("preset", "sets", "said"),
    [
        ("eagle3-original", (), "#2773"),
        ("eagle3", ("trtllm.kv_cache_config.host_cache_size=1000",), "#15793"),
        ("eagle3", ("trtllm.kv_cache_config.enable_block_reuse=true",), "#18280"),
        ("eagle3", ("trtllm.cuda_graph_config.enable_padding=true",), "#15708"),
        ("eagle3", (), "#16377"),
        ("eagle3", ("engine.version=1.3.0rc20",), "enable_autotuner=false"),
        ("eagle3", ("engine.version=1.3.0rc26",), "out of memory at the start"),
        ("eagle3", ("engine.version=1.9.0",), "newer than what is known"),
        ("eagle3", (), "no revision is pinned for openai/gpt-oss-120b and nvidia/"),
        ("eagle3", ("draft.model=redhatai-gpt-oss-120b-eagle3", "draft.k=2"), "not for trtllm"),
    ],
)
def test_what_is_known_against_a_stack_is_told(preset: str, sets: tuple[str, ...], said: str) -> None:
    assert said in warned(preset, *sets)


def test_a_cap_by_bytes_is_a_cap() -> None:
    assert "#2773" not in warned("eagle3-original", "trtllm.kv_cache_config.max_gpu_total_bytes=4000000000")


# Without speculation


@pytest.mark.parametrize("preset", [name for name in TRTLLM if name.endswith("-baseline")])
def test_a_baseline_says_nothing_of_speculation(preset: str) -> None:
    assert "speculative" not in rendered(preset)[f"engine/{CONFIG}"]


@pytest.mark.parametrize("preset", SPECULATING)
def test_no_spec_leaves_no_trace_of_the_draft(preset: str) -> None:
    pair = pair_of(resolve(preset, [], {}).stack)
    assert pair.draft
    repo = str(pair.draft.source.model_dump()["repo"])
    marks = (repo, repo.replace("/", "--"), "speculative", "draft")

    def traces(files: dict[str, str]) -> set[str]:
        """The marks in all that the engine is told, given and mounted; the stack's own name may hold one."""
        plan = json.loads(files["engine/supervise.json"])
        told = [json.dumps({key: plan[key] for key in ("argv", "env", "snapshots", "files")})]
        told += [
            text for path, text in files.items() if path.startswith("engine/") and "supervise" not in path
        ]
        told.append(json.dumps(yaml.safe_load(files["compose.yaml"])["services"]["engine"]["volumes"]))
        return {mark for mark in marks if any(mark in text for text in told)}

    assert {repo, repo.replace("/", "--"), "speculative"} <= traces(rendered(preset))
    files = rendered(preset, no_spec=True)
    assert traces(files) == set()
    manifest = json.loads(files["manifest.json"])
    assert [one["id"] for one in manifest["models"]] == [pair.target.id]
    assert manifest["stack"]["draft"] == {"method": "none", "model": None, "k": None}


def test_a_preset_s_speculative_keys_go_with_the_draft(tmp_path: Path) -> None:
    tree = dict(load("eagle3-v3").stack)
    tree["trtllm"] = tree["trtllm"] | {"speculative_config": {"eagle3_model_arch": "llama3"}}
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"title": "Own", "about": "Own.", "stack": tree}))
    assert config(str(own))["speculative_config"]["eagle3_model_arch"] == "llama3"
    assert "speculative_config" not in config(str(own), no_spec=True)


# Deaths and phases

HEALTHY = """
[TensorRT-LLM] TensorRT-LLM version: 1.3.0rc12
UserWarning: transformers version 4.57.1 is incompatible with nvidia-modelopt and may cause issues.
[12/01/2026-04:20:04] [TRT-LLM] [I] Using LLM with PyTorch backend
[12/01/2026-04:20:04] [TRT-LLM] [I] Set nccl_plugin to None.
rank 0 using MpiPoolSession to spawn MPI processes
[12/01/2026-04:20:16] [TRT-LLM] [W] Worker process 118 has constrained CPU affinity; removing CPU affinity constraints.
[TensorRT-LLM][INFO] Refreshed the MPI local session
  "max_position_embeddings": 131072,
[12/01/2026-04:20:19] [TRT-LLM] [I] Validating KV Cache config against kv_cache_dtype="auto"
[12/01/2026-04:20:19] [TRT-LLM] [I] KV cache quantization set to "auto". Using checkpoint KV quantization.
[12/01/2026-04:20:21] [TRT-LLM] [I] Use 63.32 GB for model weights.
Loading safetensors weights in parallel: 100%|██████████| 15/15 [00:00<00:00, 81.92it/s]
Loading weights:   0%|          | 0/1288 [00:00<?, ?it/s]
Loading weights:  12%|█▏        | 155/1288 [00:09<01:05, 17.29it/s]
Model init total -- 49.14s
[12/01/2026-04:21:09] [TRT-LLM] [I] Using Sampler: TorchSampler
[12/01/2026-04:21:10] [TRT-LLM] [W] Attention window size 131072 exceeds upper bound 8640 for available blocks.
[12/01/2026-04:21:10] [TRT-LLM] [W] Both free_gpu_memory_fraction and max_tokens are set. The smaller is used.
[TensorRT-LLM][INFO] Number of tokens per block: 32.
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8640).
[12/01/2026-04:21:10] [TRT-LLM] [I] max_seq_len=8640, max_num_requests=64, max_num_tokens=8640, max_batch_size=1
[12/01/2026-04:21:10] [TRT-LLM] [I] [Autotuner] Autotuning process starts ...
2026-12-01 04:21:17,836 - INFO - flashinfer.jit: Loading JIT ops: norm
[TensorRT-LLM][WARNING] Attention workspace size is not enough, increase the size from 0 bytes to 100738816 bytes
[12/01/2026-04:21:37] [TRT-LLM] [I] [Autotuner] Cache size after warmup is 28
[12/01/2026-04:21:37] [TRT-LLM] [I] [Autotuner] Autotuning process ends
[12/01/2026-04:21:37] [TRT-LLM] [I] Creating CUDA graph instances for 1 batch sizes.
[12/01/2026-04:21:38] [TRT-LLM] [I] Run generation-only CUDA graph warmup for batch size=1, draft_len=5
[12/01/2026-04:21:50] [TRT-LLM] [I] Memory used after loading model weights (inside torch): 63.52 GiB
[12/01/2026-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB
[12/01/2026-04:21:57] [TRT-LLM] [I] Setting PyTorch memory fraction to 0.5983721838660735 (71.62367630004883 GiB)
[12/01/2026-04:21:57] [TRT-LLM] [W] insufficient GPU memory for CUDA graphs, capturing fewer batch sizes
NVRM: nvCheckOkFailedNoLog: Check failed: NV_ERR_NO_MEMORY
INFO:     Started server process [41]
INFO:     Application startup complete.
INFO:     127.0.0.1:46510 - "GET /v1/models HTTP/1.1" 200 OK
INFO:     127.0.0.1:46512 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request
""".strip().splitlines()
DYING = {
    "stopped to save the machine: 3.0 GiB of memory were left, the floor is 4.0 GiB": "running out",
    "RuntimeError: Failed to bind socket to 0.0.0.0:8000: [Errno 98] Address already in use": "the port is taken",
    "  Extra inputs are not permitted [type=extra_forbidden, input_value=1, input_type=int]": "does not know a key",
    "ValueError: Invalid decoding type: Draft_Target": "of another version",
    "  Input tag 'DraftTarget' found using 'decoding_type' does not match any of the expected tags": "another version",
    "Error: No such option: --served_model_name": "does not know an option",
    "pydantic_core._pydantic_core.ValidationError: 2 validation errors for TorchLlmArgs": "refuses a value",
    "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder": "not whole",
    "OSError: We couldn't connect to the Hub to load this file, and offline mode is on": "not whole",
    "could not be started: /hub/models--a--b has no snapshot 0123": "not whole",
    "could not be started: /hub/models--a--b has no refs/main: no whole download is in it": "not whole",
    "openai_harmony.HarmonyError: error downloading or loading vocab file": "harmony vocabulary",
    "could not be started: /harmony/o200k_base.tiktoken is not there: a vocabulary of the harmony format": "harmony",
    "could not be started: /harmony/a is not a vocabulary of the harmony format: its sha256 is 0": "harmony",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x5760 and 8640x2880)": "other layers",
    "RuntimeError: The size of tensor a (5760) must match the size of tensor b (8640)": "other layers",
    "AssertionError: prompt is longer than max_position_embeddings of the draft": "longer than the draft",
    "[spark:00041] Signal: Illegal instruction (4)": "an instruction that a GB10 lacks",
    "killed by SIGILL while loading weights 3/15": "an instruction that a GB10 lacks",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "not built for",
    "exec /usr/bin/python3: exec format error": "not built for",
    "RuntimeError: cudaMemGetInfo failed": "not enough memory",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.": "not enough memory",
    "killed by SIGKILL while loading weights 700/1288": "not enough memory",
    "mpirun noticed that process rank 0 exited on signal 9 (Killed).": "not enough memory",
    "!!!!!!! Segfault encountered !!!!!!!": "crashed in its own code",
    "killed by SIGSEGV while capturing CUDA graphs": "crashed in its own code",
    "PermissionError: [Errno 13] Permission denied: '/root/.cache'": "may not write or read",
    "RuntimeError: CUDA driver version is insufficient for CUDA runtime version": "no GPU in its container",
    "ImportError: libcuda.so.1: cannot open shared object file": "no GPU in its container",
}  # fmt: skip


@pytest.mark.parametrize("line", DYING)
def test_a_known_death_is_told_apart(line: str) -> None:
    death = engines.diagnose([*HEALTHY, line], ENGINE.deaths)
    assert death and DYING[line] in death.why and death.fix


def test_no_line_of_a_healthy_start_is_a_death_and_every_death_is_known_by_a_line() -> None:
    assert engines.diagnose(HEALTHY, ENGINE.deaths) is None
    assert {engines.diagnose([line], ENGINE.deaths) for line in DYING} == set(ENGINE.deaths)


def test_a_healthy_start_goes_through_the_phases() -> None:
    seen: list[str] = []
    for line in HEALTHY:
        found = ((re.search(phase.pattern, line), phase.phase) for phase in ENGINE.phases)
        told = next((match.expand(text) for match, text in found if match), None)
        if told and told not in seen[-1:]:
            seen.append(told)
    assert seen == [
        *("reading weight files 15/15", "loading weights 0/1288", "loading weights 155/1288"),
        *("allocating the KV cache", "autotuning", "capturing CUDA graphs", "listening"),
    ]


@pytest.mark.parametrize(
    "line", ["Loading weights 0/1288", "Loading Weights: 3/15", "loading weights  7% 3/15"]
)
def test_a_count_of_weights_is_read_in_whatever_way_it_is_written(line: str) -> None:
    assert any(re.search(phase.pattern, line) for phase in ENGINE.phases)


# Models of one's own


def test_a_stack_of_one_s_own_models_is_launched_alike() -> None:
    told = yaml.safe_load(launched(EAGLE3).files[CONFIG])
    assert told["speculative_config"] == {
        "decoding_type": "Eagle",
        "max_draft_len": 3,
        "speculative_model_dir": "/d",
        "allow_advanced_sampling": True,
    }
    assert told["kv_cache_config"] == {"enable_block_reuse": False}  # off unless it is asked for
    reused = launched(EAGLE3, trtllm={"kv_cache_config": {"enable_block_reuse": True}})
    assert yaml.safe_load(reused.files[CONFIG])["kv_cache_config"] == {"enable_block_reuse": True}
    assert launched(DRAFT_TARGET).argv[1] == "nvidia/Llama-3.3-70B-Instruct-FP4"
    other = Pair(entry("someone/Other-1B"), None)
    assert "TIKTOKEN_ENCODINGS_BASE" not in launched(other).env
    assert launched(EAGLE3).argv[1] == GPT


@pytest.mark.parametrize(
    ("text", "right"),
    [("1.3", "1.3.0"), ("v1.2.1", "1.2.1"), ("1.3.0RC12", "1.3.0rc12"), ("1.3.0-rc12", "1.3.0rc12")],
)
def test_a_version_is_written_as_its_image_is_tagged(text: str, right: str) -> None:
    assert refused("eagle3", f"engine.version={text}").fix == f"write {right}"


def test_a_cache_smaller_than_one_request_is_told_and_one_of_no_size_refused() -> None:
    assert "will never fit" in warned("eagle3", "serve.max_seq_len=131072")
    assert "the smaller one counts" in warned("eagle3", f"{FRACTION}=0.8")
    assert "cannot be -5" in refused("eagle3", "trtllm.kv_cache_config.max_tokens=-5").what


@pytest.mark.parametrize("layers", ["null", "[-1]", "[0,16,31]"])
@pytest.mark.parametrize("preset", ["eagle3", "eagle3-v3"])
def test_layers_other_than_the_head_s_own_are_refused_however_they_are_said(preset: str, layers: str) -> None:
    """Case 19's kind: also taken away, and for a head whose checkpoint says them."""
    fault = refused(preset, f"trtllm.speculative_config.eagle3_layers_to_capture={layers}")
    assert "eagle3_layers_to_capture cannot be" in fault.what


@pytest.mark.parametrize(
    "pair",
    [
        "trtllm.speculative_config.use_dynamic_tree=true",
        "trtllm.sampler_type=TRTLLMSampler",
        "trtllm.cp_config={cp_type: HELIX}",
        "trtllm.pp_size=2",
        "trtllm.pipeline_parallel_size=2",
        "trtllm.context_parallel_size=2",
        "trtllm.cuda_graph_config.batch_sizes=[1, 2]",
        "trtllm.speculative_config.max_total_draft_tokens=2",
        "trtllm.speculative_config.draft_len_schedule={1: 3}",
        "trtllm.tokenizer=x",
        "trtllm.telemetry_config.disabled=false",
        "trtllm.speculative_config.speculative_model=x",
    ],
)
def test_what_the_engine_cannot_do_beside_eagle3_or_would_hear_twice_is_refused(pair: str) -> None:
    refused("eagle3", pair)


def test_guided_decoding_crashes_until_after_rc15() -> None:
    assert Version("1.3.0rc15") < versions.GUIDED_CRASH_ENDS
    refused("eagle3", "engine.version=1.3.0rc12", "trtllm.guided_decoding_backend=xgrammar")


def test_a_named_build_is_not_taken_for_the_version_it_is_like() -> None:
    assert versions.NAMED["spark-single-gpu-dev"] not in {Version(one.version) for one in versions.BAD}
