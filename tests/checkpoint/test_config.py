"""A model's shape is what its config says, in whichever of the usual ways it says it."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.checkpoint.config import Config, parse_config, read_config
from appliance.core.errors import ConfigFault
from tests.fakes.hub_cache import EAGLE3_HEAD, GPT_OSS_120B, LLAMA_33_70B_FP4

PATH = Path("/models/x/config.json")


def parsed(config: dict[str, Any], **quantization: Any) -> Config:
    return parse_config(config, quantization, PATH)


def test_gpt_oss() -> None:
    found = parsed(GPT_OSS_120B)
    assert (found.layers, found.kv_heads, found.head_dim, found.hidden_size) == (36, 8, 64, 2880)
    assert found.layer_kinds == {"full_attention": 18, "sliding_attention": 18}
    assert (found.window, found.context, found.vocab_size) == (128, 131_072, 201_088)
    assert (found.quantization, found.cache_quantization, found.experts_per_token) == ("mxfp4", None, 4)
    assert found.special == {"eos_token_id": (200_002,)}
    assert found.head.layers is None and not found.head.named


def test_a_head_says_what_it_reads() -> None:
    head = parsed(EAGLE3_HEAD).head
    assert (head.named, head.layers, head.uses_layers) == (True, (1, 17, 32), True)
    assert head.draft_vocab_size == 201_088


def test_nvidia_s_four_bits_are_in_either_file() -> None:
    found = parsed(LLAMA_33_70B_FP4)
    assert (found.quantization, found.cache_quantization) == ("NVFP4", "FP8")
    plain = {key: value for key, value in LLAMA_33_70B_FP4.items() if key != "quantization_config"}
    beside = parsed(plain, quantization={"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"})
    assert (beside.quantization, beside.cache_quantization) == ("NVFP4", "FP8")
    assert parsed(plain).quantization is None


def test_a_language_model_may_be_a_part_of_the_whole() -> None:
    found = parsed(
        {"model_type": "vlm", "hidden_size": None, "text_config": {"hidden_size": 64, "num_hidden_layers": 2}}
    )
    assert (found.hidden_size, found.layers) == (64, 2)


def test_a_speculator_of_vllm() -> None:
    found = parsed(
        {
            "architectures": ["Eagle3Speculator"],
            "draft_vocab_size": 32_000,
            "target_hidden_size": None,
            "eagle_aux_hidden_state_layer_ids": [2, 18, 33],
            "transformer_layer_config": {"hidden_size": 2880, "num_hidden_layers": 1, "vocab_size": 201_088},
            "speculators_config": {
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}]
            },
        }
    )
    assert (found.hidden_size, found.vocab_size) == (2880, 201_088)
    assert (found.head.draft_vocab_size, found.head.layers, found.head.k) == (32_000, (2, 18, 33), 3)
    assert found.head.named


@pytest.mark.parametrize(
    ("rope", "reach"),
    [
        (None, 4096),
        ({"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}, 131_072),
        ({"type": "linear", "factor": 2.0}, 8192),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 4096),
        ({"rope_type": "yarn", "factor": "many"}, 4096),
        ({"rope_type": "yarn", "factor": float("inf")}, 4096),
    ],
)
def test_positions_reach_as_far_as_a_scaled_rope_takes_them(rope: Any, reach: int) -> None:
    assert parsed({"max_position_embeddings": 4096, "rope_scaling": rope}).context == reach


def test_what_is_left_out_follows_from_the_rest() -> None:
    found = parsed({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3})
    assert (found.kv_heads, found.head_dim, found.layer_kinds) == (4, 16, {"full_attention": 3})


def test_layers_without_keys_and_values_do_not_count() -> None:
    kinds = ["linear_attention", "full_attention", "linear_attention"]
    found = parsed({"num_hidden_layers": 3, "layer_types": kinds})
    assert found.layer_kinds == {"full_attention": 1, "sliding_attention": 0}


@pytest.mark.parametrize("key", ["kv_lora_rank", "hybrid_override_pattern"])
def test_a_cache_of_another_kind_is_not_known(key: str) -> None:
    assert parsed({"num_hidden_layers": 3, key: 512}).layer_kinds is None


def test_an_empty_config_says_nothing() -> None:
    assert parsed({}) == Config()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "2880"),
        ("hidden_size", -1),
        ("num_hidden_layers", True),
        ("num_hidden_layers", 10**12),
        ("vocab_size", 1.5),
        ("max_position_embeddings", [1]),
        ("draft_vocab_size", "all"),
        ("model_type", 7),
    ],
)
def test_a_value_that_cannot_be_is_named(key: str, value: Any) -> None:
    with pytest.raises(ConfigFault) as caught:
        parsed({key: value})
    assert str(PATH) in caught.value.what and caught.value.why


def test_a_file_that_is_no_config_is_named(tmp_path: Path) -> None:
    assert read_config(tmp_path) is None
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ConfigFault) as caught:
        read_config(tmp_path)
    assert str(tmp_path / "config.json") in caught.value.what
    (tmp_path / "config.json").write_text(" " * (5 << 20))
    with pytest.raises(ConfigFault) as caught:
        read_config(tmp_path)
    assert "4 MiB" in caught.value.why


def test_the_two_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    found = read_config(tmp_path)
    assert found is not None and (found.hidden_size, found.quantization) == (8, "NVFP4")


@pytest.mark.parametrize("junk", [None, True, -1, 1.5, "x", [], [[]], {}, {"a": []}])
def test_no_value_of_any_key_is_more_than_a_fault(junk: Any) -> None:
    keys = [
        *GPT_OSS_120B,
        *EAGLE3_HEAD,
        "text_config",
        "speculators_config",
        "rope_parameters",
        "kv_lora_rank",
    ]
    inner = [
        "quant_algo",
        "kv_cache_scheme",
        "eagle_aux_hidden_state_layer_ids",
        "proposal_methods",
        "num_bits",
    ]
    whole = {**GPT_OSS_120B, **EAGLE3_HEAD}
    nested = [
        {outer: {key: junk, "type": "float"}}
        for outer in ("quantization_config", "eagle_config")
        for key in inner
    ]
    nested += [{"quantization_config": {"kv_cache_scheme": {"type": "float", "num_bits": junk}}}]
    for change in [*({key: junk} for key in keys), *nested]:
        try:
            parsed(whole | change)
        except ConfigFault as fault:
            assert str(PATH) in fault.what
