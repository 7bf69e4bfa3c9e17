"""What came back: one finished answer, and what it took."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolCall:
    """One call the model asks for. `arguments` is the JSON text as the model wrote it, not parsed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Token:
    """One token of an answer that was asked for with logprobs.

    `raw` is its bytes (a token may end in the middle of a character), `margin` the distance in nats between
    the best and the second-best token at this place, None where the engine did not name two.
    """

    raw: bytes
    margin: float | None


@dataclass(frozen=True)
class Answer:
    """One finished answer. Times are seconds by a monotonic clock; None is unknown.

    `ttft_s` (time to first token): from the request until the first chunk that carried something generated:
    text, reasoning or a piece of a tool call. `itl_s`: the gaps between such chunks; an engine that
    speculates may put several tokens into one chunk, or send them in one burst. `elapsed_s`: from the request
    to the last such chunk (to the end of the body where the answer was not streamed).
    `drafted` and `accepted` (draft tokens) and `acceptance_length` are what the engine says of this answer.
    """

    text: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    ttft_s: float | None = None
    itl_s: tuple[float, ...] = ()
    elapsed_s: float = 0.0
    drafted: int | None = None
    accepted: int | None = None
    acceptance_length: float | None = None
    tokens: tuple[Token, ...] = ()

    @property
    def chunks(self) -> int:
        """Chunks of the stream that carried something generated; 0 where the answer was not streamed."""
        return 0 if self.ttft_s is None else len(self.itl_s) + 1

    @property
    def tok_s(self) -> float | None:
        """Decode rate in tokens a second: (completion tokens - 1) / (elapsed - TTFT), the inverse of TPOT as
        vLLM and AIPerf define it. None for fewer than two tokens, or where no time passed between them."""
        if self.ttft_s is None or self.completion_tokens is None or self.completion_tokens < 2:
            return None
        decoding = self.elapsed_s - self.ttft_s
        return (self.completion_tokens - 1) / decoding if decoding > 0 else None
