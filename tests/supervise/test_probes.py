import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from appliance.supervise import probes

Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves one connection: sends these bytes and closes, or keeps silent where there are none."""
    listeners: list[socket.socket] = []

    def start(answer: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)
                    while not answer and connection.recv(65536):
                        pass

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0\1\2", b"HTTP/1.1", http("503 Busy", b"loading"), http("404 No", b"")],
)
def test_health_is_good_only_with_200(serve: Serve, answer: bytes) -> None:
    assert probes.health(serve(answer), "/health", 0.3) is False


def test_health_is_good_with_a_200(serve: Serve) -> None:
    assert probes.health(serve(http("200 OK", b"{}")), "/health", 5) is True


def test_nobody_there_is_not_good() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, not listening: refused
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert probes.health(url, "/health", 5) is False
        token, why = probes.chat(url, "/chat", {}, 5)
    assert (token, "Refused" in why) == (False, True)


def message(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **fields}}]}


@pytest.mark.parametrize(
    "answer",
    [
        message(content="4"),
        message(content=" "),
        message(content=None, reasoning_content="hm"),
        message(content="", reasoning="hm"),
        {**message(content=""), "usage": {"completion_tokens": 1}},
    ],
)
def test_a_token_is_content_reasoning_or_a_counted_one(serve: Serve, answer: dict[str, Any]) -> None:
    body = http("200 OK", json.dumps(answer).encode())
    assert probes.chat(serve(body), "/chat", {"max_tokens": 1}, 5) == (True, "")


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        message(content=""),
        message(content=None),
        {**message(content=""), "usage": {"completion_tokens": 0}},
        {"usage": {"completion_tokens": "many"}},
    ],
)
def test_an_answer_without_a_token_is_none(answer: Any) -> None:
    assert probes.has_token(json.dumps(answer).encode()) is False


def test_an_error_that_holds_text_is_no_token(serve: Serve) -> None:
    answer = http("400 Bad", json.dumps(message(content="no such template")).encode())
    token, why = probes.chat(serve(answer), "/chat", {}, 5)
    assert token is False
    assert why.startswith("HTTP 400") and "no such template" in why


def test_silence_is_named(serve: Serve) -> None:
    assert probes.chat(serve(b""), "/chat", {}, 0.3) == (False, "no answer within 0.3 s")


def test_an_endless_answer_is_cut(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MAX_ANSWER", 1000)
    assert probes.health(serve(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10_000), "/health", 5) is False
