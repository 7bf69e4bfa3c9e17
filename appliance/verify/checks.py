"""What an endpoint must be able to do, one function a check. CHECKS is all of them."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from appliance.catalog.stack import Offers, Strict
from appliance.client.answer import Answer
from appliance.client.client import Client
from appliance.client.errors import SEE_LOGS
from appliance.verify import greedy, judge
from appliance.verify.report import Check

QUESTION = ({"role": "user", "content": "Tell me in a few sentences why the sea is salty."},)
SHORT, LONG = 24, 64
ROOM = 512  # tokens for answers whose end the question sets

OTHER_ENGINE = (
    "see whether it does without speculation (spark-spec up … --no-spec --replace); if so, another draft or "
    "engine.version may mend it"
)
OFFER_LESS = "if this model cannot do it, say so in the preset: offers.{}=false"


class Trip(Strict):
    """The JSON that is asked for."""

    city: Literal["Paris", "Rome"]
    days: Annotated[int, Field(ge=1, le=9)]


class Where(Strict):
    """The arguments of the tool that is offered to the model."""

    city: Annotated[str, Field(min_length=1)]


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": Where.model_json_schema(),
    },
}


def passed(name: str, detail: str) -> Check:
    return Check(name=name, outcome="passed", detail=detail)


def failed(name: str, why: str, fix: str = SEE_LOGS) -> Check:
    return Check(name=name, outcome="failed", why=why, fix=fix)


def not_offered(name: str) -> Check:
    return Check(name=name, outcome="not offered")


def unknown(name: str, why: str) -> Check:
    return Check(name=name, outcome="unknown", why=why)


def model_name(client: Client, offers: Offers) -> Check:
    """/v1/models answers the public name."""
    del offers
    names = client.models()
    if client.model in names:
        return passed("model name", client.model)
    return failed("model name", f"/v1/models answers {', '.join(names) or 'nothing'}, not {client.model}",
                  "another server may hold this port: spark-spec status")  # fmt: skip


def chat(client: Client, offers: Offers) -> Check:
    """A sound greedy answer to a chat."""
    if not offers.chat:
        return not_offered("chat")
    answer = client.chat(QUESTION, max_tokens=SHORT, temperature=0.0, stream=False)
    return _judged("chat", answer)


def completion(client: Client, offers: Offers) -> Check:
    """A sound greedy continuation of a text."""
    if not offers.completion:
        return not_offered("completion")
    answer = client.complete("Once upon a time", max_tokens=SHORT, temperature=0.0, stream=False)
    return _judged("completion", answer)


def stream(client: Client, offers: Offers) -> Check:
    """An answer in several chunks, with usage at the end ([DONE] is the client's own condition)."""
    if not (offers.stream and offers.chat):
        return not_offered("stream")
    answer = client.chat(QUESTION, max_tokens=SHORT, temperature=0.0)
    fault = judge.faults(answer)
    if fault:
        return failed("stream", fault, OTHER_ENGINE)
    if answer.completion_tokens is None:
        return failed("stream", "no usage came, though include_usage was asked for")
    if answer.chunks < 2 <= answer.completion_tokens - 1:
        return failed("stream", f"{answer.completion_tokens} tokens came in one chunk",
                      "a proxy between may be holding the answer back")  # fmt: skip
    return passed("stream", f"{answer.completion_tokens} tokens in {answer.chunks} chunks")


def stream_equals_whole(client: Client, offers: Offers) -> Check:
    """Streamed and not streamed, greedy text is the same, but for near-ties (see greedy.py)."""
    name = "stream equals whole"
    if not (offers.stream and offers.chat):
        return not_offered(name)

    def text(streamed: bool) -> str:
        return greedy.said(client.chat(QUESTION, max_tokens=LONG, temperature=0.0, stream=streamed))

    whole = text(False)
    at = greedy.first_difference(whole, text(True))
    if at is None:
        return passed(name, f"{len(whole)} characters")
    if text(False) != whole:
        return unknown(name, "this engine's greedy answers differ from one request to the next")
    margin = greedy.margin_at(greedy.with_margins(client, QUESTION, LONG), whole, at)
    if margin is None:
        return unknown(name, f"they differ at character {at}, and the engine gives no margins to judge it by")
    if margin <= greedy.NEAR_TIE:
        return passed(name, f"but for a near-tie of {margin:.3f} nats at character {at}")
    return failed(
        name, f"the text differs at character {at}, where the best token leads by {margin:.2f} nats"
    )


def json_schema(client: Client, offers: Offers) -> Check:
    """JSON of the schema asked for."""
    if not (offers.json_ and offers.chat):
        return not_offered("json schema")
    wanted = {
        "type": "json_schema",
        "json_schema": {"name": "trip", "strict": True, "schema": Trip.model_json_schema()},
    }
    question = [{"role": "user", "content": "A trip of three days to Paris, as JSON."}]
    answer = client.chat(question, max_tokens=ROOM, temperature=0.0, response_format=wanted)
    fault = judge.faults(answer) or judge.misfit(answer.text, Trip)
    return (
        failed("json schema", fault, OFFER_LESS.format("json"))
        if fault
        else passed("json schema", "fits the schema")
    )


def tools(client: Client, offers: Offers) -> Check:
    """A call of the tool that the question needs, with arguments that fit it."""
    if not (offers.tools and offers.chat):
        return not_offered("tools")
    question = [{"role": "user", "content": "What is the weather in Paris now? Use the tool."}]
    answer = client.chat(question, max_tokens=ROOM, temperature=0.0, tools=[WEATHER])
    fault = judge.faults(answer)
    if not fault and not answer.tool_calls:
        fault = "it answered in words instead of calling the tool"
    for call in answer.tool_calls:
        fault = fault or (None if call.name == "get_weather" else f"it called an unknown tool: {call.name}")
        fault = fault or judge.misfit(call.arguments, Where)
    fix = f"{OTHER_ENGINE}; {OFFER_LESS.format('tools')}"
    return failed("tools", fault, fix) if fault else passed("tools", "called with fitting arguments")


def _judged(name: str, answer: Answer) -> Check:
    fault = judge.faults(answer)
    if fault:
        return failed(name, fault, OTHER_ENGINE)
    return passed(name, f"{len(answer.text)} characters, finish_reason {answer.finish_reason}")


Function = Callable[[Client, Offers], Check]
QUICK: tuple[Function, ...] = (chat, stream, json_schema, tools)
CHECKS: tuple[Function, ...] = (chat, completion, stream, stream_equals_whole, json_schema, tools)
