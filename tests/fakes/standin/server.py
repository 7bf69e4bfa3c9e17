"""The HTTP side of a stand-in: the engine's paths, llama.cpp's tokens behind them, and the moods."""

import http.client
import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standin.engine import GENERATES, Drafting, Engine, Reply
from standin.life import complain, say, traceback
from standin.mood import MOODS, OUT_OF_MEMORY, Answer, made_up, streamed, whole

LLAMAS_OWN = ("timings", "__verbose", "system_fingerprint")


class Server(ThreadingHTTPServer):
    """Serves an engine on a socket that is bound already."""

    daemon_threads = True
    engine: Engine

    def __init__(self, bound: socket.socket, engine: Engine) -> None:
        super().__init__(bound.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.engine = bound, engine


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_request(self, code: int | str = "-", _size: int | str = "-") -> None:
        host, port = self.client_address[:2]
        phrase = HTTPStatus(int(code)).phrase
        say(f'INFO:     {host}:{port} - "{self.command} {self.path} HTTP/1.1" {int(code)} {phrase}')

    def log_message(self, format: str, *args: Any) -> None:
        complain(format % args)

    def do_GET(self) -> None:
        engine, path = self.server.engine, self.path.partition("?")[0]
        if path == "/standin":
            return self._reply(Reply(200, {"mood": engine.mood, "ready": engine.ready}))
        if not engine.ready:
            return self._reply(engine.starting(path))
        if path == "/health_generate" and engine.mood == "hang":
            return self._hang()
        reply = self._unauthorized(path) or engine.get(path)
        return self._reply(reply or Reply(405 if path in GENERATES else 404, {"detail": "Not Found"}))

    def do_POST(self) -> None:
        engine, path = self.server.engine, self.path.partition("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            request = json.loads(raw)
            if not isinstance(request, dict):
                raise ValueError("not an object")
        except ValueError as error:
            return self._reply(engine.error(400, f"JSON decode error: {error}"))
        if path == "/standin":
            return self._set_mood(request)
        if not engine.ready:
            return self._reply(engine.starting(path))
        if path not in GENERATES:
            return self._reply(Reply(404, {"detail": "Not Found"}))
        refused = self._unauthorized(path) or engine.refuse(path, request)
        if refused:
            return self._reply(refused)
        return self._generate(path == GENERATES[0], request)

    def _set_mood(self, request: dict[str, Any]) -> None:
        if request.get("mood") not in MOODS:
            return self._reply(Reply(400, {"detail": f"moods are {MOODS}"}))
        self.server.engine.mood = request["mood"]
        return self._reply(Reply(200, {"mood": request["mood"]}))

    def _unauthorized(self, path: str) -> Reply | None:
        key = self.server.engine.key()
        if key and path.startswith("/v1") and self.headers.get("Authorization") != f"Bearer {key}":
            return Reply(401, {"error": "Unauthorized"})
        return None

    def _generate(self, chat: bool, request: dict[str, Any]) -> None:
        engine = self.server.engine
        if chat and engine.mood == "die":
            traceback("model_engine.py", OUT_OF_MEMORY)
            if engine.llama:
                engine.llama.kill()
            os._exit(1)
        if chat and engine.mood == "hang":
            return self._hang()
        answer = made_up(engine.mood, request, engine.calls_tools(request)) if chat else None
        return self._made_up(answer, chat, request) if answer else self._forward(chat, request)

    def _hang(self) -> None:
        """Takes the request and answers nothing, until the client goes."""
        engine = self.server.engine
        with engine.lock:
            engine.waiting += 1
        while not (
            select.select([self.connection], [], [], 0.2)[0] and not self.connection.recv(1, socket.MSG_PEEK)
        ):
            time.sleep(0.05)
        with engine.lock:
            engine.waiting -= 1
        self.close_connection = True

    def _made_up(self, answer: Answer, chat: bool, request: dict[str, Any]) -> None:
        engine, count = self.server.engine, max(1, len(answer.pieces))
        engine.note_made_up(count)
        drafting = Drafting(count, count * engine.draft_len, 0)
        head = engine.head(chat)
        if not request.get("stream"):
            body = engine.decorate(whole(answer, chat, head), drafting, request)
            return self._reply(Reply(200, body))
        usage = bool((request.get("stream_options") or {}).get("include_usage"))
        chunks = streamed(answer, chat, head, usage)
        return self._stream(engine.decorate(chunk, drafting, request) for chunk in chunks)

    def _forward(self, chat: bool, request: dict[str, Any]) -> None:
        engine = self.server.engine
        assert engine.llama is not None
        try:
            response = engine.llama.send("POST", GENERATES[0 if chat else 1], engine.adapt(request))
        except OSError as error:
            return self._reply(engine.error(500, f"llama.cpp: {error}", "InternalServerError"))
        if response.status != 200:
            said = json.loads(response.read()).get("error", {})
            return self._reply(engine.error(response.status, said.get("message", "refused")))
        head = engine.head(chat)
        if not request.get("stream"):
            body = json.loads(response.read())
            return self._reply(Reply(200, engine.decorate(*_split(body, head), request)))
        return self._stream(engine.decorate(*pair, request) for pair in _held(_chunks(response, head)))

    def _reply(self, reply: Reply) -> None:
        as_json = isinstance(reply.body, list | dict)
        raw = (json.dumps(reply.body) if as_json else reply.body).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json" if as_json else reply.kind)
        self.send_header("Content-Length", str(len(raw)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, chunks: Iterable[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for chunk in chunks:
                self._event(json.dumps(chunk))
            self._event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException):
            self.close_connection = True

    def _event(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


Said = tuple[dict[str, Any], Drafting | None]


def _split(body: dict[str, Any], head: dict[str, Any]) -> Said:
    """An answer of llama.cpp under our name, and what it says of speculation."""
    timings = body.get("timings")
    kept = {key: value for key, value in body.items() if key not in LLAMAS_OWN} | head
    if not timings:
        return kept, None
    return kept, Drafting(
        timings["predicted_n"], timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    )


def _chunks(response: http.client.HTTPResponse, head: dict[str, Any]) -> Iterator[Said]:
    for line in response:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield _split(json.loads(line[6:]), head)


def _held(chunks: Iterator[Said]) -> Iterator[Said]:
    """The chunk that ends an answer waits for the numbers, which come with the next one."""
    held: dict[str, Any] | None = None
    for chunk, drafting in chunks:
        if held is not None:
            yield held, drafting
            held = None
        if any(choice.get("finish_reason") for choice in chunk["choices"]) and drafting is None:
            held = chunk
        else:
            yield chunk, drafting
    if held is not None:
        yield held, None


def serve(server: Server) -> None:
    """For ever, in a thread of its own, so that the main thread takes signals."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
