"""Speculation against the same target without it."""

import json

import pytest

from appliance.client.answer import Token
from appliance.client.client import Client
from appliance.verify.compare import Comparison, Run, Sample, collect, compare
from appliance.verify.prompts import PROMPTS
from tests.fakes.openai_upstream import MODEL, Json, Reply, Upstream


def sample(
    prompt: str, text: str = "Yes.", tok_s: float | None = 10.0, tokens: tuple[Token, ...] = ()
) -> Sample:
    return Sample(prompt=prompt, text=text, completion_tokens=2, tok_s=tok_s, ttft_s=0.1, tokens=tokens)


def run(*samples: Sample) -> Run:
    return Run(model="m", samples=samples)


def compared(fast: float | None, slow: float | None) -> Comparison:
    return compare(run(sample("a", tok_s=fast)), run(sample("a", tok_s=slow)))


@pytest.mark.parametrize(
    ("speculated", "baseline", "words"),
    [
        (6.1, 10.0, "speculation is slower here: 0.61x (6.1 against 10.0 tok/s)"),
        (17.5, 10.0, "speculation is faster here: 1.75x (17.5 against 10.0 tok/s)"),
        (10.2, 10.0, "speculation makes no difference here: 1.02x (10.2 against 10.0 tok/s)"),
    ],
)
def test_the_verdict_says_which_is_faster(speculated: float, baseline: float, words: str) -> None:
    assert compared(speculated, baseline).verdict == words


def test_the_verdict_shows_the_spread_of_each_side() -> None:
    made = compare(
        run(sample("a", tok_s=5.0), sample("b", tok_s=7.0)),
        run(sample("a", tok_s=9.0), sample("b", tok_s=11.0)),
    )
    assert (
        made.verdict
        == "speculation is slower here: 0.60x (6.0 [5.0 to 7.0] against 10.0 [9.0 to 11.0] tok/s)"
    )


@pytest.mark.parametrize(("speculated", "baseline"), [(None, 10.0), (10.0, None)])
def test_without_token_counts_the_verdict_is_unknown(
    speculated: float | None, baseline: float | None
) -> None:
    made = compared(speculated, baseline)
    assert made.ratio is None and "unknown" in made.verdict


def test_rates_are_medians_with_the_slowest_and_the_fastest() -> None:
    spread = run(*(sample(str(rate), tok_s=rate) for rate in (10.0, 30.0, 14.0)))
    made = compare(spread, spread)
    assert made.speculated is not None
    assert (made.speculated.median, made.speculated.low, made.speculated.high) == (14.0, 10.0, 30.0)


def test_the_same_text_is_lossless() -> None:
    made = compare(run(sample("a"), sample("b")), run(sample("a"), sample("b")))
    assert (made.identical, made.differences, made.lossless) == (2, (), True)


def margins(third: float) -> tuple[Token, ...]:
    return (Token(b"I", 4.0), Token(b" am", 3.0), Token(b" here", third), Token(b".", 5.0))


@pytest.mark.parametrize(("margin", "lossless"), [(0.05, True), (1.5, False)])
def test_a_difference_counts_only_where_the_best_tokens_lie_apart(margin: float, lossless: bool) -> None:
    made = compare(run(sample("a", "I am there.")), run(sample("a", "I am here.", tokens=margins(margin))))
    (found,) = made.differences
    assert (found.at, found.at_token, found.margin) == (5, 2, margin)
    assert found.speculated == "I am there." and found.baseline == "I am here."
    assert found.near_tie is lossless and made.lossless is lossless and made.identical == 0


def test_a_difference_without_margins_is_unknown_not_fine() -> None:
    made = compare(run(sample("a", "I am there.")), run(sample("a", "I am here.")))
    assert made.differences[0].at_token is None and made.lossless is None


def test_one_real_difference_outweighs_an_unknown_one() -> None:
    speculated = run(sample("a", "I am there."), sample("b", "No"))
    made = compare(speculated, run(sample("a", "I am here.", tokens=margins(2.0)), sample("b")))
    assert made.lossless is False


def test_runs_of_other_prompts_are_not_compared() -> None:
    with pytest.raises(ValueError, match="prompts"):
        compare(run(sample("a")), run(sample("b")))
    with pytest.raises(ValueError, match="argument 2"):
        compare(run(sample("a"), sample("b")), run(sample("a")))


def test_the_comparison_is_plain_data() -> None:
    odd = (Token(b"\xf0\x9f", 0.1), Token(b"\xa6\x99", 0.1))
    made = compare(run(sample("a", "!")), run(sample("a", "🦙", tokens=odd)))
    assert json.loads(made.model_dump_json())["differences"][0]["near_tie"] is True
    assert "tokens" not in json.loads(run(sample("a", tokens=odd)).model_dump_json())["samples"][0]


def test_collecting_asks_every_prompt_greedily_after_a_warm_up() -> None:
    with Upstream(Reply(margins=(1.0,) * 4)) as up, Client(up.base_url, MODEL) as client:
        made = collect(client, PROMPTS[:2], max_tokens=16, margins=True)
    assert [one.prompt for one in made.samples] == [one.name for one in PROMPTS[:2]]
    assert made.samples[0].text == "Hello, world!" and len(made.samples[0].tokens) == 4
    assert all(body["temperature"] == 0 for body in up.bodies)
    assert [body["stream"] for body in up.bodies] == [True, True, False, True, False]


def test_an_engine_without_margins_is_no_failure() -> None:
    def brain(body: Json) -> Reply:
        return Reply(status=400) if body.get("logprobs") else Reply()

    with Upstream(brain) as up, Client(up.base_url, MODEL) as client:
        assert collect(client, PROMPTS[:1], margins=True).samples[0].tokens == ()


def test_the_prompts_are_varied_and_named_once() -> None:
    assert len({prompt.name for prompt in PROMPTS}) == len(PROMPTS) == 8
    assert {prompt.kind for prompt in PROMPTS} == {"chat", "code", "maths", "summary"}
