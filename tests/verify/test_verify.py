"""verify against a fake endpoint: one that answers well, and one for each way not to."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import pytest

from appliance.catalog.stack import Offers
from appliance.client.client import Client, Timeouts
from appliance.client.errors import NotReachable
from appliance.supervise.status import Counters
from appliance.verify import speculation
from appliance.verify.acceptance import Acceptance
from appliance.verify.report import Check
from appliance.verify.verify import VerifyReport, verify
from tests.fakes.openai_upstream import MODEL, Brain, Json, Reply, Upstream, good

ALL = Offers.model_validate({"json": True, "tools": True})
QUICK = Timeouts(first_token_s=10, silence_s=5, answer_s=20)


class Engine:
    """Counters that grow by one step of three drafts at each reading of a speculating engine."""

    def __init__(self, accepted: int = 2, per_position: tuple[int, ...] | None = (1, 1, 0)) -> None:
        self.reads = count()
        self.accepted, self.per_position = accepted, per_position

    def read(self) -> Counters:
        steps = 30 * next(self.reads)
        positions = self.per_position and tuple(one * steps for one in self.per_position)
        return Counters(time.time(), 1, steps * 3, steps, steps * 3, steps * self.accepted, positions)


def idle() -> Counters:
    return Counters(time.time(), 1, 0, 0, 0, 0, None)


def verified(
    brain: Brain | Reply = good,
    offers: Offers = ALL,
    expected: bool = False,
    read: Callable[[], Counters | None] = idle,
    quick: bool = False,
) -> VerifyReport:
    with Upstream(brain) as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        return verify(client, offers, expected, read, quick)


def outcome(report: VerifyReport, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speculation, "SOON_S", 0.02)
    monkeypatch.setattr(speculation, "PATIENCE_S", 0.2)
    monkeypatch.setattr(speculation, "POLL_S", 0.001)


def test_a_good_endpoint_passes_everything_it_offers() -> None:
    report = verified(expected=True, read=Engine().read)
    assert report.ok
    assert [(check.name, check.outcome) for check in report.checks] == [
        (name, "passed")
        for name in ("model name", "speculation", "chat", "completion", "stream", "stream equals whole",
                     "json schema", "tools")
    ]  # fmt: skip


def test_what_is_not_offered_is_not_asked_and_not_passed() -> None:
    nothing = Offers.model_validate({"chat": False, "completion": False, "stream": False})
    with Upstream() as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        report = verify(client, nothing, False, idle, False)
        assert up.bodies == []
    assert {check.outcome for check in report.checks[2:]} == {"not offered"}
    assert report.ok


def test_quick_asks_less() -> None:
    with Upstream() as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        quick = verify(client, ALL, False, idle, True)
        asked = len(up.bodies)
        full = verify(client, ALL, False, idle, False)
        assert asked < len(up.bodies) - asked
    assert {check.name for check in quick.checks} < {check.name for check in full.checks}


def test_another_model_on_the_port_is_found() -> None:
    with Upstream() as up, Client(up.base_url, "mine", timeouts=QUICK) as client:
        report = verify(client, ALL, False, idle, True)
    assert "fake, not mine" in outcome(report, "model name").why
    assert report.complaint()[0].startswith("mine does not answer well: model name")


def test_nobody_there_is_raised_not_reported(free_port: int) -> None:
    with Client(f"http://127.0.0.1:{free_port}", MODEL) as client, pytest.raises(NotReachable):
        verify(client, ALL, False, idle, True)


def chats(reply: Reply) -> Brain:
    return lambda body: good(body) if body.get("tools") or body.get("response_format") else reply


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (Reply(pieces=("!",) * 64, finish="length"), "repeats one token"),
        (Reply(pieces=("<|channel|>", "Hi")), "control token"),
        (Reply(pieces=()), "empty"),
        (Reply(finish="error"), "reason"),
        (Reply(status=500), "out of order"),
        (Reply(cut_after=2, body=b"{"), "not JSON"),
    ],
)
def test_garble_fails_the_chat_with_its_reason(reply: Reply, word: str) -> None:
    report = verified(chats(reply))
    assert not report.ok
    for name in ("chat", "completion", "stream", "speculation"):
        check = outcome(report, name)
        assert check.outcome == "failed" and check.fix
    assert word in outcome(report, "chat").why
    assert outcome(report, "json schema").outcome == "passed"  # one fault does not hide what works


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (Reply(cut_after=3), "cut off"), (Reply(reset_after=3), "cut off"), (Reply(done=False), "cut off"),
        (Reply(usage=False), "no usage"), (Reply(raw_events=(b"data: ]\n\n",)), "malformed"),
        (Reply(error="out of memory"), "out of memory"),
    ],
)  # fmt: skip
def test_a_stream_must_be_whole(reply: Reply, word: str) -> None:
    check = outcome(verified(chats(reply)), "stream")
    assert check.outcome == "failed" and word in check.why


def test_a_stream_held_back_to_one_chunk_fails() -> None:
    def brain(body: Json) -> Reply:
        reply = good(body)
        timings = {"completion_tokens": 12.0}  # more tokens than chunks
        return replace(reply, pieces=("".join(reply.pieces),), timings=timings) if body["stream"] else reply

    assert "one chunk" in outcome(verified(brain), "stream").why


def streams(streamed: str, whole: Iterator[str], margins: tuple[float, ...] | None = None) -> Brain:
    def brain(body: Json) -> Reply:
        if body.get("tools") or body.get("response_format"):
            return good(body)
        text = streamed if body["stream"] else "I am here" if body.get("logprobs") else next(whole)
        pieces = tuple(part for part in text.partition(" am") if part)
        return Reply(pieces=pieces, margins=margins)

    return brain


def always(text: str) -> Iterator[str]:
    while True:
        yield text


@pytest.mark.parametrize(
    ("margins", "outcome_", "word"),
    [
        ((4.0, 4.0, 0.01), "passed", "near-tie"),
        ((4.0, 4.0, 3.0), "failed", "differs at character 5"),
        (None, "unknown", "no margins"),
    ],
)
def test_streamed_and_whole_text_may_differ_only_at_a_near_tie(
    margins: tuple[float, ...] | None, outcome_: str, word: str
) -> None:
    report = verified(streams("I am there", always("I am here"), margins))
    check = outcome(report, "stream equals whole")
    assert check.outcome == outcome_ and word in check.detail + check.why


def test_an_engine_that_never_says_the_same_is_not_blamed_on_streaming() -> None:
    texts = (f"I am {number}" for number in count())
    check = outcome(verified(streams("I am there", texts)), "stream equals whole")
    assert check.outcome == "unknown" and "one request to the next" in check.why


@pytest.mark.parametrize(
    ("text", "word"),
    [('{"city": "Oslo", "days": 3}', "city"), ("Sure! Here it is", "JSON"), ('{"city": "Pa', "JSON")],
)
def test_json_must_fit_the_schema(text: str, word: str) -> None:
    check = outcome(
        verified(lambda body: Reply((text,)) if body.get("response_format") else good(body)), "json schema"
    )
    assert check.outcome == "failed" and word in check.why and "offers.json=false" in check.fix


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (Reply(pieces=()), "empty"),
        (Reply(pieces=(), reasoning=("I call it.",)), "empty"),
        (Reply(pieces=("It is sunny.",)), "in words"),
        (Reply(pieces=(), tool_calls=(("get_time", "{}"),), finish="tool_calls"), "unknown tool"),
        (Reply(pieces=(), tool_calls=(("get_weather", "Paris"),), finish="tool_calls"), "JSON"),
        (Reply(pieces=(), tool_calls=(("get_weather", "{}"),), finish="tool_calls"), "city"),
    ],
)
def test_a_tool_must_be_called_with_fitting_arguments(reply: Reply, word: str) -> None:
    check = outcome(verified(lambda body: reply if body.get("tools") else good(body)), "tools")
    assert check.outcome == "failed" and word in check.why


def test_speculation_shows_its_figures() -> None:
    report = verified(expected=True, read=Engine().read)
    assert report.acceptance is not None and report.acceptance.acceptance_length == 3.0
    assert report.acceptance.position_rates == (1.0, 1.0, 0.0)
    assert outcome(report, "speculation").detail == (
        "acceptance length 3.00; 67% of drafted tokens accepted; per position 1.00, 1.00, 0.00"
    )
    assert report.as_data()["acceptance"]["acceptance_length"] == 3.0 and report.as_data()["ok"] is True


def test_no_draft_where_one_is_expected_fails() -> None:
    assert "no draft at all" in outcome(verified(expected=True), "speculation").why


def test_drafts_never_accepted_fail() -> None:
    check = outcome(verified(expected=True, read=Engine(accepted=0).read), "speculation")
    assert check.outcome == "failed" and "not one of" in check.why


def test_drafts_where_none_is_expected_fail() -> None:
    assert outcome(verified(read=Engine().read), "speculation").outcome == "failed"


def test_an_engine_that_does_not_count_is_unknown_and_no_failure() -> None:
    report = verified(expected=True, read=lambda: None)
    assert outcome(report, "speculation").outcome == "unknown" and report.acceptance is None and report.ok


def test_without_counters_the_answers_own_word_is_taken() -> None:
    def brain(body: Json) -> Reply:
        return replace(good(body), timings={"draft_n": 8, "draft_n_accepted": 2})

    report = verified(brain, expected=True, read=lambda: None)
    assert report.acceptance == Acceptance(drafted=32, accepted=8)
    assert (
        outcome(report, "speculation").detail == "acceptance length unknown; 25% of drafted tokens accepted"
    )


@pytest.mark.parametrize(
    ("length", "expected", "result"),
    [
        (2.0, True, "passed"),
        (1.0, True, "failed"),
        (1.0, False, "not offered"),
        (2.0, False, "failed"),
    ],
)
def test_without_counts_of_drafts_the_tokens_per_step_of_the_answers_tell(
    length: float, expected: bool, result: str
) -> None:
    """TensorRT-LLM's drafts are counted as nought before PR #17082; its answers say how far each step got."""

    def brain(body: Json) -> Reply:
        pieces = tuple(f" word{i}" for i in range(24))
        return replace(good(body), pieces=pieces, per_iteration=length)

    report = verified(brain, expected=expected, read=lambda: Counters(time.time(), 1))
    assert outcome(report, "speculation").outcome == result
    if length == 2.0:
        assert report.acceptance and report.acceptance.acceptance_length == 2.0


def test_a_restart_in_between_is_unknown() -> None:
    starts = count(1)
    report = verified(expected=True, read=lambda: Counters(time.time(), next(starts), 9, 9, 9, 9))
    assert outcome(report, "speculation").outcome == "unknown"


def test_only_a_reading_begun_after_the_answers_counts() -> None:
    stamps = [Counters(at, 1, steps=steps) for at, steps in ((9.0, 1), (10.0, 2), (10.1, 7))]
    readings = iter(stamps)
    found = speculation.newer(lambda: next(readings, None), than=10.0, patience_s=5)
    assert found is not None and found.steps == 7


def test_waiting_for_a_reading_has_an_end() -> None:
    assert speculation.newer(lambda: Counters(5.0, 1), than=10.0, patience_s=0.1) is None
