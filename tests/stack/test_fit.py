"""A draft fits its target where their headers say so: what breaks is refused, what costs is told, the rest passes."""

from typing import Any

import pytest

from appliance.catalog.entries import Entry, HubSource, load_entry
from appliance.core.errors import ConfigFault
from appliance.stack.fit import check_fit
from appliance.stack.memory import Model, Models
from appliance.stack.resolve import resolve
from tests.checkpoint.made import checkpoint, model, vocabulary
from tests.fakes.hub_cache import EAGLE3_HEAD, GPT_OSS_120B, LLAMA_31_8B_FP4, LLAMA_33_70B_FP4

FC = {"fc.weight": (2880, 3 * 2880)}
GPT_OSS = model("gpt-oss-120b", GPT_OSS_120B)
TEXT = " ".join(f"word{number}" for number in range(19))


def head(entry: str = "gpt-oss-120b-eagle3-long-context", shapes: Any = None, **config: Any) -> Model:
    """NVIDIA's head for long contexts, with other values of its config, and of its eagle_config by `eagle`."""
    eagle = EAGLE3_HEAD["eagle_config"] | config.pop("eagle", {})
    return model(
        entry, {**EAGLE3_HEAD, "eagle_config": eagle, **config}, shapes=FC if shapes is None else shapes
    )


def told(preset: str, models: Models, *sets: str) -> tuple[str, ...]:
    return check_fit(resolve(preset, sets, {}).stack, models)


def refused(preset: str, models: Models, *sets: str) -> ConfigFault:
    with pytest.raises(ConfigFault) as caught:
        told(preset, models, *sets)
    assert caught.value.code == 3 and caught.value.why and caught.value.fix
    return caught.value


def llama(**draft: Any) -> Models:
    """70B and 8B, with other values of the draft's config; `tokenizer` and `its` are the two vocabularies."""
    own, its = draft.pop("tokenizer", vocabulary(TEXT)), draft.pop("its", vocabulary(TEXT))
    return Models(
        model("llama-3.3-70b-instruct-fp4", LLAMA_33_70B_FP4, tokenizer=its),
        model("llama-3.1-8b-instruct-fp4", {**LLAMA_31_8B_FP4, **draft}, tokenizer=own),
    )


# What passes in silence.


@pytest.mark.parametrize(
    "draft",
    [
        head(),
        head(shapes={**FC, "lm_head.weight": (201_088, 2880), "model.embed_tokens.weight": (201_088, 2880)}),
        head(draft_vocab_size=32_000, shapes={**FC, "d2t": (32_000,)}),
        head(draft_vocab_size=None, eagle={"eagle_aux_hidden_state_layer_ids": None}),
        head(vocab_size=201_089),
        head(vocab_size=32_000, draft_vocab_size=32_000, shapes={**FC, "d2t": (32_000,), "t2d": (201_088,)}),
        head(target_hidden_size=2880, hidden_size=1440, shapes={"fc.weight": (1440, 3 * 2880)}),
        head(eagle={"eagle_aux_hidden_state_layer_ids": [2, 18, 33]}),
        head(tie_word_embeddings=True, shapes={"model.fc.weight": (2880, 3 * 2880)}),
        head("lmsys-gpt-oss-120b-eagle3", eagle={"eagle_aux_hidden_state_layer_ids": [1, 17, 36]}),
    ],
    ids=lambda one: one.entry.id,
)
def test_a_head_of_its_target_passes(draft: Model) -> None:
    preset = "eagle3-sglang" if "lmsys" in draft.entry.id else "eagle3"
    assert told(preset, Models(GPT_OSS, draft)) == ()


def test_a_head_that_reads_the_last_layer_may_take_the_embedding_beside_it() -> None:
    for width in (2880, 2 * 2880):
        one = model("gpt-oss-120b-eagle3-throughput", {**EAGLE3_HEAD, "eagle_config": {}},
                    shapes={"fc.weight": (2880, width)})  # fmt: skip
        assert (
            told("eagle3", Models(GPT_OSS, one), "draft.model=gpt-oss-120b-eagle3-throughput", "draft.k=1")
            == ()
        )


@pytest.mark.parametrize(
    "draft",
    [
        {},
        {"tokenizer": vocabulary(TEXT, {100: "<tool>"})},
        {"tie_word_embeddings": True},
        {"vocab_size": 128_256 - 128},
        {"vocab_size": 128_256 + 128},
    ],
)
def test_a_model_of_its_target_s_family_passes(draft: dict[str, Any]) -> None:
    assert told("draft-target", llama(**draft)) == ()


def test_what_is_not_here_passes() -> None:
    unread = Model(load_entry("gpt-oss-120b-eagle3-long-context"), None)
    assert told("eagle3", Models(GPT_OSS, unread)) == ()
    assert told("eagle3", Models(Model(GPT_OSS.entry, None), head())) == ()
    assert check_fit(resolve("eagle3", [], {}, no_spec=True).stack, Models(GPT_OSS, None)) == ()


def test_a_head_without_headers_is_taken_at_its_config_s_word() -> None:
    bare = Model(load_entry("gpt-oss-120b-eagle3-long-context"), checkpoint(EAGLE3_HEAD, None))
    assert told("eagle3", Models(GPT_OSS, bare)) == ()


# Vocabularies.


def test_a_draft_of_another_tokenizer_family_is_refused() -> None:
    """Case 17."""
    other = vocabulary(" ".join(reversed(TEXT.split())))
    fault = refused("draft-target", llama(tokenizer=other))
    assert "another tokenizer" in fault.what and "of 19 tokens" in fault.why
    assert "spark-spec heads" in fault.fix and "--no-spec" in fault.fix


def test_a_few_other_tokens_cost_only_their_drafts() -> None:
    words = TEXT.split()
    (warning,) = told("draft-target", llama(tokenizer=vocabulary(" ".join([*words[:-1], "other"]))))
    assert warning.startswith("1 of 19 tokens")


def test_special_tokens_of_other_names_are_told() -> None:
    one, other = vocabulary(TEXT, {30: "<pad>"}), vocabulary(TEXT, {30: "<spare>"})
    (warning,) = told("draft-target", llama(tokenizer=other, its=one))
    assert "special tokens" in warning and "30" in warning


def test_another_end_of_text_is_told() -> None:
    (warning,) = told("draft-target", llama(eos_token_id=2))
    assert "ends a text with another token" in warning
    assert told("draft-target", llama(eos_token_id=128_009)) == ()


def test_vocabularies_that_cannot_be_compared_are_told() -> None:
    (warning,) = told("draft-target", llama(tokenizer=None))
    assert "could not be compared" in warning


def test_tokens_far_beyond_the_target_s_are_refused_and_fewer_are_told() -> None:
    fault = refused("draft-target", llama(vocab_size=151_936, tokenizer=None))
    assert "151936" in fault.why and "128256" in fault.why
    assert any(
        "smaller vocabulary" in one for one in told("draft-target", llama(vocab_size=64_000, tokenizer=None))
    )
    longer = vocabulary(TEXT, {128_300: "<late>"})
    (warning,) = told("draft-target", llama(vocab_size=128_320, tokenizer=longer))
    assert "45 tokens more" in warning


def test_vllm_wants_both_vocabularies_of_one_length() -> None:
    fault = refused("draft-target-vllm", llama(vocab_size=128_128))
    assert "use_heterogeneous_vocab" in fault.fix
    mixed = "vllm.speculative_config.use_heterogeneous_vocab=true"
    assert told("draft-target-vllm", llama(vocab_size=128_128), mixed) == ()
    assert told("draft-target-vllm", llama()) == ()


def test_a_head_of_another_vocabulary_is_refused() -> None:
    fault = refused("eagle3", Models(GPT_OSS, head(vocab_size=128_256)))
    assert "128256" in fault.why and "201088" in fault.why


def test_a_head_with_a_tokenizer_of_another_family_is_told_for_engines_do_not_read_it() -> None:
    """Case 17."""
    target = model("gpt-oss-120b", GPT_OSS_120B, tokenizer=vocabulary(TEXT))
    other = model("gpt-oss-120b-eagle3-long-context", EAGLE3_HEAD, shapes=FC,
                  tokenizer=vocabulary(" ".join(reversed(TEXT.split()))))  # fmt: skip
    (warning,) = told("eagle3", Models(target, other))
    assert "tokenizer of another family" in warning


def test_a_short_vocabulary_has_a_map_and_of_the_right_length() -> None:
    (warning,) = told("eagle3", Models(GPT_OSS, head(draft_vocab_size=32_000)))
    assert "no d2t" in warning
    fault = refused("eagle3", Models(GPT_OSS, head(draft_vocab_size=32_000, shapes={**FC, "d2t": (16_000,)})))
    assert "16000" in fault.why and "32000" in fault.why


# Heads and their layers.


def test_a_head_of_a_narrower_target_is_refused() -> None:
    fault = refused("eagle3", Models(GPT_OSS, head(hidden_size=4096)))
    assert "4096" in fault.why and "2880" in fault.why


def test_a_head_that_reads_layers_the_target_has_not_is_refused() -> None:
    deep = head("lmsys-gpt-oss-120b-eagle3", eagle={"eagle_aux_hidden_state_layer_ids": [1, 30, 61]})
    assert "36" in refused("eagle3-sglang", Models(GPT_OSS, deep)).why


def test_a_head_with_other_layers_than_the_catalog_s_is_refused() -> None:
    """Case 19."""
    fault = refused("eagle3-v3", Models(GPT_OSS, head("gpt-oss-120b-eagle3-v3")))
    assert "[1, 17, 32]" in fault.why and "[23, 29, 35]" in fault.why
    for own in ([24, 30, 36], [23, 29, 35]):
        right = head("gpt-oss-120b-eagle3-v3", eagle={"eagle_aux_hidden_state_layer_ids": own})
        assert told("eagle3-v3", Models(GPT_OSS, right)) == ()


@pytest.mark.parametrize("width", [2880, 2 * 2880, 4 * 2880])
def test_a_head_whose_first_matrix_takes_other_layers_is_refused(width: int) -> None:
    """Case 19: the crash over 5760 and 8640 numbers."""
    fault = refused("eagle3", Models(GPT_OSS, head(shapes={"fc.weight": (2880, width)})))
    assert str(width) in fault.why and "[1, 17, 32]" in fault.why


def test_a_head_of_three_layers_is_not_given_the_last_one_alone() -> None:
    """Case 19."""
    wrong = head("gpt-oss-120b-eagle3-throughput")
    fault = refused(
        "eagle3", Models(GPT_OSS, wrong), "draft.model=gpt-oss-120b-eagle3-throughput", "draft.k=1"
    )
    assert "8640" in fault.why and "[-1]" in fault.why


def uncatalogued(config: dict[str, Any], **more: Any) -> Model:
    """A model that the catalog does not have, such as one's own head."""
    source = HubSource(kind="hub", repo="me/mine", revision=None, files=("*.json",), bytes=None)
    entry = Entry(id="me/mine", name="me/mine", license=None, format="safetensors", quantization=None,
                  context_length=None, source=source)  # fmt: skip
    return Model(entry, checkpoint(config, **more))


def test_a_head_and_a_model_do_not_draft_in_each_other_s_way() -> None:
    target = llama().target
    fault = refused("draft-target", Models(target, uncatalogued(EAGLE3_HEAD)))
    assert "draft.method=eagle3" in fault.fix
    fault = refused("eagle3-70b", Models(target, uncatalogued(LLAMA_31_8B_FP4)))
    assert "32 layers" in fault.why and "draft.method=draft-target" in fault.fix


# Context, K, quantisation.


def test_a_draft_for_shorter_texts_is_refused_with_the_length_that_it_can() -> None:
    fault = refused("eagle3", Models(GPT_OSS, head(max_position_embeddings=4096, rope_scaling=None)))
    assert "4096" in fault.why and "32768" in fault.why and "serve.max_seq_len=4096" in fault.fix
    assert told("eagle3", Models(GPT_OSS, head(max_position_embeddings=4096)), "serve.max_seq_len=4096") == ()


def test_where_no_length_is_set_the_target_s_counts() -> None:
    short = head("gpt-oss-120b-eagle3", max_position_embeddings=8192)
    assert "131072" in refused("eagle3-original", Models(GPT_OSS, short)).why
    assert told("eagle3-original", Models(GPT_OSS, head("gpt-oss-120b-eagle3"))) == ()


def test_a_rope_that_is_scaled_reaches_further() -> None:
    rope = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
    assert told("eagle3", Models(GPT_OSS, head(max_position_embeddings=4096, rope_scaling=rope))) == ()


def test_vllm_lengthens_a_head_s_positions_itself() -> None:
    short = head("gpt-oss-120b-eagle3-v3", max_position_embeddings=4096,
                 eagle={"eagle_aux_hidden_state_layer_ids": [24, 30, 36]})  # fmt: skip
    (warning,) = told("eagle3-vllm", Models(GPT_OSS, short))
    assert "shorter texts" in warning


def test_a_longer_draft_than_the_head_proposes_is_told() -> None:
    proposes = {"speculators_config": {"proposal_methods": [{"speculative_tokens": 3}]}}
    (warning,) = told("eagle3", Models(GPT_OSS, head(**proposes)))
    assert "proposes 3 tokens" in warning and "draft.k is 5" in warning
    assert told("eagle3", Models(GPT_OSS, head(**proposes)), "draft.k=3") == ()


def test_sglang_is_told_of_four_bits_by_the_catalog_or_by_a_setting() -> None:
    four_bits = uncatalogued({**GPT_OSS_120B, "quantization_config": {"quant_algo": "NVFP4"}})
    fault = refused("eagle3-sglang", Models(four_bits, None))
    assert "sglang.quantization=modelopt_fp4" in fault.fix
    assert told("eagle3-sglang", Models(four_bits, None), "sglang.quantization=modelopt_fp4") == ()
    assert told("eagle3", Models(four_bits, None)) == ()
    assert told("eagle3-sglang", Models(GPT_OSS, None)) == ()
