"""The engine's program, for real: it sets what it is told, serves, ends at once, says why it cannot start."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.catalog.entries import load_entry
from appliance.catalog.preset import load
from appliance.catalog.stack import Stack
from appliance.engines.base import Place, diagnose
from appliance.engines.llamacpp import ENGINE
from appliance.models.place import place
from appliance.stack.check import pair_of

pytestmark = pytest.mark.engine
PROGRAMS = Path(__file__).parents[2] / "appliance" / "engines"
NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"


@dataclass
class Engine:
    """A started program; its output comes line by line."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str]

    def wait_for(self, text: str) -> None:
        """Read on until a line has `text`. The reader ends with the process, and a process with the test."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if text in line:
                return
        raise AssertionError("\n".join(self.lines))

    def ended(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait(60)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        answer = connection.getresponse().read().decode()
        connection.close()
        return answer if path == "/metrics" else json.loads(answer)


Start = Callable[..., Engine]


@pytest.fixture
def start(tmp_path: Path, models_dir: Path, free_port: int) -> Iterator[Start]:
    """Start the program as the launcher would, from tables to argv; `changes` are to its settings."""
    running: list[subprocess.Popen[str]] = []

    def begin(preset: str = "demo", **changes: Any) -> Engine:
        stack = Stack.model_validate({"preset": preset, **load(preset).stack})
        target = models_dir / place(load_entry("smollm2-135m-instruct"))
        draft = models_dir / place(load_entry("smollm2-135m-drop4"))
        here = Place(
            python=sys.executable,
            programs=str(PROGRAMS),
            config=str(tmp_path),
            state=str(tmp_path),
            target=str(target),
            draft=str(draft),
            host="127.0.0.1",
            port=free_port,
        )
        launch = ENGINE.launch(stack, pair_of(stack), here)
        settings = json.loads(launch.files["llamacpp.json"]) | changes
        (tmp_path / "llamacpp.json").write_text(json.dumps(settings))
        process = subprocess.Popen(
            launch.argv, cwd=tmp_path, env={**os.environ, **launch.env}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        running.append(process)
        return Engine(process, settings["port"], [])

    yield begin
    for process in running:
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def counter(metrics: str, name: str) -> float:
    assert ENGINE.counters is not None
    series = ENGINE.counters.names[name]
    return sum(
        float(line.split()[-1]) for line in metrics.splitlines() if line.split(" ")[0].split("{")[0] == series
    )


def test_it_serves_under_its_public_name_speculates_counts_and_ends_in_mid_stream(start: Start) -> None:
    engine = start()
    engine.wait_for("llamacpp_program: listening on http://127.0.0.1:")
    assert [model["id"] for model in engine.ask("/v1/models")["data"]] == [NAME]

    question = {"messages": [{"role": "user", "content": "What is 2+2?"}], "max_tokens": 16, "temperature": 0}
    answer = engine.ask(ENGINE.chat_path, question)
    assert "4" in answer["choices"][0]["message"]["content"]
    metrics = engine.ask("/metrics")
    assert counter(metrics, "generated") == answer["usage"]["completion_tokens"]
    assert counter(metrics, "drafted") >= counter(metrics, "accepted") > 0
    assert counter(metrics, "accepted_per_position") == counter(metrics, "accepted")
    assert (
        counter(metrics, "steps") > 0 and counter(metrics, "progress") > 0 and counter(metrics, "active") == 0
    )

    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=120)
    connection.request("POST", ENGINE.chat_path, json.dumps(question | {"stream": True, "max_tokens": 1500}))
    assert connection.getresponse().readline().startswith(b"data: ")
    engine.process.send_signal(signal.SIGTERM)
    assert engine.ended() == 0
    connection.close()


def test_a_stop_during_the_load_ends_it_at_once(start: Start) -> None:
    engine = start()
    engine.wait_for("loading model")
    engine.process.send_signal(signal.SIGTERM)
    assert engine.ended() == -signal.SIGTERM
    assert not any("listening" in line for line in engine.lines)


def test_a_taken_port_ends_it_and_is_diagnosed(start: Start) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        engine = start(port=other.getsockname()[1])
        assert engine.ended() == 1
    death = diagnose(engine.lines, ENGINE.deaths)
    assert death is not None and "port is taken" in death.why


def test_an_absent_draft_ends_it_and_is_diagnosed(start: Start, tmp_path: Path) -> None:
    engine = start(**{"speculative.draft.mparams.path": str(tmp_path / "none.gguf")})
    assert engine.ended() == 1
    death = diagnose(engine.lines, ENGINE.deaths)
    assert death is not None and "not there" in death.why


def test_a_draft_of_another_tokenizer_is_refused_though_the_engine_would_serve_on(
    start: Start, models_dir: Path, tmp_path: Path
) -> None:
    """One flag of the draft's metadata is enough to make it another tokenizer."""
    draft = (models_dir / place(load_entry("smollm2-135m-drop4"))).read_bytes()
    key = b"tokenizer.ggml.add_bos_token"
    flag = draft.index(key) + len(key) + 4  # after the key comes the value's type, 4 bytes
    assert draft[flag] == 0
    (tmp_path / "other.gguf").write_bytes(draft[:flag] + b"\1" + draft[flag + 1 :])
    engine = start(**{"speculative.draft.mparams.path": str(tmp_path / "other.gguf")})
    assert engine.ended() == 1
    death = diagnose(engine.lines, ENGINE.deaths)
    assert death is not None and "tokenizer" in death.why


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model.pth": "x"}, "unknown parameter model.pth"),
        ({"n_ctx": "many"}, "parameter n_ctx cannot be 'many'"),
        ({"speculative.types": ["GUESS"]}, "unknown parameter speculative.types"),
    ],
)
def test_a_parameter_it_does_not_know_is_named(start: Start, change: dict[str, Any], said: str) -> None:
    engine = start("demo-baseline", **change)
    assert engine.ended() == 1
    assert said in engine.lines[-1]


def test_the_draft_changes_no_word_of_a_greedy_answer(start: Start) -> None:
    question = {
        "messages": [{"role": "user", "content": "List three uses of copper."}],
        "max_tokens": 40,
        "temperature": 0,
    }
    texts = []
    for preset in ("demo", "demo-baseline"):
        engine = start(preset)
        engine.wait_for("listening on http")
        texts.append(engine.ask(ENGINE.chat_path, question)["choices"][0]["message"]["content"])
        engine.process.send_signal(signal.SIGTERM)
        assert engine.ended() == 0
    assert texts[0] == texts[1]
