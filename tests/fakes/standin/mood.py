"""What a stand-in answers when its mood is not to serve llama.cpp's tokens, and every tool call."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MOODS = ("well", "garble", "repeat", "empty-tools", "die", "hang")
DEFAULT_TOKENS = 64
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "119.70 GiB of which 1.12 GiB is free. Process 1 has 118.20 GiB memory in use."
)


@dataclass(frozen=True)
class Answer:
    """A made-up answer."""

    pieces: tuple[str, ...]
    finish: str
    call: dict[str, Any] | None = None
    empty_calls: bool = False


def made_up(mood: str, request: dict[str, Any], calls_tools: bool) -> Answer | None:
    """The answer of a mood to a request; None: let llama.cpp answer. `calls_tools`: it knows tool calls at all."""
    count = int(request.get("max_completion_tokens") or request.get("max_tokens") or DEFAULT_TOKENS)
    if mood == "garble":
        return Answer(("<|channel|>", *("!" for _ in range(count - 1))), "length")
    if mood == "repeat":
        return Answer(tuple(" the" for _ in range(count)), "length")
    tools = request.get("tools")
    if not tools or request.get("tool_choice") == "none":
        return None
    if mood == "empty-tools":
        return Answer((), "stop", empty_calls=True)
    return (
        Answer((), "tool_calls", call=tool_call(tools, request.get("tool_choice"))) if calls_tools else None
    )


def tool_call(tools: list[dict[str, Any]], choice: Any) -> dict[str, Any]:
    """A call of the first tool, or of the one asked for, with arguments that fit its schema."""
    functions = [tool["function"] for tool in tools]
    wanted = choice["function"]["name"] if isinstance(choice, dict) else functions[0]["name"]
    function = next(function for function in functions if function["name"] == wanted)
    arguments = json.dumps(fitting(function.get("parameters") or {"type": "object"}))
    return {
        "id": "chatcmpl-tool-0123456789abcdef",
        "type": "function",
        "function": {"name": wanted, "arguments": arguments},
    }


def fitting(schema: dict[str, Any]) -> Any:
    """A small value that fits a JSON schema of the kind that tools have."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return fitting(schema[key][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: fitting(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [fitting(schema.get("items", {})) for _ in range(max(1, schema.get("minItems", 1)))]
    if kind in {"integer", "number"}:
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    return {"boolean": True, "null": None}.get(kind, "Paris")


def whole(answer: Answer, chat: bool, head: dict[str, Any]) -> dict[str, Any]:
    """An answer as one JSON body."""
    text = "".join(answer.pieces)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if answer.call or answer.empty_calls:
        message |= {
            "content": "" if answer.empty_calls else None,
            "tool_calls": [answer.call] if answer.call else [],
        }
    choice = {"index": 0, "finish_reason": answer.finish} | ({"message": message} if chat else {"text": text})
    count = max(1, len(answer.pieces))
    usage = {"prompt_tokens": 8, "completion_tokens": count, "total_tokens": 8 + count}
    return {
        **head,
        "object": "chat.completion" if chat else "text_completion",
        "choices": [choice],
        "usage": usage,
    }


def streamed(answer: Answer, chat: bool, head: dict[str, Any], usage: bool) -> Iterator[dict[str, Any]]:
    """The same as the chunks of a stream."""
    body = whole(answer, chat, head)
    head = {**head, "object": "chat.completion.chunk" if chat else "text_completion"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        part = {"delta": delta} if chat else {"text": delta.get("content", "")}
        return {**head, "choices": [{"index": 0, "finish_reason": finish, **part}]}

    if chat:
        yield chunk({"role": "assistant", "content": ""})
    for piece in answer.pieces:
        yield chunk({"content": piece})
    if answer.call:
        name, arguments = answer.call["function"]["name"], answer.call["function"]["arguments"]
        yield chunk(
            {"tool_calls": [{**answer.call, "index": 0, "function": {"name": name, "arguments": ""}}]}
        )
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})
    yield chunk({}, answer.finish)
    if usage:
        yield {**head, "choices": [], "usage": body["usage"]}
