"""A strict fake OpenAI endpoint, standard library only, in a thread or as a program of its own:

    python tests/fakes/openai_upstream.py

It refuses what is no proper request (400), another model's name (404) and a wrong key (401). What it answers is
a function from the request's body to a Reply: `good` unless told otherwise. Everything that can go wrong with a
reply is a field of Reply.
"""

import json
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MODEL = "fake"
Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One answer, and what goes wrong with it. Times are in seconds.

    `pieces` of text are sent a chunk each, after `reasoning`, before `tool_calls` (name, arguments).
    """

    pieces: tuple[str, ...] = ("Hello", ",", " world", "!")
    reasoning: tuple[str, ...] = ()
    tool_calls: tuple[tuple[str, str], ...] = ()
    finish: str | None = "stop"
    usage: bool = True
    timings: Mapping[str, float] | None = None
    per_iteration: float | None = None
    margins: tuple[float, ...] | None = None  # one a piece; sent where logprobs are asked for
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None  # sent instead of an answer
    raw_events: tuple[bytes, ...] = ()  # sent as they are after the pieces
    error: str | None = None  # an error event after the pieces, and nothing more
    first_after: float = 0.0
    between: float = 0.0
    hang_after: int | None = None  # so many chunks, then silence until the client goes or the server ends
    reset: bool = False  # a TCP reset instead of any answer
    cut_after: int | None = None  # so many chunks, then end of file in the middle of the body
    reset_after: int | None = None  # so many chunks, then a TCP reset
    bytes_at_once: int | None = None  # each write and HTTP chunk is so small, wherever that falls
    crlf: bool = False
    done: bool = True


Brain = Callable[[Json], Reply]


def good(body: Json) -> Reply:
    """What a good engine answers: JSON where a schema is given, a call where tools are, else some words."""
    if body.get("tools"):
        return Reply(pieces=(), tool_calls=(("get_weather", '{"city": "Paris"}'),), finish="tool_calls")
    if body.get("response_format"):
        return Reply(pieces=('{"city":', ' "Paris",', ' "days": 3}'))
    words = tuple(f" t{number}" for number in range(min(12, body["max_tokens"])))
    return Reply(pieces=words, finish="length" if len(words) == body["max_tokens"] else "stop")


class Upstream:
    """The server: `with Upstream() as up: … up.base_url`. `bodies` are the requests it got, `gone` is set when a
    client left in the middle of an answer, `connections` counts the connections accepted."""

    def __init__(self, brain: Brain | Reply = good, key: str | None = None, port: int = 0) -> None:
        self.brain: Brain = (lambda _body: brain) if isinstance(brain, Reply) else brain
        self.key = key
        self.bodies: list[Json] = []
        self.headers: list[Mapping[str, str]] = []
        self.gone = threading.Event()
        self.ending = threading.Event()
        self.connections = 0
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], upstream: Upstream) -> None:
        super().__init__(address, _Handler)
        self.upstream = upstream

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error here."""

    def get_request(self) -> tuple[socket.socket, Any]:
        self.upstream.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        if self.path == "/v1/models" and self._allowed():
            self._json(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        elif self.path != "/v1/models":
            self._error(404, "no such path")

    def do_POST(self) -> None:
        up = self.server.upstream
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._allowed():
            return
        wrong = self._wrong(raw)
        if wrong:
            self._error(*wrong)
            return
        body = json.loads(raw)
        up.bodies.append(body)
        up.headers.append(dict(self.headers))
        reply = up.brain(body)
        self.close_connection = True
        try:
            self._reply(body, reply)
        except (BrokenPipeError, ConnectionResetError):
            up.gone.set()

    def _allowed(self) -> bool:
        key = self.server.upstream.key
        sent = self.headers.get("Authorization", "")
        if key is None or sent == f"Bearer {key}":
            return True
        self._error(401, f"wrong key: {sent.removeprefix('Bearer ')}")
        return False

    def _wrong(self, raw: bytes) -> tuple[int, str] | None:
        """Why this is no request of the API; None where it is one."""
        kind = {"/v1/chat/completions": "messages", "/v1/completions": "prompt"}.get(self.path)
        if kind is None:
            return 404, "no such path"
        if self.headers.get("Content-Type") != "application/json":
            return 400, "Content-Type must be application/json"
        try:
            body = json.loads(raw)
        except ValueError:
            return 400, "the body is no JSON"
        if body.get("model") != MODEL:
            return 404, f"the model {body.get('model')!r} does not exist"
        if not body.get(kind) or not isinstance(body[kind], list if kind == "messages" else str):
            return 400, f"{kind} is missing or of the wrong type"
        if kind == "messages" and any(set(one) < {"role", "content"} for one in body[kind]):
            return 400, "a message has a role and a content"
        if any(value is None for value in body.values()):
            return 400, "a field is null"
        if "stream_options" in body and not body.get("stream"):
            return 400, "stream_options without stream"
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            return 400, "max_tokens must be a whole number above 0"
        return None

    def _error(self, status: int, message: str) -> None:
        self._json(status, {"error": {"message": message, "type": "invalid_request_error", "code": status}})

    def _json(self, status: int, data: Json) -> None:
        self._plain(status, json.dumps(data).encode(), {})

    def _plain(self, status: int, raw: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _reply(self, body: Json, reply: Reply) -> None:
        self._pause(reply.first_after)
        if reply.reset:
            self._reset()
        elif reply.body is not None or reply.status != 200:
            fallback = json.dumps({"error": {"message": "out of order", "type": "server_error"}}).encode()
            self._plain(reply.status, fallback if reply.body is None else reply.body, reply.headers)
        elif body.get("stream"):
            self._stream(body, reply)
        else:
            self._json(200, _whole(self.path, body, reply))

    def _stream(self, body: Json, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(_events(self.path, body, reply)):
            if number == reply.reset_after:
                self._reset()
                return
            if number == reply.cut_after:
                return
            if number == reply.hang_after:
                self._pause(60)
                return
            self._pause(reply.between if number else 0)
            self._chunked(event.replace(b"\n", b"\r\n") if reply.crlf else event, reply.bytes_at_once)
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = False

    def _chunked(self, event: bytes, at_once: int | None) -> None:
        size = at_once or len(event)
        for start in range(0, len(event), size):
            part = event[start : start + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def _pause(self, seconds: float) -> None:
        """Wait, but no longer than the client and the server live."""
        end = time.monotonic() + seconds
        self.connection.settimeout(0.01)
        try:
            while time.monotonic() < end and not self.server.upstream.ending.is_set():
                try:
                    if self.connection.recv(1, socket.MSG_PEEK) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    continue
        finally:
            self.connection.settimeout(None)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()


def _events(path: str, body: Json, reply: Reply) -> list[bytes]:
    chat = path.endswith("/chat/completions")
    choices: list[Json] = [{"delta": {"role": "assistant", "content": None}}] if chat else []
    choices += [{"delta": {"reasoning_content": piece}} for piece in reply.reasoning]
    for number, piece in enumerate(reply.pieces):
        choice: Json = {"delta": {"content": piece}} if chat else {"text": piece}
        choices.append(choice | _logprobs(body, reply, (number,)))
    for index, (name, arguments) in enumerate(reply.tool_calls):
        head = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name}}
        choices.append({"delta": {"tool_calls": [head]}})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            choices.append({"delta": {"tool_calls": [{"index": index, "function": {"arguments": part}}]}})
    chunks: list[Json] = [{"choices": [{"index": 0, "finish_reason": None} | choice]} for choice in choices]
    if reply.error is not None:
        return [_event(chunk) for chunk in [*chunks, {"error": {"message": reply.error}}]]
    if reply.finish is not None:
        last: Json = {"index": 0, "finish_reason": reply.finish, **_iterations(reply)}
        last["delta" if chat else "text"] = {} if chat else ""
        chunks.append({"choices": [last]})
    if reply.usage and body.get("stream_options", {}).get("include_usage"):
        chunks.append({"choices": [], **_figures(reply)})
    done = [b"data: [DONE]\n\n"] if reply.done else []
    return [*map(_event, chunks), *reply.raw_events, *done]


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def _whole(path: str, body: Json, reply: Reply) -> Json:
    text = "".join(reply.pieces)
    choice: Json = {"index": 0, "finish_reason": reply.finish, **_iterations(reply)}
    choice |= _logprobs(body, reply, range(len(reply.pieces)))
    if path.endswith("/chat/completions"):
        choice["message"] = {"role": "assistant", "content": text or None}
        if reply.reasoning:
            choice["message"]["reasoning_content"] = "".join(reply.reasoning)
        if reply.tool_calls:
            choice["message"]["tool_calls"] = [
                {
                    "id": f"call_{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": arguments},
                }
                for index, (name, arguments) in enumerate(reply.tool_calls)
            ]
    else:
        choice["text"] = text
    return {"choices": [choice], **(_figures(reply) if reply.usage else {})}


def _iterations(reply: Reply) -> Json:
    return {} if reply.per_iteration is None else {"avg_decoded_tokens_per_iter": reply.per_iteration}


def _logprobs(body: Json, reply: Reply, numbers: Any) -> Json:
    if not body.get("logprobs") or reply.margins is None:
        return {}
    content = [
        {"token": reply.pieces[number], "logprob": -0.5, "bytes": list(reply.pieces[number].encode()),
         "top_logprobs": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.5 - reply.margins[number]}]}
        for number in numbers
    ]  # fmt: skip
    return {"logprobs": {"content": content}}


def _figures(reply: Reply) -> Json:
    generated = len(reply.reasoning) + len(reply.pieces) + len(reply.tool_calls)
    usage = {"prompt_tokens": 5, "completion_tokens": generated, "total_tokens": 5 + generated}
    return {"usage": usage} | ({"timings": dict(reply.timings)} if reply.timings else {})


def main() -> None:
    """Serve on a free port, print the address, end with SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Upstream() as upstream:
        print(upstream.base_url, flush=True)
        try:
            upstream.ending.wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
