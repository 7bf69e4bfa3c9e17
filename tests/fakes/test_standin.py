"""The stand-ins judge a command line and a config as their engines do, version by version."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.fakes.standin_running import (
    FACTS,
    LOADED,
    NEW,
    OLD,
    PROGRAMS,
    TRTLLM,
    Hub,
    eagle,
    run,
    spec,
    trtllm,
)

pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason=f"the facts are not at {FACTS}")


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """What loads here ends at once with a word and code of its own: then everything was accepted."""
    return Hub(tmp_path / "hf", die_while_loading={"line": "it loaded", "code": LOADED}, refused_s=0)


# --- trtllm-serve: the judge bites, version by version


@pytest.mark.parametrize("version", TRTLLM)
def test_a_right_config_loads(hub: Hub, version: str) -> None:
    code, said = trtllm(hub, version)
    assert (code, "it loaded" in said, "SET TWICE" in said) == (LOADED, True, False), said
    assert "Loading weights: 12/1288" in said


@pytest.mark.parametrize("version", TRTLLM)
def test_each_wrong_key_and_value_is_refused(hub: Hub, version: str) -> None:
    code, said = trtllm(
        hub, version, pytorch_backend_config={}, kv_cache_config__enable_blok_reuse=True,
        speculative_config__draft_len=3,
        kv_cache_config__free_gpu_memory_fraction=1.5, kv_cache_config__max_tokens="all",
        kv_cache_config__enable_partial_reuse=2, cuda_graph_config__max_batch_size="one",
        moe_config={"backend": "FASTEST"},
    )  # fmt: skip
    assert (code, "ValidationError: 8 validation errors for TorchLlmArgs" in said) == (1, True), said
    for words in (
        "pytorch_backend_config\n  Extra inputs are not permitted [type=extra_forbidden",
        "kv_cache_config.enable_blok_reuse\n  Extra inputs are not permitted [type=extra_forbidden",
        "speculative_config.Eagle.draft_len\n  Extra inputs are not permitted [type=extra_forbidden",
        "kv_cache_config.free_gpu_memory_fraction\n  Input should be less than or equal to 1 [type=less_than_equal",
        "kv_cache_config.max_tokens\n  Input should be a valid integer [type=int_type",
        "kv_cache_config.enable_partial_reuse\n  Input should be a valid boolean [type=bool_type",
        "cuda_graph_config.max_batch_size\n  Input should be a valid integer [type=int_type",
        "moe_config.backend\n  Input should be ",
    ):
        assert words in said, words


@pytest.mark.parametrize("version", TRTLLM)
def test_one_wrong_key_is_enough(hub: Hub, version: str) -> None:
    code, said = trtllm(hub, version, cuda_graph_config__padding=True)
    assert (code, "1 validation error for TorchLlmArgs\ncuda_graph_config.padding\n" in said) == (1, True), (
        said
    )


@pytest.mark.parametrize("version", TRTLLM)
def test_speculation_needs_a_length_and_a_draft(hub: Hub, version: str) -> None:
    spec = {"decoding_type": "Eagle", "max_draft_len": 0}
    code, said = trtllm(hub, version, speculative_config=spec)
    assert code == 1
    assert (
        "Value error, max_draft_len must be > 0 for Eagle" in said and "Draft model must be provided" in said
    )


@pytest.mark.parametrize("version", TRTLLM)
def test_the_tag_of_the_other_versions_is_refused(hub: Hub, version: str) -> None:
    right, wrong = ("DraftTarget", "Draft_Target") if version in OLD else ("Draft_Target", "DraftTarget")
    assert trtllm(hub, version, speculative_config__decoding_type=right)[0] == LOADED
    code, said = trtllm(hub, version, speculative_config__decoding_type=wrong)
    expected = f"ValueError: Invalid decoding type: {wrong}" if version in OLD else "[type=union_tag_invalid"
    assert (code, expected in said) == (1, True), said
    code, said = trtllm(hub, version, speculative_config__decoding_type="Eagle3")
    assert code == (1 if version in OLD else LOADED), said


def test_keys_come_and_go_with_the_versions(hub: Hub) -> None:
    known_to: dict[str, tuple[str, ...]] = {
        "speculative_config__allow_advanced_sampling": TRTLLM[1:],
        "speculative_config__eagle3_one_model": TRTLLM[:3],
        "speculative_config__enable_penalty": TRTLLM[3:],
        "enable_energy_metrics": NEW,
        "enable_sleep": TRTLLM[:3],
        "per_request_spec_decode_stats": TRTLLM[3:],
        "disable_flashinfer_sampling": TRTLLM[:3],
    }
    for version in TRTLLM:
        _, said = trtllm(hub, version, **dict.fromkeys(known_to, True))
        for key, versions in known_to.items():
            assert (f"{key.rpartition('__')[2]}\n  Extra inputs" in said) == (version not in versions), (
                version,
                key,
            )
        unknown = trtllm(hub, version, sampler_type="auto")[0]
        assert unknown == (LOADED if version in TRTLLM[:3] else 1)


def test_speculative_model_without_dir_came_with_1_2(hub: Hub) -> None:
    path = Path(hub.config("1.2.1", speculative_config__speculative_model=str(hub.head)))
    path.write_text(
        path.read_text()
        .replace('"speculative_model_dir"', '"unused"')
        .replace(f'"unused": "{hub.head}", ', "")
    )
    codes = [run(hub, "trtllm", "--extra_llm_api_options", str(path), version=version)[0] for version in OLD]
    assert codes == [1, LOADED]


def test_the_last_word_on_1_4_is_the_unchanged_schema() -> None:
    schema = json.loads((FACTS / "serve-config-1.4.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid({"sampler_type": "auto"})


@pytest.mark.parametrize("version", [TRTLLM[0], TRTLLM[3]])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--free_gpu_fraction", "0.9"), "Error: No such option: --free_gpu_fraction"),
        (("--port", "http"), "Error: Invalid value for '--port': 'http' is not a valid integer."),
        (("--log_level", "loud"), "Error: Invalid value for '--log_level': 'loud' is not one of"),
        (("again",), "Error: Got unexpected extra argument (again)"),
    ],
)
def test_a_wrong_option_is_clicks_error(hub: Hub, version: str, words: tuple[str, ...], said: str) -> None:
    code, output = run(hub, "trtllm", *words, version=version)
    assert (code, said in output) == (2, True), output


@pytest.mark.parametrize(
    ("word", "known_to"),
    [
        ("--tp_size=1", TRTLLM),
        ("--kv_cache_free_gpu_memory_fraction=0.9", TRTLLM),
        ("--free_gpu_memory_fraction=0.9", TRTLLM[1:]),
        ("--config=", TRTLLM[1:]),
        ("--tensor_parallel_size=1", NEW),
        ("--kv_cache_dtype=fp8", NEW),
        ("--served_model_name=m", TRTLLM[3:]),
        ("--no-telemetry", TRTLLM[3:]),
    ],
)
def test_options_come_and_go_with_the_versions(hub: Hub, word: str, known_to: tuple[str, ...]) -> None:
    assert (
        tuple(version for version in TRTLLM if run(hub, "trtllm", word, version=version)[0] == LOADED)
        == known_to
    )


def test_a_value_given_twice_is_noted(hub: Hub) -> None:
    _, said = trtllm(
        hub,
        "1.4.0rc0",
        "--kv_cache_free_gpu_memory_fraction",
        "0.5",
        "--max_batch_size",
        "4",
        max_batch_size=4,
    )
    assert {line for line in said.splitlines() if "SET TWICE" in line} == {
        "standin: SET TWICE kv_cache_config.free_gpu_memory_fraction",
        "standin: SET TWICE max_batch_size",
    }
    _, said = trtllm(hub, "1.4.0rc0", "--tp_size", "1", "--tensor_parallel_size", "1")
    assert "standin: SET TWICE tensor_parallel_size" in said
    path = hub.home / "twice.yml"
    path.write_text("max_batch_size: 1\nmax_batch_size: 2\n")
    assert "standin: SET TWICE max_batch_size" in run(hub, "trtllm", "--config", str(path))[1]


@pytest.mark.parametrize("engine", PROGRAMS)
def test_a_secret_in_the_environment_is_noted_without_its_value(hub: Hub, engine: str) -> None:
    _, said = run(hub, engine, HF_TOKEN="hf_abc", NGC_API_KEY="k")
    assert [line for line in said.splitlines() if "SECRET" in line] == [
        "standin: SECRET IN ENVIRONMENT HF_TOKEN",
        "standin: SECRET IN ENVIRONMENT NGC_API_KEY",
    ]
    assert "hf_abc" not in said


# --- where the model comes from


@pytest.mark.parametrize("engine", PROGRAMS)
def test_a_repository_that_is_not_in_the_cache_is_the_hubs_offline_error(hub: Hub, engine: str) -> None:
    code, said = run(hub, engine, model="openai/gpt-oss-20b")
    assert (code, "LocalEntryNotFoundError" in said, "outgoing traffic has been disabled" in said) == (
        1,
        True,
        True,
    )


@pytest.mark.parametrize("engine", PROGRAMS)
def test_the_cache_is_found_as_the_hub_library_finds_it(hub: Hub, engine: str) -> None:
    home = hub.home.parent / "home"
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "huggingface").symlink_to(hub.home)
    assert run(hub, engine, HF_HOME="", HOME=str(home))[0] == LOADED
    assert run(hub, engine, HF_HOME="/nonexistent", HF_HUB_CACHE=str(hub.home / "hub"))[0] == LOADED
    assert run(hub, engine, model=str(hub.target))[0] == LOADED
    assert run(hub, engine, HF_HOME="/nonexistent")[0] == 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda hub: (hub.target / "model.safetensors").resolve().unlink(), "FileNotFoundError"),
        (lambda hub: (hub.target / "model.safetensors").resolve().write_bytes(b"\x10"), "SafetensorError"),
        (lambda hub: (hub.target / "model.safetensors").unlink(), "No weight files found"),
        (lambda hub: (hub.target / "config.json").unlink(), "does not appear to have a file named config.json"),
        (lambda hub: (hub.target / "tokenizer.json").unlink(), "Can't load tokenizer"),
        (lambda hub: (hub.head / "config.json").unlink(), "does not appear to have a file named config.json"),
        (lambda hub: (hub.target.parents[1] / "refs" / "main").unlink(), "LocalEntryNotFoundError"),
    ],
)  # fmt: skip
def test_a_damaged_model_does_not_load(hub: Hub, damage: Callable[[Hub], None], words: str) -> None:
    damage(hub)
    code, said = trtllm(hub, "1.4.0rc0")
    assert (code, words in said) == (1, True), said


# --- vllm and sglang: the judge bites


def test_a_right_vllm_command_line_loads(hub: Hub) -> None:
    code, said = run(
        hub,
        "vllm",
        *spec(hub),
        "--gpu-memory-utilization",
        "0.8",
        "--max_model_len",
        "8k",
        "--no-enable-prefix-caching",
    )
    assert (code, "50% Completed | 1/2" in said) == (LOADED, True), said
    dotted = ("--speculative-config.method", "ngram", "--speculative-config.num_speculative_tokens", "2")
    assert run(hub, "vllm", *dotted)[0] == LOADED


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--max-modell-len", "3"), 2, "vllm serve: error: unrecognized arguments: --max-modell-len 3"),
        (("--port", "http"), 2, "argument --port: invalid int value: 'http'"),
        (("--dtype", "int3"), 2, "argument --dtype: invalid choice: 'int3'"),
        (
            ("--speculative-config", "eagle3"),
            2,
            "argument --speculative-config/-sc: Value eagle3 cannot be converted",
        ),
        (("--gpu-memory-utilization", "1.5"), 1, "Input should be less than or equal to 1"),
        (("--enable-auto-tool-choice",), 1, "--enable-auto-tool-choice requires --tool-call-parser"),
        (("--tool-call-parser", "gpt"), 1, "invalid tool call parser: gpt"),
    ],
)
def test_a_wrong_vllm_option_is_refused(hub: Hub, words: tuple[str, ...], code: int, said: str) -> None:
    found, output = run(hub, "vllm", *words)
    assert (found, said in output) == (code, True), output


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_draft_len": 3}, "max_draft_len\n  Unexpected keyword argument"),
        ({"method": "Eagle3"}, "[type=literal_error"),
        ({"num_speculative_tokens": 0}, "Input should be greater than 0"),
        ({"num_speculative_tokens": "3"}, "[type=int_type"),
        ({"num_speculative_tokens": ...}, "`num_speculative_tokens` was not provided"),
        ({"model": ...}, "model must be provided"),
        ({"model": "nvidia/absent"}, "LocalEntryNotFoundError"),
        ({"model": "/models/absent"}, "HFValidationError"),
    ],
)
def test_a_wrong_vllm_speculative_config_is_refused(hub: Hub, changes: dict[str, Any], said: str) -> None:
    code, output = run(hub, "vllm", *spec(hub, **changes))
    assert (code, said in output) == (1, True), output


def test_a_right_sglang_command_line_loads(hub: Hub) -> None:
    words = eagle(
        hub,
        "--speculative-num-steps",
        "5",
        "--speculative-eagle-topk",
        "4",
        "--speculative-num-draft-tokens",
        "8",
    )
    code, said = run(hub, "sglang", *words, "--mem-fraction-static", "0.7", "--enable-metrics")
    assert (code, "Load weight end" in said) == (LOADED, True), said
    assert run(hub, "sglang", *eagle(hub))[0] == LOADED


def test_wrong_sglang_options_are_refused(hub: Hub) -> None:
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("--mem_fraction_static", "0.7"), 2, "launch_server.py: error: unrecognized arguments"),
        (("--load-format", "zip"), 2, "argument --load-format: invalid choice: 'zip'"),
        (("--speculative-algorithm", "EAGLE9"), 1, "ValueError: Unknown speculative algorithm: EAGLE9"),
        (eagle(hub, "--speculative-num-steps", "3"), 1, "TypeError: '>' not supported"),
        (eagle(hub, "--speculative-num-draft-tokens", "4"), 1, "AssertionError"),
        (("--served-model-name", "a:b"), 1, "cannot contain a colon"),
    ]
    for words, code, said in cases:
        found, output = run(hub, "sglang", *words)
        assert (found, said in output) == (code, True), output
