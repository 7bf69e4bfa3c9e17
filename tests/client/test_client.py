"""The client against a strict fake endpoint: figures, errors, cancelling, secrets."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from appliance.client.answer import Answer, ToolCall
from appliance.client.client import Client, Timeouts
from appliance.client.errors import BrokenAnswer, NotReachable, RequestRefused, Silent
from appliance.core.errors import ConfigFault, SparkSpecError
from tests.fakes.openai_upstream import MODEL, Reply, Upstream

QUICK = Timeouts(connect_s=2, first_token_s=10, silence_s=5, answer_s=20)
HI = [{"role": "user", "content": "Hi"}]


def ask(
    up: Upstream, stream: bool = True, timeouts: Timeouts = QUICK, key: str | None = None, **more: Any
) -> Answer:
    with Client(up.base_url, MODEL, key, timeouts) as client:
        return client.chat(HI, max_tokens=8, temperature=0.0, stream=stream, **more)


def test_models_are_the_public_names() -> None:
    with Upstream() as up, Client(up.base_url + "/v1/", MODEL) as client:
        assert client.models() == (MODEL,)


def test_a_streamed_chat_has_text_usage_and_times() -> None:
    heard: list[str] = []
    with Upstream(Reply(between=0.01)) as up:
        answer = ask(up, on_text=heard.append)
    assert heard == ["Hello", ",", " world", "!"]
    assert (answer.text, answer.finish_reason) == ("Hello, world!", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens) == (5, 4)
    assert answer.ttft_s is not None and len(answer.itl_s) == 3 and answer.chunks == 4
    assert all(gap > 0 for gap in answer.itl_s)
    assert answer.elapsed_s == pytest.approx(answer.ttft_s + sum(answer.itl_s))
    assert answer.tok_s == pytest.approx(3 / sum(answer.itl_s))


def test_an_answer_that_is_not_streamed_has_no_first_token_time() -> None:
    with Upstream() as up:
        answer = ask(up, stream=False)
        assert "stream_options" not in up.bodies[0]
    assert answer.text == " t0 t1 t2 t3 t4 t5 t6 t7"
    assert answer.ttft_s is None and answer.tok_s is None and answer.chunks == 0 and answer.elapsed_s > 0


def test_completions_work_streamed_and_whole() -> None:
    with Upstream() as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        answers = [
            client.complete("x", max_tokens=3, temperature=0.0, stream=stream) for stream in (True, False)
        ]
    assert [answer.text for answer in answers] == [" t0 t1 t2"] * 2


def test_options_reach_the_server_as_given_and_unset_ones_do_not() -> None:
    with Upstream() as up:
        ask(up, seed=7, extra={"top_k": 1})
    assert up.bodies[0] == {
        "model": MODEL, "messages": HI, "max_tokens": 8, "temperature": 0.0, "stream": True,
        "stream_options": {"include_usage": True}, "seed": 7, "top_k": 1,
    }  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
def test_tool_calls_are_put_together(stream: bool) -> None:
    with Upstream() as up:
        answer = ask(up, stream=stream, tools=[{"type": "function", "function": {"name": "get_weather"}}])
    assert answer.tool_calls == (ToolCall("call_0", "get_weather", '{"city": "Paris"}'),)
    assert answer.finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [True, False])
def test_reasoning_is_kept_apart_and_counts_as_the_first_token(stream: bool) -> None:
    with Upstream(Reply(reasoning=("Hm", "."), pieces=("Yes",))) as up:
        answer = ask(up, stream=stream)
    assert (answer.reasoning, answer.text) == ("Hm.", "Yes")
    assert answer.chunks == (3 if stream else 0)


def test_what_the_engine_says_of_drafts_is_kept_and_otherwise_unknown() -> None:
    with Upstream(Reply(timings={"draft_n": 9, "draft_n_accepted": 4})) as up:
        llamacpp = ask(up)
    with Upstream(Reply(per_iteration=2.5)) as up:
        trtllm = ask(up)
    assert (llamacpp.drafted, llamacpp.accepted, llamacpp.acceptance_length) == (9, 4, None)
    assert (trtllm.drafted, trtllm.accepted, trtllm.acceptance_length) == (None, None, 2.5)


def test_tokens_and_their_margins_where_asked_for() -> None:
    with Upstream(Reply(pieces=("é", "b"), margins=(0.5, 0.25))) as up:
        answer = ask(up, stream=False, extra={"logprobs": True, "top_logprobs": 2})
    assert [token.raw for token in answer.tokens] == ["é".encode(), b"b"]
    assert [token.margin for token in answer.tokens] == pytest.approx([0.5, 0.25])


@pytest.mark.parametrize("at_once", [1, 2, 3, 7])
@pytest.mark.parametrize("crlf", [False, True])
def test_chunks_may_be_split_anywhere(at_once: int, crlf: bool) -> None:
    pieces = ("né", "🦙", "\u2028", "\x85", 'a"b\\')
    with Upstream(Reply(pieces=pieces, bytes_at_once=at_once, crlf=crlf)) as up:
        assert ask(up).text == "".join(pieces)


def test_comments_and_other_fields_are_passed_over() -> None:
    with Upstream(Reply(raw_events=(b": still here\n\n", b"event: x\nid: 1\nretry: 5\n\n"))) as up:
        assert ask(up).text == "Hello, world!"


def test_nobody_there_is_not_reachable(free_port: int) -> None:
    with Client(f"http://127.0.0.1:{free_port}", MODEL) as client:
        with pytest.raises(NotReachable, match="does not answer"):
            client.models()
        with pytest.raises(NotReachable):
            client.chat(HI, max_tokens=1, temperature=0.0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_reset_before_the_answer_is_not_reachable(stream: bool) -> None:
    with Upstream(Reply(reset=True)) as up, pytest.raises(NotReachable):
        ask(up, stream=stream)


def hang_up(server: socket.socket) -> None:
    server.accept()[0].close()


def test_end_of_file_before_the_answer_is_not_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=hang_up, args=(server,), daemon=True).start()
        with (
            Client(f"http://127.0.0.1:{server.getsockname()[1]}", MODEL) as client,
            pytest.raises(NotReachable),
        ):
            client.models()


def test_a_body_shorter_than_announced_is_cut_off() -> None:
    def serve(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"data": []}')

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with Client(url, MODEL, timeouts=QUICK) as client, pytest.raises(BrokenAnswer, match="cut off"):
            client.models()


def test_503_is_not_reachable_and_says_when_to_come_back() -> None:
    with (
        Upstream(Reply(status=503, headers={"Retry-After": "7"})) as up,
        pytest.raises(NotReachable) as caught,
    ):
        ask(up)
    assert caught.value.retry_after_s == 7 and caught.value.code == 7
    assert "out of order" in caught.value.why


def test_a_refused_request_carries_the_servers_own_words() -> None:
    with Upstream() as up, Client(up.base_url, "other") as client, pytest.raises(RequestRefused) as caught:
        client.chat(HI, max_tokens=1, temperature=0.0)
    assert caught.value.status == 404 and caught.value.code == 2
    assert "HTTP 404: the model 'other' does not exist" in caught.value.why


def test_a_servers_own_failure_is_not_the_requests_fault() -> None:
    reply = Reply(status=500, body=b"<html>\x1b[31moops</html>")
    with Upstream(reply) as up, pytest.raises(BrokenAnswer) as caught:
        ask(up)
    assert "oops" in caught.value.why and "\x1b" not in caught.value.why


@pytest.mark.parametrize(
    "reply",
    [
        Reply(cut_after=0), Reply(cut_after=3), Reply(reset_after=3), Reply(done=False), Reply(finish=None),
        Reply(error="CUDA error"), Reply(raw_events=(b"data: {nonsense\n\n",)), Reply(raw_events=(b"data: 3\n\n",)),
        Reply(raw_events=(b"<html>\n",)), Reply(raw_events=(b"\xff\xfe\x00\n\n",)),
        Reply(raw_events=(b'data: {"choices": 3}\n\n',)), Reply(raw_events=(b'data: {"choices": ["x"]}\n\n',)),
        Reply(raw_events=(b"data: " + b"[" * 100_000 + b"\n\n",)), Reply(body=b"hello"),
    ],
)  # fmt: skip
def test_a_cut_or_malformed_stream_is_never_a_short_answer(reply: Reply) -> None:
    with Upstream(reply) as up, pytest.raises(BrokenAnswer):
        ask(up)


def test_an_error_in_the_stream_is_told() -> None:
    with Upstream(Reply(error="CUDA error")) as up, pytest.raises(BrokenAnswer) as caught:
        ask(up)
    assert caught.value.why == "CUDA error"


@pytest.mark.parametrize("body", [b"hello", b"[]", b"{}", b'{"choices": []}', b'{"choices": [3]}', b""])
def test_a_whole_answer_that_is_none_is_an_error(body: bytes) -> None:
    with Upstream(Reply(body=body)) as up, pytest.raises(BrokenAnswer):
        ask(up, stream=False)


@pytest.mark.parametrize(
    ("reply", "timeouts"),
    [
        (Reply(first_after=30), Timeouts(first_token_s=0.1)),
        (Reply(hang_after=1), Timeouts(first_token_s=0.1)),  # the role came, but nothing generated
        (Reply(hang_after=2), Timeouts(silence_s=0.1)),
        (Reply(pieces=("x",) * 50, between=0.05), Timeouts(answer_s=0.2)),
    ],
)
def test_every_wait_has_an_end_and_then_the_server_is_left(reply: Reply, timeouts: Timeouts) -> None:
    with Upstream(reply) as up:
        with pytest.raises(Silent):
            ask(up, timeouts=timeouts)
        assert up.gone.wait(5)


def test_pings_do_not_stretch_the_wait_for_the_first_token() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def ping() -> None:
            connection = server.accept()[0]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b": ping\n\n")
                except OSError:
                    return

        threading.Thread(target=ping, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with Client(url, MODEL, timeouts=Timeouts(first_token_s=0.3)) as client, pytest.raises(Silent):
            client.chat(HI, max_tokens=1, temperature=0.0)
        stop.set()


class Enough(Exception):
    pass


def test_leaving_in_the_middle_closes_the_connection_at_once() -> None:
    def leave(_text: str) -> None:
        raise Enough

    threads = threading.active_count()
    with Upstream(Reply(hang_after=2)) as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        with pytest.raises(Enough):
            client.chat(HI, max_tokens=8, temperature=0.0, on_text=leave)
        assert up.gone.wait(5)  # while the client is still open
    assert threading.active_count() <= threads


def test_ctrl_c_in_the_middle_closes_the_connection_at_once() -> None:
    def interrupt(_text: str) -> None:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    with Upstream(Reply(hang_after=2)) as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        with pytest.raises(KeyboardInterrupt):
            client.chat(HI, max_tokens=8, temperature=0.0, on_text=interrupt)
        assert up.gone.wait(5)


def test_no_connection_is_used_twice() -> None:
    """llama.cpp closes a connection after a stream although it announced to keep it."""
    with Upstream() as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:
        for stream in (True, False, True):
            client.chat(HI, max_tokens=8, temperature=0.0, stream=stream)
        assert up.connections == 3
        assert {headers["Connection"] for headers in up.headers} == {"close"}


def test_closing_the_client_cuts_requests_of_other_threads() -> None:
    heard = threading.Event()
    with Upstream(Reply(hang_after=2)) as up, ThreadPoolExecutor(1) as pool:
        client = Client(up.base_url, MODEL, timeouts=QUICK)
        asked = pool.submit(client.chat, HI, max_tokens=8, temperature=0.0, on_text=lambda _text: heard.set())
        assert heard.wait(5)
        client.close()
        with pytest.raises(BrokenAnswer):
            asked.result(5)
        assert up.gone.wait(5)
        with pytest.raises(NotReachable, match="does not answer"):
            client.models()


def test_one_client_serves_many_threads() -> None:
    def echo(body: dict[str, Any]) -> Reply:
        return Reply(pieces=tuple(body["messages"][0]["content"]), between=0.002)

    with Upstream(echo) as up, Client(up.base_url, MODEL, timeouts=QUICK) as client:

        def one(number: int) -> str:
            messages = [{"role": "user", "content": f"n{number}"}]
            return client.chat(messages, max_tokens=8, temperature=0.0).text

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(40))) == [f"n{number}" for number in range(40)]


SECRET = "sk-very-secret"


def test_the_key_is_sent_and_shown_nowhere() -> None:
    with Upstream(key=SECRET) as up:
        assert ask(up, key=SECRET).text
        with pytest.raises(RequestRefused) as caught:
            ask(up, key="other-secret")
    error = caught.value
    assert error.code == 5
    assert "other-secret" not in " ".join((str(error), error.why, error.fix, repr(error)))
    assert SECRET not in repr(Client("http://127.0.0.1:1", MODEL, SECRET))


@pytest.mark.parametrize("key", ["", "a\nb", " a", "ключ", "a\r\nX-Evil: 1"])
def test_a_key_that_cannot_be_one_is_refused_unshown(key: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        Client("http://127.0.0.1:1", MODEL, key)
    assert not key.strip() or key not in caught.value.why


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "http://a:b@c", "http://x:99999"])
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(ConfigFault):
        Client(url, MODEL)


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_proxies_of_the_environment_are_not_used(
    name: str, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, f"http://127.0.0.1:{free_port}")
    with Upstream() as up:
        assert ask(up).text


def test_the_rate_is_unknown_for_one_token_and_where_tokens_are_not_counted() -> None:
    make: Callable[..., Answer] = lambda **more: Answer(text="x", ttft_s=1.0, elapsed_s=2.0, **more)  # noqa: E731
    assert make(completion_tokens=1).tok_s is None
    assert make(completion_tokens=None).tok_s is None
    assert make(completion_tokens=3).tok_s == 2.0
    assert Answer(text="x", ttft_s=1.0, elapsed_s=1.0, completion_tokens=3).tok_s is None


def test_every_error_is_told_in_three_lines(free_port: int) -> None:
    with Client(f"http://127.0.0.1:{free_port}", MODEL) as client, pytest.raises(SparkSpecError) as caught:
        client.models()
    error = caught.value
    assert error.what and error.why and error.fix
