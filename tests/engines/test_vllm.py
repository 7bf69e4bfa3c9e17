"""vLLM's tables and its command line: pure, held against its real parser's options."""

import json
import re
from typing import Any

import pytest

from appliance.core.errors import ConfigFault
from appliance.engines import diagnose
from appliance.engines.base import Pair
from appliance.engines.vllm import BARRED, ENGINE, OWNED
from tests.engines.served import (
    BASELINE,
    DRAFT_TARGET,
    EAGLE3,
    EAGLE3_V3,
    FACTS,
    GPT,
    LLAMA,
    OTHER,
    PLACE,
    flags,
    stack,
    with_facts,
)

CAPPED: dict[str, Any] = {"kv_cache_memory_bytes": 4_000_000_000}


def argv(pair: Pair, **sections: Any) -> tuple[str, ...]:
    made = stack("vllm", pair, **({"vllm": CAPPED} | sections))
    ENGINE.check(made, pair)
    return ENGINE.launch(made, pair, PLACE).argv


def refused(pair: Pair = BASELINE, **sections: Any) -> ConfigFault:
    with pytest.raises(ConfigFault) as caught:
        argv(pair, **sections)
    assert caught.value.why and caught.value.fix
    return caught.value


def warned(pair: Pair, version: str | None = None, **options: Any) -> tuple[str, ...]:
    return ENGINE.check(stack("vllm", pair, version=version, vllm=options), pair)


# The command line


def test_an_eagle3_head_is_told_in_the_speculative_config() -> None:
    assert argv(EAGLE3, offers={"tools": True}) == (
        *("vllm", "serve", "/t", "--served-model-name", GPT, "--host", "0.0.0.0", "--port", "8000"),
        *("--max-model-len", "8192", "--max-num-seqs", "2"),
        "--speculative-config",
        '{"method":"eagle3","model":"/d","num_speculative_tokens":3}',
        *("--reasoning-parser", "openai_gptoss", "--enable-auto-tool-choice", "--tool-call-parser", "openai"),
        *("--kv-cache-memory-bytes", "4000000000"),
    )


def test_a_draft_model_is_told_as_such() -> None:
    assert argv(DRAFT_TARGET, offers={"tools": True}) == (
        *("vllm", "serve", "/t", "--served-model-name", LLAMA, "--host", "0.0.0.0", "--port", "8000"),
        *("--max-model-len", "8192", "--max-num-seqs", "2"),
        "--speculative-config",
        '{"method":"draft_model","model":"/d","num_speculative_tokens":4}',
        *("--enable-auto-tool-choice", "--tool-call-parser", "llama3_json"),
        *("--kv-cache-memory-bytes", "4000000000"),
    )


def test_without_a_draft_nothing_of_speculation_is_said() -> None:
    assert argv(BASELINE) == (
        *("vllm", "serve", "/t", "--served-model-name", GPT, "--host", "0.0.0.0", "--port", "8000"),
        *("--max-model-len", "8192", "--max-num-seqs", "2", "--reasoning-parser", "openai_gptoss"),
        *("--kv-cache-memory-bytes", "4000000000"),
    )


def test_other_fields_of_the_speculative_config_are_open_and_fall_away_with_the_draft() -> None:
    options = CAPPED | {"speculative_config": {"draft_sample_method": "probabilistic"}}
    words = argv(EAGLE3, vllm=options)
    assert json.loads(words[words.index("--speculative-config") + 1]) == {
        "draft_sample_method": "probabilistic",
        "method": "eagle3",
        "model": "/d",
        "num_speculative_tokens": 3,
    }
    assert argv(BASELINE, vllm=options) == argv(BASELINE)


def test_each_kind_of_option_is_written_as_the_parser_takes_it() -> None:
    options: dict[str, Any] = {
        "gpu_memory_utilization": 0.8,
        "enable_prefix_caching": False,
        "enforce_eager": True,
        "aggregate_engine_logging": True,
        "cudagraph_capture_sizes": [1, 2],
        "middleware": ["a.b", "c.d"],
        "compilation_config": {"mode": 3, "cudagraph_mode": "PIECEWISE"},
        "chat_template": "--looks-like-an-option",
        "seed": None,
    }
    assert argv(BASELINE, vllm=options)[15:] == (
        *("--gpu-memory-utilization", "0.8", "--no-enable-prefix-caching", "--enforce-eager"),
        *("--aggregate-engine-logging", "--cudagraph-capture-sizes", "1", "2"),
        *("--middleware", "a.b", "--middleware", "c.d"),
        *("--compilation-config", '{"cudagraph_mode":"PIECEWISE","mode":3}'),
        "--chat-template=--looks-like-an-option",
    )
    assert "--aggregate-engine-logging" not in argv(BASELINE, vllm={"aggregate_engine_logging": False})


def test_a_parser_that_the_stack_names_takes_the_place_of_ours() -> None:
    words = argv(EAGLE3, vllm={"reasoning_parser": "hf", "tool_call_parser": "hf"}, offers={"tools": True})
    assert words.count("--reasoning-parser") == words.count("--tool-call-parser") == 1
    assert words[words.index("--tool-call-parser") + 1] == "hf"


def test_without_a_length_the_models_own_is_taken() -> None:
    made = stack("vllm", BASELINE)
    free = made.model_copy(update={"serve": made.serve.model_copy(update={"max_seq_len": None})})
    assert "--max-model-len" not in ENGINE.launch(free, BASELINE, PLACE).argv


def test_tools_of_a_model_whose_parser_is_not_known_are_refused_until_it_is_named() -> None:
    other = Pair(OTHER, None)
    assert "vllm.tool_call_parser" in refused(other, offers={"tools": True}).fix
    words = argv(other, offers={"tools": True}, vllm={"tool_call_parser": "hermes"})
    assert "--enable-auto-tool-choice" in words and "--reasoning-parser" not in words


@with_facts
def test_every_option_is_one_of_the_real_parsers_and_every_field_of_the_config_too() -> None:
    for pair in (EAGLE3, DRAFT_TARGET, BASELINE):
        words = argv(pair, offers={"tools": True})
        assert {word for word in words if word.startswith("--")} <= flags("vllm-serve.json")
    raw = json.loads((FACTS / "vllm-serve.json").read_text())
    words = argv(DRAFT_TARGET)
    told = json.loads(words[words.index("--speculative-config") + 1])
    assert (
        told.keys() <= raw["speculative"]["fields"].keys() and told["method"] in raw["speculative"]["methods"]
    )
    assert {"openai", "llama3_json"} <= set(raw["value_lists"]["tool_call_parser"])
    assert "openai_gptoss" in raw["value_lists"]["reasoning_parser"]


@with_facts
def test_what_is_refused_are_real_options() -> None:
    real = {flag.removeprefix("--").replace("-", "_") for flag in flags("vllm-serve.json")}
    assert {path.partition(".")[0] for path in (*OWNED, *BARRED)} - {"model"} <= real


# What cannot be


@pytest.mark.parametrize(("option", "ours"), sorted(OWNED.items()))
def test_what_the_stack_says_itself_is_not_said_again(option: str, ours: str) -> None:
    section, _, inner = option.partition(".")
    fault = refused(EAGLE3, vllm={section: {inner: 1} if inner else 1})
    assert fault.what == f"vllm.{option} cannot be set"
    assert fault.fix == f"set {ours} instead"


@pytest.mark.parametrize("option", sorted(BARRED))
def test_what_nobody_may_set_is_refused(option: str) -> None:
    assert refused(vllm={option: "x"}).what == f"vllm.{option} cannot be set"


def test_a_key_never_enters_the_command_line() -> None:
    assert "secret" in refused(vllm={"api_key": ["k"]}).why


def test_the_speculative_config_is_a_section_not_text() -> None:
    assert refused(EAGLE3, vllm={"speculative_config": '{"method":"ngram"}'}).fix.startswith("set vllm.spec")


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    fault = refused(vllm={"gpu_memory_utilisation": 0.8})
    assert fault.what == "unknown setting vllm.gpu_memory_utilisation"
    assert fault.fix == "Did you mean gpu_memory_utilization?"
    deep = refused(EAGLE3, vllm={"speculative_config": {"draft_sample_metod": "greedy"}})
    assert deep.fix == "Did you mean draft_sample_method?"


# Warnings


def test_a_capped_stack_has_no_warnings() -> None:
    for pair in (EAGLE3, DRAFT_TARGET, BASELINE):
        assert warned(pair, **CAPPED) == ()
    assert warned(BASELINE, gpu_memory_utilization=0.7) == ()


def test_an_uncapped_kv_cache_is_a_warning() -> None:
    assert "vllm.kv_cache_memory_bytes" in "".join(warned(BASELINE))


def test_a_head_of_the_last_layer_is_a_warning() -> None:
    assert "layer 36" in "".join(warned(EAGLE3_V3, **CAPPED))


def test_nvfp4_with_the_backend_that_answered_gibberish_is_a_warning() -> None:
    options = CAPPED | {"attention_backend": "TRITON_ATTN"}
    assert "34759" in "".join(warned(DRAFT_TARGET, **options))
    assert warned(BASELINE, **options) == ()


def test_a_plain_version_is_held_against_what_is_known_of_it() -> None:
    new: dict[str, Any] = CAPPED | {"reasoning_effort_map": "x"}
    assert warned(BASELINE, "v0.33.0", **new) == ()
    with pytest.raises(ConfigFault):
        warned(BASELINE, "0.32.0", **new)


def test_a_container_of_unknown_content_is_held_against_all_that_is_known() -> None:
    assert "not by vllm 0.32.0" in "".join(warned(BASELINE, None, **CAPPED, reasoning_effort_map="x"))
    assert ENGINE.version(stack("vllm", BASELINE)) == "26.05.post1-py3"


# Environment


def test_nothing_is_fetched_or_reported_and_all_that_is_written_lies_in_the_state_folder() -> None:
    env = ENGINE.launch(stack("vllm", EAGLE3), EAGLE3, PLACE).env
    ones = {"VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}
    assert {name for name, value in env.items() if value == "1"} == ones
    places = {name for name, value in env.items() if value.startswith(PLACE.state)}
    assert places == {
        *("HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"),
        *("FLASHINFER_WORKSPACE_BASE", "VLLM_CACHE_ROOT"),
    }
    assert env["HF_HUB_CACHE"] == f"{PLACE.state}/hub"
    assert env["USER"] == env["LOGNAME"] == "spark-spec"
    assert env.keys() == ones | places | {"USER", "LOGNAME", "TIKTOKEN_ENCODINGS_BASE"}


def test_the_vocabulary_is_for_harmony_alone() -> None:
    assert ENGINE.launch(stack("vllm", EAGLE3), EAGLE3, PLACE).env["TIKTOKEN_ENCODINGS_BASE"] == "/harmony"
    assert (
        "TIKTOKEN_ENCODINGS_BASE" not in ENGINE.launch(stack("vllm", DRAFT_TARGET), DRAFT_TARGET, PLACE).env
    )


# Tables


@with_facts
def test_the_counters_and_paths_are_what_the_engine_exposes() -> None:
    raw = json.loads((FACTS / "vllm-serve.json").read_text())
    core, spec = raw["metrics"]["core"], raw["metrics"]["spec_decode"]
    exposed = {one["exposed"] for one in spec.values()}
    exposed |= {name + ("_total" if one[0] == "counter" else "") for name, one in core.items()}
    assert ENGINE.counters is not None
    assert set(ENGINE.counters.names.values()) <= exposed
    paths = {path for group in raw["endpoints"]["paths"].values() for path in group}
    assert {ENGINE.health_path, ENGINE.chat_path, ENGINE.counters.path} <= paths


LOAD = {
    "(EngineCore pid=10) INFO 10-30 14:19:30 [gpu_model_runner.py:2903] Loading drafter model...": (
        "loading the draft"
    ),
    "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:24<00:49, 24.61s/it]": (
        "loading weights 1/2"
    ),
    "(EngineCore pid=10) INFO 06-02 00:51:40 [model_runner.py:295] Model loading took 7.64 GiB and 32.9 s": (
        "weights loaded"
    ),
    "(EngineCore pid=10) INFO 06-02 00:51:49 [backends.py:1148] Dynamo bytecode transform time: 8.52 s": "compiling",
    "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  50%|#####     | 1/2": "capturing CUDA graphs 50%",
    "Capturing CUDA graph shapes: 98%|#########8| 81/83 [01:40<00:02, 1.27s/it]": "capturing CUDA graphs 98%",
    "(VllmWorker pid=418) INFO 08-08 [gpu_model_runner.py:2567] Graph capturing finished in 106 secs": (
        "CUDA graphs captured"
    ),
    "INFO:     Application startup complete.": "listening",
}


@pytest.mark.parametrize("line", LOAD)
def test_the_lines_of_a_load_are_phases(line: str) -> None:
    matches = ((re.search(phase.pattern, line), phase.phase) for phase in ENGINE.phases)
    assert next(match.expand(text) for match, text in matches if match) == LOAD[line]


FATAL = {
    "ValueError: Free memory on device cuda:0 (67.24/119.7 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 107.7 GiB). Decrease GPU memory utilization": "share",
    "ValueError: To serve at least one request with the models's max seq len (131072), (4.11 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (4.0 GiB).": "no room",
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`": "no room",
    "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use": (
        "port is taken"
    ),
    "vllm: error: unrecognized arguments: --monokernel": "does not know an option",
    "vllm serve: error: argument --moe-backend: invalid choice: 'x'": "does not know an option",
    "openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download or load": "vocabulary",
    "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach the hub: offline mode is enabled.": "not here",
    "OSError: /t does not appear to have a file named config.json.": "not here",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x5760 and 8640x2880)": "three layers",
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device": "not built for",
    "exec /usr/bin/python3: exec format error": "not built for",
    "RuntimeError: No CUDA GPUs are available": "no GPU",
    "RuntimeError: CUDA error: out of memory at cudaMemGetInfo": "page cache holds it",
    "PermissionError: [Errno 13] Permission denied: '/root/.cache'": "may not read or write",
    "KeyError: 'getpwuid(): uid not found: 10001'": "may not read or write",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.": "not enough memory",
    "the engine was ended by SIGKILL": "not enough memory",
}


@pytest.mark.parametrize("line", FATAL)
def test_a_known_death_is_told_in_words(line: str) -> None:
    death = diagnose(
        ["INFO starting", line, "RuntimeError: Engine core initialization failed."], ENGINE.deaths
    )
    assert death is not None
    assert FATAL[line] in death.why
    assert death.fix


def test_what_healthy_starts_print_too_is_no_diagnosis() -> None:
    kernel = "NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"
    assert diagnose([*LOAD, kernel, "Segmentation fault"], ENGINE.deaths) is None
