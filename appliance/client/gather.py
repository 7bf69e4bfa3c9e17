"""From the objects on the wire to one Answer: chunks of a stream, or one whole completion. Pure but for the clock
handed in."""

from collections.abc import Callable
from typing import Any

from appliance.client.answer import Answer, Token, ToolCall
from appliance.client.errors import SEE_LOGS, BrokenAnswer
from appliance.client.sse import excerpt, malformed

Json = dict[str, Any]


class Gathering:
    """An answer in the making. `clock` gives seconds; `start` is when the request began, by that clock."""

    def __init__(
        self, clock: Callable[[], float], start: float, on_text: Callable[[str], None] | None
    ) -> None:
        self._clock = clock
        self._start = start
        self._on_text = on_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, Json] = {}
        self._finish: str | None = None
        self._reported: Json = {}
        self._tokens: list[Token] = []
        self._at: list[float] = []

    @property
    def started(self) -> bool:
        """Whether a chunk with something generated has come."""
        return bool(self._at)

    def take(self, event: Json, *, streamed: bool) -> None:
        """One chunk, or the whole completion. Raises BrokenAnswer where the server reports an error in it or the
        shape is not the API's."""
        if event.get("error"):
            raise BrokenAnswer(
                "the server gave up in the middle", message(event) or "it did not say why", SEE_LOGS
            )
        try:
            self._figures(event)
            for choice in event.get("choices") or []:
                self._choice(choice, streamed=streamed)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise malformed(f"an object of another shape than the API's: {excerpt(repr(event))}") from None

    def _figures(self, event: Json) -> None:
        """Usage stands in the last chunk; llama.cpp puts its `timings` beside it."""
        for place in ("usage", "timings"):
            self._reported.update(event.get(place) or {})

    def _choice(self, choice: Json, *, streamed: bool) -> None:
        part = choice.get("delta") or choice.get("message") or {}
        text = str(part.get("content") or choice.get("text") or "")
        reasoning = str(part.get("reasoning_content") or part.get("reasoning") or "")
        calls = part.get("tool_calls") or []
        if streamed and (text or reasoning or calls):
            self._at.append(self._clock())
        for position, call in enumerate(calls):
            self._call(int(call.get("index", position)), call)
        self._finish = choice.get("finish_reason") or self._finish
        if choice.get("avg_decoded_tokens_per_iter") is not None:
            self._reported["avg_decoded_tokens_per_iter"] = choice["avg_decoded_tokens_per_iter"]
        self._tokens.extend(_token(one) for one in (choice.get("logprobs") or {}).get("content") or [])
        self._reasoning.append(reasoning)
        self._text.append(text)
        if text and self._on_text:
            self._on_text(text)

    def _call(self, index: int, call: Json) -> None:
        known = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = call.get("function") or {}
        known["id"] = call.get("id") or known["id"]
        known["name"] += function.get("name") or ""
        known["arguments"] += function.get("arguments") or ""

    def answer(self) -> Answer:
        """The finished answer. Raises BrokenAnswer where no choice ever came or none was finished."""
        if self._finish is None:
            raise BrokenAnswer("the answer is cut off", "it ended without a finish_reason", SEE_LOGS)
        said = self._reported
        return Answer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(ToolCall(**self._calls[index]) for index in sorted(self._calls)),
            finish_reason=self._finish,
            prompt_tokens=said.get("prompt_tokens"),
            completion_tokens=said.get("completion_tokens"),
            ttft_s=self._at[0] - self._start if self._at else None,
            itl_s=tuple(later - earlier for earlier, later in zip(self._at, self._at[1:], strict=False)),
            elapsed_s=(self._at[-1] if self._at else self._clock()) - self._start,
            drafted=said.get("draft_n"),
            accepted=said.get("draft_n_accepted"),
            acceptance_length=said.get("avg_decoded_tokens_per_iter"),
            tokens=tuple(self._tokens),
        )


def _token(said: Json) -> Token:
    raw = said.get("bytes")
    top = sorted((float(one["logprob"]) for one in said.get("top_logprobs") or []), reverse=True)
    return Token(
        raw=bytes(raw) if raw is not None else str(said["token"]).encode("utf-8", "surrogatepass"),
        margin=top[0] - top[1] if len(top) > 1 else None,
    )


def message(body: Any) -> str:
    """The server's own words out of an error body of any of the usual shapes; empty where there are none."""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    return excerpt(body if isinstance(body, str) else repr(body) if body else "", 500)
