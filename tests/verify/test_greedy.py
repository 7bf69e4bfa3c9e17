"""When two greedy texts count as the same."""

import pytest

from appliance.client.answer import Token
from appliance.verify.greedy import first_difference, margin_at, token_at


def tokens(*pairs: tuple[str, float | None]) -> tuple[Token, ...]:
    return tuple(Token(text.encode(), margin) for text, margin in pairs)


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [
        ("abc", "abc", None),
        ("abc", "abd", 2),
        ("abc", "ab", 2),
        ("", "a", 0),
        ("né", "ne", 1),
        ("", "", None),
    ],
)
def test_the_first_difference(one: str, other: str, at: int | None) -> None:
    assert first_difference(one, other) == at == first_difference(other, one)


def test_the_margin_is_that_of_the_token_there_or_of_the_one_before() -> None:
    base = tokens(("I", 3.0), (" am", 2.0), (" not", 0.5), (" here", 4.0))
    assert token_at(base, 5) == 2
    assert margin_at(base, "I am not here", 5) == 0.5
    assert margin_at(base, "I am not here", 8) == 0.5  # " not" against " nothing" differ one token later
    assert margin_at(base, "I am not here", 0) == 3.0


def test_a_character_of_several_tokens_is_counted_once() -> None:
    first, second = "🦙".encode()[:2], "🦙".encode()[2:]
    base = (Token(first, 1.0), Token(second, 9.0), Token(b"!", 9.0))
    assert token_at(base, 0) == 1
    assert token_at(base, 1) == 2
    assert margin_at(base, "🦙!", 0) == 1.0


def test_where_the_baseline_ended_its_end_token_decides() -> None:
    assert margin_at(tokens(("Yes", 3.0), (".", 2.0), ("", 0.1)), "Yes.", 4) == 0.1
    assert margin_at(tokens(("Yes", 3.0), (".", 2.0)), "Yes.", 4) is None


def test_without_margins_or_with_those_of_another_text_it_is_unknown() -> None:
    assert margin_at((), "Yes", 1) is None
    assert margin_at(tokens(("Yes", None)), "Yes", 1) is None
    assert margin_at(tokens(("No", 0.1)), "Yes", 1) is None
