import json

import pytest

from appliance.supervise.counters import Reading, add, iterations, prometheus, read
from appliance.supervise.plan import CounterTable

NAMES = {
    "generated": "llamacpp:tokens_predicted_total",
    "steps": "llamacpp:spec_decode_num_drafts_total",
    "drafted": "llamacpp:spec_decode_num_draft_tokens_total",
    "accepted": "llamacpp:spec_decode_num_accepted_tokens_total",
    "accepted_per_position": "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    "progress": "llamacpp:n_decode_total",
    "active": "llamacpp:requests_processing",
}
LLAMACPP = """\
# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 120
llamacpp:n_decode_total 75
llamacpp:requests_processing 1
llamacpp:spec_decode_num_drafts_total 50
llamacpp:spec_decode_num_draft_tokens_total 150
llamacpp:spec_decode_num_accepted_tokens_total 69
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 34
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 22
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 13
"""


def test_what_llamacpp_prints_becomes_our_words() -> None:
    assert prometheus(LLAMACPP, NAMES) == Reading(
        generated=120,
        steps=50,
        drafted=150,
        accepted=69,
        accepted_per_position=(34, 22, 13),
        progress=75,
        active=1,
    )


def test_what_is_not_counted_is_unknown_not_zero() -> None:
    assert prometheus("", NAMES) == Reading()
    assert prometheus(LLAMACPP, {"generated": NAMES["generated"]}) == Reading(generated=120)


def test_label_sets_are_summed() -> None:
    text = 'tokens{model="a"} 3\ntokens{model="b, with \\"} 1"} 4\ntokens 1\n'
    assert prometheus(text, {"generated": "tokens"}).generated == 8


def test_positions_are_ordered_by_number_and_summed_over_other_labels() -> None:
    lines = [f'pos{{slot="{slot}",position="{i}"}} {20 - i}' for slot in "ab" for i in (10, 2, 0, 1)]
    reading = prometheus("\n".join(lines), {"accepted_per_position": "pos"})
    assert reading.accepted_per_position == (40, 38, 36, 20)


@pytest.mark.parametrize(
    "line",
    [
        "tokens",
        "tokens x",
        "tokens NaN",
        "tokens +Inf",
        "tokens{ 9",
        "9tokens 9",
        "{} 9",
        "tokens 9 9 9",
        "# tokens 9",
        "tokens_more 9",
        "\x00\ufffd",
    ],
)
def test_a_malformed_line_costs_only_itself(line: str) -> None:
    assert prometheus(f"{line}\ntokens 7\n{line}\n", {"generated": "tokens"}).generated == 7


@pytest.mark.parametrize(("value", "count"), [("1.5e+06", 1_500_000), ("7.0", 7), ("7 1790000000000", 7)])
def test_numbers_come_in_every_notation(value: str, count: int) -> None:
    assert prometheus(f"tokens {value}", {"generated": "tokens"}).generated == count


@pytest.mark.parametrize("labels", ['{position="x"}', '{position="-1"}', "{}", ""])
def test_a_series_without_a_position_is_not_one_by_position(labels: str) -> None:
    assert prometheus(f"pos{labels} 3", {"accepted_per_position": "pos"}).accepted_per_position is None


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="telepathy"):
        read(CounterTable("/metrics", "telepathy", {}), "")


# A list of iterations that is emptied by reading

ITERATIONS = {
    "steps": "specDecodingStats.numRequestsWithDraftTokens",
    "drafted": "specDecodingStats.numDraftTokens",
    "accepted": "specDecodingStats.numAcceptedTokens",
    "active": "numActiveRequests",
}


def iteration(drafted: object, accepted: object, active: int = 1, steps: object = 1) -> dict[str, object]:
    """One iteration as trtllm-serve tells it, with what is not read beside it."""
    return {
        "iter": 7,
        "iterLatencyMS": 31.5,
        "numActiveRequests": active,
        "kvCacheStats": {"usedNumBlocks": 12},
        "specDecodingStats": {
            "numDraftTokens": drafted,
            "numAcceptedTokens": accepted,
            "numRequestsWithDraftTokens": steps,
            "acceptanceLength": 2.5,
        },
    }


def told(*rows: object) -> Reading:
    return iterations(json.dumps(rows), ITERATIONS)


def test_iterations_are_summed() -> None:
    assert told(iteration(5, 2), iteration(5, 0), iteration(0, 0, 0, 0)) == Reading(
        steps=2, drafted=10, accepted=2, progress=3, active=0
    )


def test_the_requests_in_flight_are_the_last_iteration_s_and_none_where_nothing_happened() -> None:
    assert told(iteration(5, 2, 0), iteration(5, 2, 3)).active == 3
    assert told() == Reading(progress=0, active=0)


def test_drafts_that_are_all_counted_as_nought_are_not_counted() -> None:
    """TensorRT-LLM before #17082 says 0 for each: unknown, not a failure."""
    assert told(iteration(0, 0, steps=0), iteration(0, 0, steps=0)) == Reading(progress=2, active=1)
    assert told({"numActiveRequests": 1}) == Reading(progress=1, active=1)


def test_drafts_of_which_none_was_taken_are_counted() -> None:
    assert told(iteration(5, 0)).accepted == 0


@pytest.mark.parametrize("odd", ["7", None, True, float("nan"), float("inf"), [], {}])
def test_what_is_no_number_costs_only_itself(odd: object) -> None:
    assert told(iteration(odd, odd), 7, None, iteration(5, 2)).drafted == 5


@pytest.mark.parametrize("text", ["", "not json", "7", "null", '{"a": 1}'])
def test_what_is_no_list_tells_nothing(text: str) -> None:
    assert iterations(text, ITERATIONS) in (Reading(), Reading(progress=0, active=0))


def test_readings_add_up_whatever_one_of_them_does_not_tell() -> None:
    first, idle = told(iteration(5, 2), iteration(5, 3)), told()
    total = add(add(first, idle), told(iteration(5, 0, active=4)))
    assert total == Reading(steps=3, drafted=15, accepted=5, progress=3, active=4)
    assert add(idle, idle) == Reading(progress=0, active=0)


def test_the_format_is_chosen_by_the_table() -> None:
    table = CounterTable("/metrics", "iterations", ITERATIONS)
    assert read(table, json.dumps([iteration(5, 2)])).accepted == 2


def test_what_was_accepted_follows_from_the_answers_where_it_is_not_counted() -> None:
    """SGLang tells rates of its drafts, and counts tokens, answers and verify steps."""
    names = {"generated": "g", "steps": "s", "answers": "a"}
    reading = prometheus("g 100\ns 40\na 4\n", names)
    assert (reading.accepted, reading.drafted) == (56, None)
    assert prometheus("g 100\na 4\n", names).accepted is None
    assert prometheus("g 100\ns 40\n", names | {"accepted": "x"}).accepted is None
