"""One streaming client of an OpenAI endpoint: ask, verify and benchmarks use it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from appliance.client.answer import Answer
from appliance.client.connections import Connections
from appliance.client.errors import SEE_LOGS, BrokenAnswer, NotReachable, RequestRefused
from appliance.client.exchange import Body, cut, exchange
from appliance.client.gather import Gathering, message
from appliance.client.sse import Events, malformed, parse
from appliance.core.errors import ConfigFault

Message = Mapping[str, Any]
Json = Mapping[str, Any]
OnText = Callable[[str], None]

MOST_BODY = 64 * 1024 * 1024
MOST_ERROR = 64 * 1024
COMING_UP = (502, 503, 504)


@dataclass(frozen=True)
class Timeouts:
    """Bounds in seconds.

    `first_token_s`: until something generated comes; for an answer that is not streamed, until all of it is
    here. `silence_s`: between two chunks after that. `answer_s`: for one whole answer.
    """

    connect_s: float = 5.0
    first_token_s: float = 600.0
    silence_s: float = 60.0
    answer_s: float = 3600.0


class Client:
    """Asks one model of one endpoint. Threads may share it: each request has a connection of its own.

    `base_url` with or without `/v1`. The key goes into a header and nowhere else: no message, no repr.
    Every request may raise NotReachable, Silent, BrokenAnswer or RequestRefused.
    """

    def __init__(
        self, base_url: str, model: str, key: str | None = None, timeouts: Timeouts | None = None
    ) -> None:
        """Raises ConfigFault for an address or a key that cannot be one. Connects to nothing."""
        url = urlsplit(base_url)
        try:
            port = url.port or (443 if url.scheme == "https" else 80)
        except ValueError:
            port = None
        if (
            url.scheme not in ("http", "https")
            or not url.hostname
            or port is None
            or url.username is not None
        ):
            raise ConfigFault("the endpoint's address is not usable", "it must be http://HOST:PORT or https://…",
                              "give a key as a key, never inside the address")  # fmt: skip
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key != ""):
            raise ConfigFault("the key is not usable", "it is empty, or has spaces or other than printable ASCII",
                              "give the key alone, without a line break")  # fmt: skip
        self.model = model
        self.timeouts = timeouts or Timeouts()
        self._path = url.path.rstrip("/").removesuffix("/v1") + "/v1"
        self._key = key
        self._connections = Connections(
            url.hostname, port, tls=url.scheme == "https", connect_s=self.timeouts.connect_s
        )

    def __repr__(self) -> str:
        return f"Client(model={self.model!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cut all requests under way, in all threads, and take no more."""
        self._connections.close()

    def models(self) -> tuple[str, ...]:
        """The public names that /v1/models answers."""
        deadline = time.monotonic() + self.timeouts.silence_s
        with exchange(
            self._connections, "GET", f"{self._path}/models", None, self._headers(), deadline
        ) as body:
            self._refuse_errors(body)
            said = parse(body.whole(deadline, MOST_BODY))
        try:
            return tuple(str(one["id"]) for one in said["data"])
        except (KeyError, TypeError):
            raise malformed("/v1/models is no list of models") from None

    def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        stream: bool = True,
        tools: Sequence[Json] | None = None,
        response_format: Json | None = None,
        seed: int | None = None,
        extra: Json | None = None,
        on_text: OnText | None = None,
    ) -> Answer:
        """A chat completion. `extra` goes into the body as it is; `on_text` gets the text as it comes.

        What `on_text` raises, and Ctrl-C, close the connection at once.
        """
        asked = {
            "messages": list(messages),
            "tools": tools and list(tools),
            "response_format": response_format,
        }
        return self._generate(
            "chat/completions", asked, max_tokens, temperature, stream, seed, extra, on_text
        )

    def complete(
        self,
        prompt: str,
        *,
        max_tokens: int,
        temperature: float,
        stream: bool = True,
        seed: int | None = None,
        extra: Json | None = None,
        on_text: OnText | None = None,
    ) -> Answer:
        """A plain completion of `prompt`, otherwise as `chat`."""
        return self._generate(
            "completions", {"prompt": prompt}, max_tokens, temperature, stream, seed, extra, on_text
        )

    def _generate(
        self,
        path: str,
        asked: dict[str, Any],
        max_tokens: int,
        temperature: float,
        stream: bool,
        seed: int | None,
        extra: Json | None,
        on_text: OnText | None,
    ) -> Answer:
        asked |= {"model": self.model, "max_tokens": max_tokens, "temperature": temperature, "stream": stream,
                  "stream_options": {"include_usage": True} if stream else None, "seed": seed}  # fmt: skip
        given = {name: value for name, value in asked.items() if value is not None} | dict(extra or {})
        payload = json.dumps(given).encode()
        patience = self.timeouts.first_token_s
        headers = self._headers() | {"Content-Type": "application/json"}
        with exchange(self._connections, "POST", f"{self._path}/{path}", payload, headers, patience) as body:
            self._refuse_errors(body)
            gathering = Gathering(time.perf_counter, body.sent_at, on_text)
            if stream:
                self._read_stream(body, gathering)
            else:
                gathering.take(_object(body.whole(body.deadline, MOST_BODY)), streamed=False)
            return gathering.answer()

    def _read_stream(self, body: Body, gathering: Gathering) -> None:
        if "text/event-stream" not in body.header("Content-Type"):
            raise malformed("it is no event stream, though a stream was asked for")
        events = Events()
        deadline = body.deadline
        end = time.monotonic() + self.timeouts.answer_s
        while not events.done:
            piece = body.read(min(deadline, end))
            if not piece:
                raise cut("no [DONE] came")
            found = events.feed(piece)
            for event in found:
                gathering.take(event, streamed=True)
            if found and gathering.started:
                deadline = time.monotonic() + self.timeouts.silence_s

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _refuse_errors(self, body: Body) -> None:
        """Raise what a status other than 200 means."""
        if body.status == 200:
            return
        raw = body.whole(time.monotonic() + self.timeouts.silence_s, MOST_ERROR)
        try:
            said = message(json.loads(raw))
        except (ValueError, RecursionError):
            said = message(raw.decode("utf-8", "replace"))
        if self._key:  # some servers put a wrong key into their message
            said = said.replace(self._key, "***")
        why = f"HTTP {body.status}: {said or 'no reason given'}"
        if body.status in COMING_UP:
            wish = body.header("Retry-After")
            raise NotReachable(
                "the endpoint is not ready", why, retry_after_s=float(wish) if wish.isdigit() else None
            )
        if body.status >= 500:
            raise BrokenAnswer("the server failed on this request", why, SEE_LOGS)
        fix = "give the right key" if body.status in (401, 403) else "change the request"
        raise RequestRefused(body.status, "the server refuses this request", why, fix)


def _object(raw: bytes) -> dict[str, Any]:
    said = parse(raw)
    if not isinstance(said, dict):
        raise malformed("it is no JSON object")
    return said
