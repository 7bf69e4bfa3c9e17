"""Does the endpoint speculate, and how far do its drafts get? By the engine's own counters."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.client.answer import Answer
from appliance.client.client import Client
from appliance.supervise.status import Counters
from appliance.verify import judge
from appliance.verify.acceptance import Acceptance, between
from appliance.verify.checks import OTHER_ENGINE, failed, not_offered, passed, unknown
from appliance.verify.prompts import Prompt
from appliance.verify.report import Check

ReadCounters = Callable[[], Counters | None]

NAME = "speculation"
SOON_S, PATIENCE_S = 2.0, 10.0
POLL_S = 0.05
ENOUGH_STEPS = 20  # verify steps after which "never accepted" is no chance

NO_DRAFT = "read the engine's log for its draft: spark-spec logs"
BAD_DRAFT = "the draft does not fit this target: take another, or serve without: spark-spec up … --no-spec"


@dataclass(frozen=True)
class Seen:
    """The check, and the counts behind it where there are any."""

    check: Check
    acceptance: Acceptance | None = None


def speculation(
    client: Client,
    prompts: tuple[Prompt, ...],
    max_tokens: int,
    *,
    expected: bool,
    read_counters: ReadCounters,
) -> Seen:
    """Ask the prompts and look at what the counters did meanwhile. Takes the counters' own delay, some seconds
    at most, on top of the answers."""
    before = newer(read_counters, 0.0, SOON_S)
    answers = [client.chat(prompt.messages, max_tokens=max_tokens, temperature=0.0) for prompt in prompts]
    fault = next((fault for answer in answers if (fault := judge.faults(answer))), None)
    if fault:
        return Seen(failed(NAME, fault, OTHER_ENGINE))
    after = newer(read_counters, time.time(), PATIENCE_S) if before else None
    counted = between(before, after) if before and after else None
    if counted is None or counted.speculated is None:
        counted = _told(answers)
    return Seen(_judge(counted, expected), counted)


def newer(read_counters: ReadCounters, than: float, patience_s: float) -> Counters | None:
    """The next reading begun later than a wall-clock time; None where none comes within `patience_s`."""
    deadline = time.monotonic() + patience_s
    while True:
        reading = read_counters()
        if reading and reading.at > than:
            return reading
        if time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)


def _told(answers: list[Answer]) -> Acceptance | None:
    """What the answers themselves say of drafts, where no counter does: the drafts' counts, with the steps unknown;
    or tokens per step, from which the steps follow, with the drafts unknown (TensorRT-LLM)."""
    drafted = [answer.drafted for answer in answers if answer.drafted is not None]
    if not drafted:
        return _by_length(answers)
    accepted = [answer.accepted for answer in answers if answer.accepted is not None]
    return Acceptance(drafted=sum(drafted), accepted=sum(accepted) if accepted else None)


def _by_length(answers: list[Answer]) -> Acceptance | None:
    """Counts from `tokens / steps`, which some engines give with each answer."""
    told = [(answer.completion_tokens, answer.acceptance_length) for answer in answers]
    known = [(tokens, length) for tokens, length in told if tokens and length]
    if not known:
        return None
    tokens = sum(tokens for tokens, _ in known)
    steps = round(sum(tokens / length for tokens, length in known))
    return Acceptance(steps=steps, accepted=max(0, tokens - steps))


def _judge(counted: Acceptance | None, expected: bool) -> Check:
    speculated = counted.speculated if counted else None
    if not expected:
        if speculated:
            return failed(NAME, "drafts are made, though this stack should serve the target alone", NO_DRAFT)
        return not_offered(NAME)
    if counted and speculated is not False and counted.accepted == 0 and (counted.steps or 0) >= ENOUGH_STEPS:
        many = "" if counted.drafted is None else f" of {counted.drafted}"
        return failed(NAME, f"not one{many} drafted tokens was accepted in {counted.steps} steps", BAD_DRAFT)
    if counted is None or speculated is None:
        return unknown(NAME, "this engine does not count its drafts, or the count did not come in time")
    if not speculated:
        return failed(NAME, "the engine made no draft at all", NO_DRAFT)
    return passed(NAME, describe(counted))


def describe(counted: Acceptance) -> str:
    """The figures in one line."""
    length, rate, rates = counted.acceptance_length, counted.draft_acceptance_rate, counted.position_rates
    parts = ["acceptance length " + ("unknown" if length is None else f"{length:.2f}")]
    if rate is not None:
        parts.append(f"{rate:.0%} of drafted tokens accepted")
    if rates is not None:
        parts.append("per position " + ", ".join(f"{one:.2f}" for one in rates))
    return "; ".join(parts)
