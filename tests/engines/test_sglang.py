"""SGLang's tables and its command line: pure, held against its real parser's options."""

import json
import re
from typing import Any

import pytest

from appliance.core.errors import ConfigFault
from appliance.engines import diagnose
from appliance.engines.base import Pair
from appliance.engines.sglang import BARRED, ENGINE, OWNED
from tests.engines.served import (
    BASELINE,
    DRAFT_TARGET,
    EAGLE3,
    EAGLE3_V3,
    FACTS,
    GPT,
    LLAMA,
    LLAMA_70B,
    OTHER,
    PLACE,
    flags,
    head,
    stack,
    with_facts,
)

CAPPED: dict[str, Any] = {"max_total_tokens": 65536}


def argv(pair: Pair, **sections: Any) -> tuple[str, ...]:
    made = stack("sglang", pair, **({"sglang": CAPPED} | sections))
    ENGINE.check(made, pair)
    return ENGINE.launch(made, pair, PLACE).argv


def value(words: tuple[str, ...], option: str) -> str:
    assert words.count(option) == 1
    return words[words.index(option) + 1]


def refused(pair: Pair = BASELINE, **sections: Any) -> ConfigFault:
    with pytest.raises(ConfigFault) as caught:
        argv(pair, **sections)
    assert caught.value.why and caught.value.fix
    return caught.value


def warned(pair: Pair, version: str | None = None, **options: Any) -> tuple[str, ...]:
    return ENGINE.check(stack("sglang", pair, version=version, sglang=options), pair)


# The command line


def test_an_eagle3_head_drafts_a_chain_of_k() -> None:
    assert argv(EAGLE3, offers={"tools": True}) == (
        *("python3", "-m", "sglang.launch_server", "--model-path", "/t", "--served-model-name", GPT),
        *("--host", "0.0.0.0", "--port", "8000", "--context-length", "8192", "--max-running-requests", "2"),
        *("--enable-metrics", "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/d"),
        *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", "4", "--reasoning-parser", "gpt-oss"),
        *("--tool-call-parser", "gpt-oss", "--max-total-tokens", "65536"),
    )


def test_a_draft_model_stands_alone_and_nvfp4_is_said_of_both() -> None:
    assert argv(DRAFT_TARGET, offers={"tools": True}) == (
        *("python3", "-m", "sglang.launch_server", "--model-path", "/t", "--served-model-name", LLAMA),
        *("--host", "0.0.0.0", "--port", "8000", "--context-length", "8192", "--max-running-requests", "2"),
        *(
            "--enable-metrics",
            "--speculative-algorithm",
            "STANDALONE",
            "--speculative-draft-model-path",
            "/d",
        ),
        *("--speculative-num-steps", "4", "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", "5", "--speculative-draft-model-quantization", "modelopt_fp4"),
        *("--quantization", "modelopt_fp4", "--tool-call-parser", "llama3", "--max-total-tokens", "65536"),
    )


def test_without_a_draft_nothing_of_speculation_is_said_whatever_the_section_says() -> None:
    plain = (
        *("python3", "-m", "sglang.launch_server", "--model-path", "/t", "--served-model-name", GPT),
        *("--host", "0.0.0.0", "--port", "8000", "--context-length", "8192", "--max-running-requests", "2"),
        *("--enable-metrics", "--reasoning-parser", "gpt-oss", "--max-total-tokens", "65536"),
    )
    assert argv(BASELINE) == plain
    assert argv(BASELINE, sglang=CAPPED | {"speculative_eagle_topk": 4}) == plain


def test_a_head_of_plain_numbers_on_an_nvfp4_target_is_not_read_as_nvfp4() -> None:
    words = argv(Pair(LLAMA_70B, head()))
    assert value(words, "--quantization") == "modelopt_fp4"
    assert value(words, "--speculative-draft-model-quantization") == "unquant"


def test_mxfp4_needs_no_word() -> None:
    assert not [word for word in argv(EAGLE3) if "quantization" in word]


def test_a_tree_of_drafts_is_set_in_the_section() -> None:
    draft = {"method": "eagle3", "model": "x", "k": 5}
    tree = {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}
    words = argv(EAGLE3, draft=draft, sglang=CAPPED | tree)
    assert value(words, "--speculative-num-steps") == "5"
    assert value(words, "--speculative-eagle-topk") == "4"
    assert value(words, "--speculative-num-draft-tokens") == "8"


def test_each_kind_of_option_is_written_as_the_parser_takes_it() -> None:
    options: dict[str, Any] = {
        "mem_fraction_static": 0.7,
        "disable_cuda_graph": True,
        "trust_remote_code": False,
        "cuda_graph_bs_decode": [1, 2],
        "cuda_graph_config": {"decode": {"max_bs": 2}},
        "page_size": None,
    }
    assert argv(BASELINE, sglang=options)[18:] == (
        *("--mem-fraction-static", "0.7", "--disable-cuda-graph", "--cuda-graph-bs-decode", "1", "2"),
        *("--cuda-graph-config", '{"decode":{"max_bs":2}}'),
    )


def test_without_a_length_the_models_own_is_taken() -> None:
    made = stack("sglang", BASELINE)
    free = made.model_copy(update={"serve": made.serve.model_copy(update={"max_seq_len": None})})
    assert "--context-length" not in ENGINE.launch(free, BASELINE, PLACE).argv


def test_tools_of_a_model_whose_parser_is_not_known_are_refused_until_it_is_named() -> None:
    other = Pair(OTHER, None)
    assert "sglang.tool_call_parser" in refused(other, offers={"tools": True}).fix
    words = argv(other, offers={"tools": True}, sglang={"tool_call_parser": "qwen"})
    assert value(words, "--tool-call-parser") == "qwen" and "--reasoning-parser" not in words


@with_facts
def test_every_option_is_one_of_the_real_parsers_and_every_choice_too() -> None:
    raw = json.loads((FACTS / "sglang-serve.json").read_text())
    options = {
        flag: one for group in raw["options"].values() for one in group for flag in one.get("flags", ())
    }
    for pair in (EAGLE3, DRAFT_TARGET, BASELINE, Pair(LLAMA_70B, head())):
        words = argv(pair, offers={"tools": True})
        for word, following in zip(words[3:], [*words[4:], ""], strict=True):
            if word.startswith("--"):
                assert following in options[word].get("choices", [following])
    assert {"EAGLE3", "STANDALONE"} <= set(raw["speculative"]["algorithms"])


@with_facts
def test_what_is_refused_are_real_options() -> None:
    real = {flag.removeprefix("--").replace("-", "_") for flag in flags("sglang-serve.json")}
    assert {*OWNED, *BARRED} <= real


# What cannot be


def test_a_name_with_a_colon_is_refused() -> None:
    fault = refused(serve={"name": "gpt-oss:120b", "max_seq_len": 8192})
    assert fault.what == "serve.name cannot be gpt-oss:120b with SGLang"


@pytest.mark.parametrize(("option", "ours"), sorted(OWNED.items()))
def test_what_the_stack_says_itself_is_not_said_again(option: str, ours: str) -> None:
    fault = refused(EAGLE3, sglang={option: 1})
    assert (fault.what, fault.fix) == (f"sglang.{option} cannot be set", f"set {ours} instead")


@pytest.mark.parametrize("option", sorted(BARRED))
def test_what_nobody_may_set_is_refused(option: str) -> None:
    assert refused(sglang={option: "x"}).what == f"sglang.{option} cannot be set"


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    fault = refused(sglang={"mem_fraction_sttic": 0.7})
    assert fault.what == "unknown setting sglang.mem_fraction_sttic"
    assert fault.fix == "Did you mean mem_fraction_static?"


def test_a_chain_of_another_length_than_k_is_refused() -> None:
    fault = refused(EAGLE3, sglang=CAPPED | {"speculative_num_draft_tokens": 8})
    assert fault.what == "sglang.speculative_num_draft_tokens cannot be 8 with draft.k=3"
    assert argv(EAGLE3, sglang=CAPPED | {"speculative_num_draft_tokens": 4})


def test_a_tree_needs_its_size_and_a_backend_that_verifies_trees() -> None:
    tree: dict[str, Any] = {"speculative_eagle_topk": 4}
    assert "needs sglang.speculative_num_draft_tokens" in refused(EAGLE3, sglang=tree).what
    tree |= {"speculative_num_draft_tokens": 8, "attention_backend": "trtllm_mha"}
    assert "trtllm_mha" in refused(EAGLE3, sglang=tree).what
    assert argv(EAGLE3, sglang=tree | {"attention_backend": "flashinfer"})


def test_a_head_of_the_last_layer_is_refused_where_the_engine_drops_it() -> None:
    with pytest.raises(ConfigFault, match="cannot draft in SGLang spark"):
        warned(EAGLE3_V3, **CAPPED)
    with pytest.raises(ConfigFault):
        warned(EAGLE3_V3, "v0.5.4", **CAPPED)
    assert warned(EAGLE3_V3, "v0.5.23", **CAPPED) == ()


# Warnings and environment


def test_a_capped_stack_has_no_warnings() -> None:
    for pair in (EAGLE3, DRAFT_TARGET, BASELINE):
        for version in (None, "v0.5.23", "dev-cu13"):
            assert warned(pair, version, **CAPPED) == ()
    assert warned(BASELINE, mem_fraction_static=0.7) == ()
    assert ENGINE.version(stack("sglang", BASELINE)) == "spark"


def test_an_uncapped_kv_cache_is_a_warning() -> None:
    assert "sglang.max_total_tokens" in "".join(warned(BASELINE))


def test_the_environment_is_the_one_all_engines_in_containers_share() -> None:
    env = ENGINE.launch(stack("sglang", EAGLE3), EAGLE3, PLACE).env
    assert env["HF_HUB_OFFLINE"] == "1" and env["TIKTOKEN_ENCODINGS_BASE"] == "/harmony"
    assert (
        "TIKTOKEN_ENCODINGS_BASE" not in ENGINE.launch(stack("sglang", DRAFT_TARGET), DRAFT_TARGET, PLACE).env
    )


# Tables


@with_facts
def test_the_counters_and_paths_are_what_the_engine_exposes() -> None:
    raw = json.loads((FACTS / "sglang-serve.json").read_text())
    exposed = {*raw["metrics"]["spec"], *raw["metrics"]["key"], *raw["metrics"]["all"]["scheduler"]}
    assert ENGINE.counters is not None
    assert set(ENGINE.counters.names.values()) <= exposed
    assert {ENGINE.health_path, ENGINE.chat_path} <= raw["endpoints"]["paths"]["normal"].keys()
    assert raw["endpoints"]["conditional"][ENGINE.counters.path]["when"] in argv(BASELINE)


LOAD = {
    "[2025-10-16 09:06:10 TP0] Load weight begin. avail mem=137.34 GB": "loading weights",
    "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:00<00:01,  2.32it/s]": "loading weights 1/4",
    "Multi-thread loading shards:  47% Completed | 15/32 [00:21<00:20,  1.23s/it]": "loading weights 15/32",
    "[2025-09-22 10:25:22] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=14.53 GB": (
        "loaded Qwen2ForCausalLM"
    ),
    "[2026-04-10 23:19:05] Load weight end. elapsed=112.68 s, type=Qwen3ForCausalLM, avail mem=160.78 GB": (
        "loaded Qwen3ForCausalLM"
    ),
    "[2026-01-19 13:30:31] KV Cache is allocated. #tokens: 671362, K size: 17.93 GB": "KV cache allocated",
    "[2026-01-19 13:30:32] Capture cuda graph begin. This can take up to several minutes.": (
        "capturing CUDA graphs"
    ),
    "[2025-09-05 20:49:28 TP6] Capture draft cuda graph begin. This can take a while": "capturing CUDA graphs",
    "Capturing batches (bs=8 avail_mem=26.90 GB):  25%|##        | 1/4": "capturing CUDA graphs 25%",
    "[2025-09-05 20:50:29 TP6] Capture draft cuda graph end. Time elapsed: 62.67 s.": "CUDA graphs captured",
    "INFO:     Application startup complete.": "warming up",
    "[2026-01-19 13:31:00] The server is fired up and ready to roll!": "listening",
}


@pytest.mark.parametrize("line", LOAD)
def test_the_lines_of_a_load_are_phases(line: str) -> None:
    matches = ((re.search(phase.pattern, line), phase.phase) for phase in ENGINE.phases)
    assert next(match.expand(text) for match, text in matches if match) == LOAD[line]


FATAL = {
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.": "no room",
    "AssertionError: Must use persistent kernel and be TMA-compliant for native MXFP": "MXFP4 kernels",
    "launch_server.py: error: unrecognized arguments: --startup-weight-load-mode serial": "does not know",
    "launch_server.py: error: argument --tool-call-parser: invalid choice: 'gpt-oss'": "does not know",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x5760 and 8640x2880)": "three layers",
    "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use": (
        "port is taken"
    ),
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.": "not enough memory",
}


@pytest.mark.parametrize("line", FATAL)
def test_a_known_death_is_told_in_words(line: str) -> None:
    death = diagnose(
        [*LOAD, line, "[2026-01-19 13:30:33] Received sigquit from a child process."], ENGINE.deaths
    )
    assert death is not None
    assert FATAL[line] in death.why
    assert death.fix


def test_an_unknown_death_has_no_diagnosis() -> None:
    assert diagnose([*LOAD, "Segmentation fault"], ENGINE.deaths) is None
