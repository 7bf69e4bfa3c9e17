"""Is this answer sound? Pure judges: each returns what is wrong in plain words, or None.

They judge form, never taste: a small model that repeats its phrases passes, an engine that repeats one token to
the limit (TensorRT-LLM#8713) or returns nothing at all (TensorRT-LLM#16377) does not.
"""

import re

from pydantic import BaseModel, ValidationError

from appliance.client.answer import Answer
from appliance.client.sse import excerpt

RUN, LONG_RUN = 16, 64
LONGEST_UNIT = 16
FINISHED = ("stop", "length", "tool_calls")

BAR = "[|\uff5c]"  # DeepSeek's templates have the full-width bar
CONTROL = re.compile(
    rf"<{BAR}[A-Za-z0-9_\u2581]{{1,40}}{BAR}>"  # <|channel|>, <|im_end|>
    r"|\[/?INST\]|<</?SYS>>|\[TOOL_CALLS\]|<(?:start|end)_of_turn>|<(?:bos|eos|pad|unk)>"
    r"|\A\s*<s>|</s>\s*\Z"  # <s> inside a text may be HTML
)
HARMONY = re.compile(r"assistant(?:final|analysis|commentary)|\A\s*analysis(?=[A-Z])")


def faults(answer: Answer) -> str | None:
    """The first thing wrong with any answer, whatever was asked."""
    return empty(answer) or unfinished(answer) or leaked_control(answer) or one_token_run(answer)


def empty(answer: Answer) -> str | None:
    """No text and no tool call. Reasoning alone is enough only where the token limit ended it."""
    if (
        answer.text.strip()
        or answer.tool_calls
        or (answer.reasoning.strip() and answer.finish_reason == "length")
    ):
        return None
    return "the answer is empty: no text and no tool call"


def unfinished(answer: Answer) -> str | None:
    if answer.finish_reason in FINISHED:
        return None
    return f"the answer ended for an unheard-of reason: {excerpt(str(answer.finish_reason))}"


def one_token_run(answer: Answer) -> str | None:
    """One character or word repeated from the first to the last, or until the token limit.

    A row of dashes inside a table, or a phrase said again and again, is no such run.
    """
    limit = answer.finish_reason == "length"
    for text in (answer.text, answer.reasoning, answer.text.rstrip(), answer.reasoning.rstrip()):
        unit, times = run_at_the_end(text)
        share = len(unit) * times / max(1, len(text.strip()))
        if (times >= RUN and share >= (0.5 if limit else 0.9)) or (times >= LONG_RUN and limit):
            return f"the answer repeats one token: {excerpt(repr(unit))} {times} times"
    return None


def run_at_the_end(text: str) -> tuple[str, int]:
    """The longest run of one unit with which a text ends, and how often it stands there.

    A unit is what one token can be: one character, or a word with at most a space before it (digits in a circle
    are babble, not one token).
    """
    best = ("", 0)
    for size in range(1, min(LONGEST_UNIT, len(text)) + 1):
        unit = text[-size:]
        if any(one.isspace() for one in unit[1:]):
            break
        if size > 1 and not unit.lstrip().isalpha():
            continue
        times = 1
        while text.endswith(unit, 0, len(text) - size * times):
            times += 1
        best = max(best, (unit, times), key=lambda run: run[1])
    return best


def leaked_control(answer: Answer) -> str | None:
    """Control tokens of the chat template in what a reader sees."""
    for text in (answer.text, *(call.arguments for call in answer.tool_calls)):
        found = CONTROL.search(text) or HARMONY.search(text)
        if found:
            return f"a control token leaked into the answer: {excerpt(found[0].strip())}"
    return None


def misfit(text: str, schema: type[BaseModel]) -> str | None:
    """Why this text is no JSON of the shape asked for."""
    try:
        schema.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the answer"
        return f"{place}: {first['msg']} (the answer: {excerpt(text, 80)})"
    return None
