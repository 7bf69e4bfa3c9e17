"""A strict fake engine: an OpenAI-like server as a program, standard library only, for tests of what runs it.

    python tests/fakes/engine.py --port P [what it should do]

It answers GET /health, /metrics, /v1/models and POST /v1/chat/completions (plain and streamed); anything else
is 404 or 405, a request that is not a chat request is 400, another model's name is 404. Answers are the words
`t0 t1 t2 …`, at most `--tokens` or `max_tokens` of them. /metrics has llama.cpp's names; with `--k K` each
verify step drafts K tokens and accepts `--accepted` of them. `--help` lists what it can be told to do.
"""

import argparse
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROMPT_TOKENS = 4
SLEEPER = "import time; time.sleep(600)"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A fake engine.")
    add = parser.add_argument
    add("--port", type=int, required=True)
    add("--host", default="127.0.0.1")
    add("--model", default="fake", help="the public name; a request for another is a 404")
    load = parser.add_argument_group("loading (the parts follow each other in this order)")
    add = load.add_argument
    add("--load-lines", type=int, default=0, help='print so many "loading weights i/n"')
    add("--load-every", type=float, default=0.1, help="seconds before each of these")
    add("--load-reads", type=float, default=0, help="for so many seconds print nothing, but read a lot")
    add("--load-silent", type=float, default=0, help="for so many seconds do nothing")
    add("--while-loading", choices=["refuse", "reset", "eof", "503", "hang"], default="refuse")
    add("--access-log", action="store_true", help="print a line for each request")
    out = parser.add_argument_group("output, printed before loading")
    add = out.add_argument
    add("--say", action="append", default=[], help="print this line")
    add("--say-env", action="append", default=[], help="print NAME=value of this environment variable")
    add("--non-utf8", action="store_true", help="print bytes that are not UTF-8")
    add("--flood", type=int, default=0, help="print so many MB of lines as fast as possible")
    add("--endless-line", type=int, default=0, help="print so many MB before a line break")
    life = parser.add_argument_group("life and death")
    add = life.add_argument
    add("--die-after", type=float, help="die so many seconds after the start")
    add("--die-after-ready", type=float, help="die so many seconds after the first answer")
    add("--die-at-request", type=int, help="die at the n-th chat request, unanswered")
    add("--die-code", type=int, default=1, help="with this exit code")
    add("--die-message", default="", help="and these last words on standard error")
    add("--ignore-sigterm", action="store_true")
    add(
        "--grandchild",
        choices=["group", "session"],
        help="leave a sleeping child in this, or in its own, group",
    )
    chat = parser.add_argument_group("chat")
    add = chat.add_argument
    add("--tokens", type=int, default=16, help="tokens of an answer")
    add("--token-every", type=float, default=0, help="seconds before each token")
    add("--chat-status", type=int, default=200, help="answer chat with this error instead")
    add("--mute", choices=["hang", "empty"], default="hang", help="how it fails to answer with tokens")
    add("--mute-after", type=int, help="no tokens after so many answered chat requests; 0: never any")
    add("--mute-metrics", action="store_true", help="/metrics is a 404")
    add("--k", type=int, default=0, help="draft length; 0: no speculation")
    add("--accepted", type=int, default=1, help="accepted draft tokens a step")
    return parser.parse_args(argv)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Engine:
    """What the handlers share: the options and the counters."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lock = threading.Lock()
        self.loading = True
        self.requests = self.answered = self.active = 0
        self.prompt_tokens = self.generated = self.decodes = self.steps = 0

    def die(self) -> None:
        if self.options.die_message:
            sys.stderr.write(self.options.die_message + "\n")
            sys.stderr.flush()
        os._exit(self.options.die_code)

    def die_in(self, seconds: float | None) -> None:
        if seconds is not None:
            timer = threading.Timer(seconds, self.die)
            timer.daemon = True
            timer.start()

    def enter(self) -> bool:
        """A chat request begins; whether it will get tokens."""
        with self.lock:
            self.requests += 1
            self.active += 1
            if self.requests == self.options.die_at_request:
                self.die()
            return self.options.mute_after is None or self.answered < self.options.mute_after

    def leave(self, generated: int) -> None:
        with self.lock:
            self.active -= 1
            self.generated += generated
            if generated:
                self.prompt_tokens += PROMPT_TOKENS
                self.answered += 1
                if self.answered == 1:
                    self.die_in(self.options.die_after_ready)

    def decode(self, count: int) -> list[str]:
        """Tokens of one decode call: one, or 1 + accepted with speculation."""
        time.sleep(self.options.token_every)
        with self.lock:
            self.decodes += 1
            if self.options.k:
                self.steps += 1
        width = 1 + self.options.accepted if self.options.k else 1
        return [f"t{i}" for i in range(count, count + width)]

    def metrics(self) -> str:
        with self.lock:
            k, accepted = self.options.k, self.options.accepted
            samples = [
                ("llamacpp:prompt_tokens_total", self.prompt_tokens),
                ("llamacpp:tokens_predicted_total", self.generated),
                ("llamacpp:n_decode_total", self.decodes),
                ("llamacpp:requests_processing", self.active),
            ]
            if k:
                samples += [
                    ("llamacpp:spec_decode_num_drafts_total", self.steps),
                    ("llamacpp:spec_decode_num_draft_tokens_total", self.steps * k),
                    ("llamacpp:spec_decode_num_accepted_tokens_total", self.steps * accepted),
                ]
                name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
                samples += [
                    (f'{name}{{position="{i}"}}', self.steps if i < accepted else 0) for i in range(k)
                ]
        return "".join(f"# TYPE {name.partition('{')[0]} counter\n{name} {n}\n" for name, n in samples)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_GET(self) -> None:
        if self.held_back():
            return
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        elif self.path == "/metrics" and not self.engine.options.mute_metrics:
            self.send(200, self.engine.metrics().encode(), "text/plain; version=0.0.4")
        elif self.path == "/v1/models":
            model = {"id": self.engine.options.model, "object": "model"}
            self.answer(200, {"object": "list", "data": [model]})
        else:
            self.fail(404, f"no {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.held_back():
            return
        if self.path != "/v1/chat/completions":
            self.fail(405 if self.path in ("/health", "/metrics", "/v1/models") else 404, f"no {self.path}")
            return
        try:
            request = json.loads(body)
            messages = request["messages"]
            if not messages or not all(isinstance(m["role"], str) and "content" in m for m in messages):
                raise ValueError("messages")
        except (ValueError, KeyError, TypeError) as error:
            self.fail(400, f"not a chat request: {error!r}")
            return
        if request.get("model", self.engine.options.model) != self.engine.options.model:
            self.fail(404, "no such model")
            return
        self.chat(request)

    def held_back(self) -> bool:
        """Whether it still loads; then the connection ends in the way that was asked for."""
        if not self.engine.loading:
            return False
        how = self.engine.options.while_loading
        if how == "503":
            self.fail(503, "Loading model")
        elif how == "hang":
            while self.engine.loading:
                time.sleep(0.05)
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            os.close(self.connection.detach())
        self.close_connection = True
        return True

    def chat(self, request: dict[str, Any]) -> None:
        options, generated = self.engine.options, 0
        speaks = self.engine.enter()
        try:
            if options.chat_status != 200:
                self.fail(options.chat_status, "as asked for")
                return
            if not speaks and options.mute == "hang":
                while True:  # until the process ends: a wedged engine does not notice a closed connection
                    time.sleep(60)
            limit = request.get("max_tokens") or request.get("max_completion_tokens") or options.tokens
            wanted = min(limit, options.tokens) if speaks else 0
            generated = self.stream(wanted) if request.get("stream") else self.complete(wanted)
        finally:
            self.engine.leave(generated)

    def words(self, wanted: int) -> Any:
        count = 0
        while count < wanted:
            step = self.engine.decode(count)[: wanted - count]
            count += len(step)
            yield " ".join(step) + (" " if count < wanted else "")

    def complete(self, wanted: int) -> int:
        text = "".join(self.words(wanted))
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = {"id": "c", "object": "chat.completion", "model": self.engine.options.model}
        self.answer(200, {**head, "choices": [choice], "usage": usage(wanted)})
        return wanted

    def stream(self, wanted: int) -> int:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        head = {"id": "c", "object": "chat.completion.chunk", "model": self.engine.options.model}
        for piece in self.words(wanted):
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            self.event({**head, "choices": [choice]})
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self.event({**head, "choices": [end], "usage": usage(wanted)})
        self.wfile.write(b"data: [DONE]\n\n")
        return wanted

    def event(self, data: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")
        self.wfile.flush()

    def answer(self, status: int, data: dict[str, Any]) -> None:
        self.send(status, json.dumps(data).encode(), "application/json")

    def fail(self, status: int, message: str) -> None:
        self.answer(status, {"error": {"code": status, "message": message}})

    def send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        if self.engine.options.access_log:
            say(f"request: {format % args}")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


def usage(generated: int) -> dict[str, int]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": generated,
        "total_tokens": PROMPT_TOKENS + generated,
    }


def print_all(options: argparse.Namespace) -> None:
    for line in options.say:
        say(line)
    for name in options.say_env:
        say(f"{name}={os.environ.get(name, '')}")
    if options.non_utf8:
        os.write(1, b"caf\xe9 \xff\xfe\x80\n")
    for number in range(options.flood * 10_000):
        os.write(1, b"flood %08d %s\n" % (number, b"x" * 84))
    for _ in range(options.endless_line * 16):
        os.write(1, b"y" * 65536)
    if options.endless_line:
        os.write(1, b"\n")


def load(options: argparse.Namespace) -> None:
    for number in range(1, options.load_lines + 1):
        time.sleep(options.load_every)
        say(f"loading weights {number}/{options.load_lines}")
    until = time.monotonic() + options.load_reads
    with Path("/dev/zero").open("rb", buffering=0) as file:
        while time.monotonic() < until:
            file.read(4 << 20)
            time.sleep(0.05)
    time.sleep(options.load_silent)


def main() -> None:
    options = arguments()
    engine = Engine(options)
    engine.die_in(options.die_after)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.ignore_sigterm else lambda *_: os._exit(0))
    if options.grandchild:
        own = options.grandchild == "session"
        child = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], start_new_session=own)
        say(f"grandchild {child.pid}")
    print_all(options)
    if options.while_loading == "refuse":
        load(options)
    handler = type("BoundHandler", (Handler,), {"engine": engine})
    server = Server((options.host, options.port), handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    if options.while_loading != "refuse":
        load(options)
    engine.loading = False
    say(f"listening on {options.host}:{options.port}")
    serving.join()


if __name__ == "__main__":
    main()
