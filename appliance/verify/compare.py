"""The same target with and without speculation: is the greedy text the same, and which is faster here?"""

from collections.abc import Callable, Sequence
from statistics import median

from pydantic import Field, computed_field

from appliance.catalog.stack import Strict
from appliance.client.answer import Answer, Token
from appliance.client.client import Client
from appliance.verify.greedy import NEAR_TIE, first_difference, margin_at, said, token_at, with_margins
from appliance.verify.prompts import PROMPTS, Prompt

WARM_UP_TOKENS = 8
AROUND = 24
NO_DIFFERENCE = 0.03
"""Ratios within 1 ± this are called the same."""


class Sample(Strict):
    """One greedy answer to one prompt. `tokens` only where margins were collected; they are left out of JSON."""

    prompt: str
    text: str
    completion_tokens: int | None
    tok_s: float | None
    ttft_s: float | None
    tokens: tuple[Token, ...] = Field(default=(), exclude=True, repr=False)


class Run(Strict):
    """The answers of one endpoint, in the order of the prompts."""

    model: str
    samples: tuple[Sample, ...]


class Rate(Strict):
    """Tokens a second over several answers: the median, the slowest and the fastest."""

    median: float
    low: float
    high: float

    def words(self) -> str:
        """The median, and the spread where there is one."""
        spread = f" [{self.low:.1f} to {self.high:.1f}]" if self.high > self.low else ""
        return f"{self.median:.1f}{spread}"


class Difference(Strict):
    """Where two greedy texts part. `at` counts characters, `at_token` tokens, both from 0.

    `margin` is the distance in nats of the baseline's two best tokens there; None is unknown.
    """

    prompt: str
    at: int
    at_token: int | None
    speculated: str
    baseline: str
    margin: float | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def near_tie(self) -> bool | None:
        return None if self.margin is None else self.margin <= NEAR_TIE


class Comparison(Strict):
    """Speculation against the same target without it. `ratio` is speculated / baseline, of the medians."""

    prompts: int
    differences: tuple[Difference, ...]
    speculated: Rate | None
    baseline: Rate | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def identical(self) -> int:
        return self.prompts - len(self.differences)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def lossless(self) -> bool | None:
        """Whether every text is the same but for near-ties; None where a difference cannot be judged."""
        ties = [difference.near_tie for difference in self.differences]
        return False if False in ties else None if None in ties else True

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratio(self) -> float | None:
        if self.speculated is None or self.baseline is None:
            return None
        return self.speculated.median / self.baseline.median

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> str:
        """Which is faster here, in plain words."""
        if self.ratio is None or self.speculated is None or self.baseline is None:
            return "which is faster is unknown: the engine did not count its tokens"
        rates = f"{self.speculated.words()} against {self.baseline.words()} tok/s"
        if abs(self.ratio - 1) <= NO_DIFFERENCE:
            return f"speculation makes no difference here: {self.ratio:.2f}x ({rates})"
        word = "faster" if self.ratio > 1 else "slower"
        return f"speculation is {word} here: {self.ratio:.2f}x ({rates})"


def collect(
    client: Client,
    prompts: Sequence[Prompt] = PROMPTS,
    max_tokens: int = 96,
    *,
    margins: bool = False,
    on_prompt: Callable[[int, int], None] | None = None,
) -> Run:
    """Ask all prompts greedily, one after the other, streamed. A short request before them warms up, uncounted.

    `margins` asks each once more, untimed, for how far apart the best tokens lie: wanted of the baseline. (An
    engine that speculates may give no margins for accepted tokens.) `on_prompt` hears which prompt of how many
    is asked.
    """
    client.chat(prompts[0].messages, max_tokens=WARM_UP_TOKENS, temperature=0.0)
    samples = []
    for number, prompt in enumerate(prompts, start=1):
        if on_prompt:
            on_prompt(number, len(prompts))
        answer = client.chat(prompt.messages, max_tokens=max_tokens, temperature=0.0)
        tokens = with_margins(client, prompt.messages, max_tokens) if margins else ()
        samples.append(_sample(prompt, answer, tokens))
    return Run(model=client.model, samples=tuple(samples))


def _sample(prompt: Prompt, answer: Answer, tokens: tuple[Token, ...]) -> Sample:
    return Sample(
        prompt=prompt.name,
        text=said(answer),
        completion_tokens=answer.completion_tokens,
        tok_s=answer.tok_s,
        ttft_s=answer.ttft_s,
        tokens=tokens,
    )


def compare(speculated: Run, baseline: Run) -> Comparison:
    """Hold two runs of the same prompts against each other. Pure. Raises ValueError for other prompts."""
    pairs = list(zip(speculated.samples, baseline.samples, strict=True))
    if any(one.prompt != other.prompt for one, other in pairs):
        raise ValueError("the two runs asked different prompts")
    found = (_difference(one, other) for one, other in pairs)
    return Comparison(
        prompts=len(pairs),
        differences=tuple(one for one in found if one is not None),
        speculated=_rate(speculated),
        baseline=_rate(baseline),
    )


def _difference(speculated: Sample, baseline: Sample) -> Difference | None:
    at = first_difference(speculated.text, baseline.text)
    if at is None:
        return None
    return Difference(
        prompt=baseline.prompt,
        at=at,
        at_token=token_at(baseline.tokens, at),
        speculated=_around(speculated.text, at),
        baseline=_around(baseline.text, at),
        margin=margin_at(baseline.tokens, baseline.text, at),
    )


def _around(text: str, at: int) -> str:
    return text[max(0, at - AROUND) : at + AROUND]


def _rate(run: Run) -> Rate | None:
    rates = [sample.tok_s for sample in run.samples if sample.tok_s is not None]
    return Rate(median=median(rates), low=min(rates), high=max(rates)) if rates else None
