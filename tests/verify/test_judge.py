"""What is a sound answer, and what is garble."""

import pytest

from appliance.client.answer import Answer, ToolCall
from appliance.verify import judge
from appliance.verify.checks import Trip

BABBLE = " The capital of France is Paris, the capital of France is Paris, the capital of France is" * 6


def answer(text: str, finish: str = "stop", **more: object) -> Answer:
    return Answer(text=text, finish_reason=finish, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "!" * 48, "!" * 5000, "Well" + "!" * 300, "Sure: " + " the" * 40, "\n" * 5 + "a" * 64, "the " * 40,
        "Yes." + "\n" * 100, '{"city":' + " " * 200, "Ответ:" + " да" * 60, "haha" * 30, "0" * 500,
        "A sound beginning, longer than what follows. " * 4 + "!" * 64,
    ],
)  # fmt: skip
def test_one_token_to_the_limit_is_garble(text: str) -> None:
    assert "repeats one token" in (judge.faults(answer(text, "length")) or "")


@pytest.mark.parametrize("text", ["!" * 40, " no" * 20])
def test_nothing_but_one_token_is_garble_even_if_it_stops(text: str) -> None:
    assert "repeats one token" in (judge.faults(answer(text)) or "")


def test_one_token_for_ever_in_the_reasoning_is_garble() -> None:
    assert "repeats one token" in (judge.faults(answer("", "length", reasoning="?" * 100)) or "")


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        (BABBLE, "length"), ("1234567890" * 40, "length"), ("Seine River, " * 60, "length"),
        ("| a | b |\n|" + "-" * 30 + "|" + "-" * 30 + "|\n", "length"), ("Title\n" + "=" * 40 + "\nText.", "stop"),
        ("Nooooooooooo!", "stop"), ("Wow!!!!!!!!!!", "length"), ("10 000 000 000 000 000 000", "stop"),
        ("4", "stop"), ("no no no, said the king", "length"), ("one two three " * 30, "length"),
        ("The number is 1" + "0" * 30, "stop"),
    ],
)  # fmt: skip
def test_babble_and_ornaments_pass(text: str, finish: str) -> None:
    assert judge.faults(answer(text, finish)) is None


@pytest.mark.parametrize(
    "text",
    [
        "Hi<|im_end|>", "<|channel|>analysis<|message|>We", "<s>Hello", "Bye</s>", "[INST] Hi [/INST]",
        "analysisThe user asks.assistantfinalParis.", "x assistantcommentary to=functions.f", "a<end_of_turn>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>", "[TOOL_CALLS] []",
        "<<SYS>>be nice", "analysisWe need to answer.", "a<unk>b",
    ],
)  # fmt: skip
def test_leaked_control_tokens_are_found(text: str) -> None:
    assert "control token" in (judge.faults(answer(text)) or "")


@pytest.mark.parametrize(
    "text",
    [
        "In F#, write xs |> List.map f <| ys", "The <s>old</s> price", "analysis of the data", "Analysis: it is fine",
        "a <| b |> c", "my assistant finalised it", "if a<b|c>d", "The [INSTALL] step", "<sys> is a tag", "x || y",
    ],
)  # fmt: skip
def test_code_and_prose_are_not_taken_for_control_tokens(text: str) -> None:
    assert judge.faults(answer(text)) is None


def test_control_tokens_in_tool_arguments_are_found() -> None:
    calls = (ToolCall("1", "f", '{"a": "x<|call|>"}'),)
    assert "control token" in (judge.faults(answer("", "tool_calls", tool_calls=calls)) or "")


def test_nothing_at_all_is_no_answer() -> None:
    assert "empty" in (judge.faults(answer("")) or "")
    assert "empty" in (judge.faults(answer(" \n ")) or "")
    assert "empty" in (judge.faults(answer("", "stop", reasoning="I should call the tool.")) or "")


def test_a_tool_call_or_reasoning_cut_by_the_limit_is_something() -> None:
    assert judge.faults(answer("", "tool_calls", tool_calls=(ToolCall("1", "f", "{}"),))) is None
    assert judge.faults(answer("", "length", reasoning="Let me see")) is None


@pytest.mark.parametrize("finish", ["error", "", "eos"])
def test_an_unheard_of_finish_reason_is_a_fault(finish: str) -> None:
    assert "reason" in (judge.faults(answer("Hi", finish)) or "")


def test_json_of_the_right_shape_fits() -> None:
    assert judge.misfit(' {\n"city": "Rome", "days": 9}', Trip) is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "JSON"), ("{", "JSON"),
        ('```json\n{"city": "Rome", "days": 3}\n```', "JSON"), ("[]", "answer"),
        ('{"city": "Rome"}', "days"), ('{"city": "Oslo", "days": 3}', "city"),
        ('{"city": "Rome", "days": "3"}', "days"),
        ('{"city": "Rome", "days": 10}', "days"), ('{"city": "Rome", "days": 3, "x": 1}', "x"),
    ],
)  # fmt: skip
def test_other_json_does_not_and_the_place_is_named(text: str, word: str) -> None:
    assert word in (judge.misfit(text, Trip) or "")
