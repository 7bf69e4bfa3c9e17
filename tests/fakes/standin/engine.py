"""What all three engines share once they serve: names, mood, counters, and what is checked before an answer."""

import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

from standin.life import Plan
from standin.llama import Llama

GENERATES = ("/v1/chat/completions", "/v1/completions")
# What llama.cpp gets of a request; tool calls are made up here, since the small model knows none.
PASSED_ON = (
    "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed",
    "stop", "stream", "stream_options", "response_format", "presence_penalty", "frequency_penalty",
    "repetition_penalty", "logprobs", "top_logprobs", "ignore_eos",
)  # fmt: skip


@dataclass(frozen=True)
class Reply:
    """An answer that is not a stream."""

    status: int
    body: Any = ""  # JSON if it is a list or a dict
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Drafting:
    """What llama.cpp says of one answer's speculation."""

    tokens: int
    drafted: int
    accepted: int

    @property
    def steps(self) -> int:
        return max(1, self.tokens - self.accepted)


class Engine:
    """The base of the three. `names` are the public model names, the first is the one answered."""

    def __init__(self, names: list[str], draft_len: int, plan: Plan) -> None:
        self.names, self.draft_len, self.plan = names, draft_len, plan
        self.mood, self.ready = plan.mood, False
        self.llama: Llama | None = None
        self.made_up = 0
        self.waiting = 0
        self.lock = threading.Lock()

    # What an engine says itself

    def get(self, path: str) -> Reply | None:
        """The answer of its own GET endpoints; None: there is no such path."""
        raise NotImplementedError

    def starting(self, _path: str) -> Reply:
        """The answer to anything while it starts."""
        return Reply(503)

    def error(self, status: int, message: str, kind: str = "BadRequestError") -> Reply:
        return Reply(
            status, {"object": "error", "message": message, "type": kind, "param": None, "code": status}
        )

    def refuse(self, _path: str, request: dict[str, Any]) -> Reply | None:
        """What it says to a request that it will not answer."""
        if request.get("model") not in self.names:
            return self.error(404, f"The model `{request.get('model')}` does not exist.", "NotFoundError")
        return None

    def calls_tools(self, _request: dict[str, Any]) -> bool:
        return True

    def key(self) -> str | None:
        """The key that requests must carry."""
        return None

    def decorate(
        self, body: dict[str, Any], _drafting: Drafting | None, _request: dict[str, Any]
    ) -> dict[str, Any]:
        """Its own fields in an answer or a chunk. What was drafted is known in the last ones only."""
        return body

    def adapt(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request as llama.cpp gets it."""
        adapted = {key: request[key] for key in PASSED_ON if request.get(key) is not None}
        if "repetition_penalty" in adapted:
            adapted["repeat_penalty"] = adapted.pop("repetition_penalty")
        return adapted

    # What they have in common

    def head(self, chat: bool) -> dict[str, Any]:
        kind = "chatcmpl" if chat else "cmpl"
        return {"id": f"{kind}-{uuid.uuid4().hex}", "created": int(time.time()), "model": self.names[0]}

    def models(self, owner: str) -> Reply:
        entries = [
            {"id": name, "object": "model", "created": int(time.time()), "owned_by": owner}
            for name in self.names
        ]
        return Reply(200, {"object": "list", "data": entries})

    def note_made_up(self, tokens: int) -> None:
        with self.lock:
            self.made_up += tokens

    def counters(self) -> dict[str, float]:
        """llama.cpp's counters, and what was made up besides: every such token took a step of its own."""
        assert self.llama is not None
        found = self.llama.counters()
        extra = {"tokens_predicted_total": 1, "n_decode_total": 1}
        if self.draft_len:
            extra |= {"spec_decode_num_drafts_total": 1, "spec_decode_num_draft_tokens_total": self.draft_len}
        for name, each in extra.items():
            found[name] = found.get(name, 0) + each * self.made_up
        found["requests_processing"] = found.get("requests_processing", 0) + self.waiting
        if self.plan.hide_spec_counters:
            found = {name: value for name, value in found.items() if not name.startswith("spec_")}
        return found
