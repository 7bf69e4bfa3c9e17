"""When are two greedy answers the same? Pure but for one request that asks for margins.

Speculative decoding does not change greedy text, in exact arithmetic. In floating point a token may be computed
in a batch of another size, by another kernel, and where the two best tokens are almost equally good the other one
may win; from there on the texts are different, and both are right. So a difference counts against an engine only
where the two best tokens lie further apart than NEAR_TIE at its place.
"""

from collections.abc import Sequence

from appliance.client.answer import Answer, Token
from appliance.client.client import Client, Message
from appliance.client.errors import BrokenAnswer, RequestRefused

NEAR_TIE = 0.2
"""Nats. The differences seen (a 4-bit model of 135M on a CPU, 256 tokens) lay at 0.010 and 0.065 nats; of 636 tokens
of that model 6 % lie below this bound, the median at 2.4."""

MARGINS = {"logprobs": True, "top_logprobs": 2}


def said(answer: Answer) -> str:
    """All that was generated, reasoning first."""
    return answer.reasoning + answer.text


def first_difference(one: str, other: str) -> int | None:
    """The first character at which two texts differ, counted from 0; None where they are the same."""
    if one == other:
        return None
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def token_at(tokens: Sequence[Token], position: int) -> int | None:
    """The token that holds a character position, or the end token where the text ends there."""
    raw = b""
    for index, token in enumerate(tokens):
        raw += token.raw
        if len(raw.decode("utf-8", "ignore")) > position:
            return index
    return len(tokens) - 1 if tokens and not tokens[-1].raw else None


def margin_at(tokens: Sequence[Token], text: str, position: int) -> float | None:
    """The distance in nats of the two best tokens where another text begins to differ from `text`.

    The smaller one of the token there and the token before: two tokens with a common beginning ("no", "not")
    differ in the text one token later than in truth. None where the tokens are not those of the text.
    """
    joined = b"".join(token.raw for token in tokens).decode("utf-8", "ignore")
    index = token_at(tokens, position)
    if index is None or joined != text:
        return None
    margins = [token.margin for token in tokens[max(0, index - 1) : index + 1] if token.margin is not None]
    return min(margins, default=None)


def with_margins(client: Client, messages: Sequence[Message], max_tokens: int) -> tuple[Token, ...]:
    """The tokens of a greedy answer with their margins; none where the engine does not give them."""
    try:
        return client.chat(
            messages, max_tokens=max_tokens, temperature=0.0, stream=False, extra=MARGINS
        ).tokens
    except (RequestRefused, BrokenAnswer):
        return ()
