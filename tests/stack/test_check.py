"""A stack can be where its models are made for one another and its engine can serve them."""

import pytest

from appliance.catalog.preset import names
from appliance.core.errors import ConfigFault
from appliance.stack.check import check, pair_of
from appliance.stack.resolve import resolve


def refused(preset: str, *sets: str) -> ConfigFault:
    with pytest.raises(ConfigFault) as caught:
        check(resolve(preset, sets, {}).stack)
    assert caught.value.code == 3 and caught.value.why and caught.value.fix
    return caught.value


@pytest.mark.parametrize("no_spec", [False, True])
@pytest.mark.parametrize("preset", names())
def test_every_preset_can_be_with_and_without_its_draft(preset: str, no_spec: bool) -> None:
    check(resolve(preset, [], {}, no_spec=no_spec).stack)


def test_a_pair_is_what_the_catalog_knows_of_the_models() -> None:
    pair = pair_of(resolve("eagle3", [], {}).stack)
    assert (pair.target.name, pair.draft and pair.draft.name) == (
        "openai/gpt-oss-120b",
        "nvidia/gpt-oss-120b-Eagle3-long-context",
    )
    assert pair_of(resolve("eagle3", [], {}, no_spec=True).stack).draft is None


@pytest.mark.parametrize("key", ["target.model", "draft.model"])
def test_a_model_the_catalog_does_not_have_is_refused_with_the_nearest(key: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        check(resolve("eagle3", [f"{key}=gpt-oss-120"], {}).stack)
    assert "gpt-oss-120b" in caught.value.fix


def test_a_model_of_a_format_the_engine_does_not_read_is_refused() -> None:
    fault = refused("eagle3", "target.model=smollm2-135m-instruct")
    assert fault.what == "the engine trtllm cannot read smollm2-135m-instruct"
    assert "gguf" in fault.why and "safetensors" in fault.why
    assert "cannot read llama" in refused("demo", "draft.model=llama-3.1-8b-instruct-fp4").what


def test_more_context_than_target_or_draft_can_do_is_refused() -> None:
    target = refused("eagle3", "serve.max_seq_len=131073")
    assert "gpt-oss-120b" in target.what and "131072" in target.fix
    draft = refused("eagle3-70b", "draft.model=lmsys-llama-3.3-70b-eagle3", "serve.max_seq_len=2049")
    assert "lmsys-llama-3.3-70b-eagle3" in draft.what and "2048" in draft.fix


@pytest.mark.parametrize(
    ("preset", "sets", "kind"),
    [
        ("eagle3-70b", ("draft.model=llama-3.1-8b-instruct-fp4",), "draft-target"),
        ("eagle3", ("draft.method=draft-target",), "eagle3"),
        ("draft-target-vllm", ("draft.model=nvidia-llama-3.3-70b-eagle3",), "eagle3"),
        ("demo", ("draft.method=eagle3",), "draft-target"),
    ],
)
def test_a_head_and_a_model_do_not_draft_in_each_other_s_way(
    preset: str, sets: tuple[str, ...], kind: str
) -> None:
    fault = refused(preset, *sets)
    assert f"it drafts by {kind}" in fault.why and f"draft.method={kind}" in fault.fix


@pytest.mark.parametrize("preset", ["eagle3", "eagle3-vllm", "eagle3-sglang"])
def test_a_head_of_another_target_is_refused(preset: str) -> None:
    for head in ("nvidia-llama-3.3-70b-eagle3", "qwen3-235b-a22b-eagle3"):
        fault = refused(preset, f"draft.model={head}")
        assert fault.what == f"{head} was not made for gpt-oss-120b" and "spark-spec heads" in fault.fix


@pytest.mark.parametrize(
    ("preset", "head", "most"),
    [
        ("eagle3", "gpt-oss-120b-eagle3-throughput", 1),
        ("eagle3-vllm", "gpt-oss-120b-eagle3-throughput", 1),
        ("eagle3-sglang", "gpt-oss-120b-eagle3-throughput", 1),
        ("eagle3-v3", "gpt-oss-120b-eagle3-v3", 3),
    ],
)
def test_a_head_drafts_no_more_than_it_was_made_for(preset: str, head: str, most: int) -> None:
    """Case 19."""
    fault = refused(preset, f"draft.model={head}", f"draft.k={most + 1}")
    assert f"at most {most}" in fault.why and f"draft.k={most}" in fault.fix
    check(resolve(preset, [f"draft.model={head}", f"draft.k={most}"], {}).stack)


def test_a_head_published_for_another_engine_is_a_warning() -> None:
    told = check(resolve("eagle3", ["draft.model=lmsys-gpt-oss-120b-eagle3"], {}).stack)
    assert any("published for sglang, not for trtllm" in line for line in told)
    assert not any("published for" in line for line in check(resolve("eagle3", [], {}).stack))


def test_models_without_a_pinned_revision_are_named_once() -> None:
    said = [line for line in check(resolve("eagle3", [], {}).stack) if "no revision is pinned" in line]
    assert len(said) == 1
    assert "openai/gpt-oss-120b and nvidia/gpt-oss-120b-Eagle3-long-context" in said[0]
    assert check(resolve("demo", [], {}).stack) == ()


@pytest.mark.parametrize(
    ("preset", "pair"),
    [
        ("eagle3", "vllm.gpu_memory_utilization=0.5"),
        ("eagle3", "vllm.gibberish=1"),
        ("eagle3-vllm", "trtllm.gibberish=1"),
        ("eagle3", "llamacpp.threads=3"),
        ("demo", "sglang.mem_fraction_static=0.5"),
        ("eagle3", "engine.name=vllm"),
    ],
)
def test_a_key_of_another_engine_is_refused(preset: str, pair: str) -> None:
    assert "means nothing to the engine" in refused(preset, pair).what


def test_a_draft_longer_than_the_published_one_is_told() -> None:
    assert any("published with K = 5" in one for one in check(resolve("eagle3", ["draft.k=9"], {}).stack))
    assert not any("published with" in one for one in check(resolve("eagle3", [], {}).stack))


def test_a_head_of_one_s_own_is_named_as_a_repository_and_said_to_be_unknown() -> None:
    stack = resolve("head-default", ["draft.model=me/my-head"], {}).stack
    assert "me/my-head is not in the catalog: what it is made for is not known" in check(stack)
    assert pair_of(stack).draft.source.repo == "me/my-head"


def test_a_published_head_may_be_named_by_its_repository_too() -> None:
    stack = resolve("eagle3", ["draft.model=nvidia/gpt-oss-120b-Eagle3-throughput", "draft.k=3"], {}).stack
    with pytest.raises(ConfigFault, match="more than gpt-oss-120b-eagle3-throughput was made for"):
        check(stack)


@pytest.mark.parametrize("name", ["a/b/c", "/data/my-head", "me/", "../x/y", "me/my head"])
def test_a_name_that_is_no_repository_is_refused(name: str) -> None:
    assert "there is no model" in refused("head-default", f"draft.model={name}").what


def test_a_head_is_no_target() -> None:
    name = "nvidia/gpt-oss-120b-Eagle3-long-context"
    fault = refused("eagle3-baseline", "target.model=gpt-oss-120b-eagle3-long-context", f"serve.name={name}")
    assert "cannot be a target" in fault.what and "gpt-oss-120b" in fault.fix


@pytest.mark.parametrize(
    ("preset", "pair"),
    [
        ("eagle3", "trtllm.env_overrides.HF_TOKEN=hf_abcdefgh12345"),
        ("eagle3", "trtllm.internal_request_auth_key=x"),
        ("eagle3-vllm", "vllm.hf_overrides={auth_token: anything}"),
        ("eagle3-vllm", "vllm.additional_config={header: hf_abcdefgh12345}"),
        ("eagle3-sglang", "sglang.api_key=x"),
    ],
)
def test_a_secret_does_not_get_into_a_rendered_file(preset: str, pair: str) -> None:
    """Case 3: the sections of the engines are a way in, too."""
    fault = refused(preset, pair)
    assert "cannot be set" in fault.what and "secret" in fault.why
    assert "hf_abcdefgh12345" not in f"{fault.what} {fault.why} {fault.fix}"
