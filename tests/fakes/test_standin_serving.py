"""The stand-ins load, serve real tokens through their engines' endpoints, and fail as their engines fail."""

import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.fakes import hub_cache, standin_images
from tests.fakes.standin_running import (
    FACTS,
    LOADED,
    PROGRAMS,
    SIGTERM_EXIT,
    START_S,
    TARGET,
    Hub,
    Running,
    eagle,
    end,
    looks,
    spec,
    start,
    trtllm,
)

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "required": ["city", "days"],
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 2},
                "unit": {"enum": ["C", "F"]},
            },
        },
    },
}

pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason=f"the facts are not at {FACTS}")


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """What loads here ends at once with a word and code of its own: then everything was accepted."""
    return Hub(tmp_path / "hf", die_while_loading={"line": "it loaded", "code": LOADED}, refused_s=0)


# --- life


@pytest.fixture(scope="module")
def serving(models_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """Each engine, started once and shared; a test that changes its mood leaves it well."""
    running: dict[str, Running] = {}

    def get(engine: str) -> Running:
        if engine not in running:
            hub = Hub(tmp_path_factory.mktemp(engine), refused_s=0.1, starting_s=0)
            hub.vocabulary()
            words: dict[str, tuple[str, ...]] = {
                "trtllm": ("--config", hub.config(per_request_spec_decode_stats=True)),
                "vllm": spec(hub),
                "sglang": eagle(
                    hub, "--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--enable-metrics"
                ),
            }
            running[engine] = start(hub, engine, models_dir, *words[engine])
            looks(running[engine], "/health")
        running[engine].mood("well")
        return running[engine]

    yield get
    for one in running.values():
        end(one)


@pytest.mark.engine
def test_it_is_refused_then_reset_then_starting_then_ready(hub: Hub, models_dir: Path) -> None:
    hub_cache.make(
        hub.home / "hub", TARGET, config=hub_cache.GPT_OSS_120B,
        standin={"refused_s": 0.5, "reset_s": 1.0, "starting_s": 1.0},
    )  # fmt: skip
    hub.vocabulary()
    running = start(hub, "trtllm", models_dir, "--config", hub.config())
    try:
        assert looks(running, "/health") == ["refused", "reset", "503", "200"]
        log = running.log.read_text()
        parts = ["Loading weights: 1288/1288", "Autotuning process starts", "CUDA graph",
                 "Application startup complete.", f"Uvicorn running on http://127.0.0.1:{running.port}"]  # fmt: skip
        places = [log.index(part) for part in parts]
        assert places == sorted(places)
    finally:
        assert end(running) == SIGTERM_EXIT["trtllm"]


@pytest.mark.engine
def test_old_trtllm_is_healthy_too_early_and_greedy_under_speculation(hub: Hub, models_dir: Path) -> None:
    hub_cache.make(
        hub.home / "hub", TARGET, config=hub_cache.GPT_OSS_120B,
        standin={"refused_s": 0, "starting_s": 1.0, "hide_spec_counters": True},
    )  # fmt: skip
    hub.vocabulary()
    running = start(hub, "trtllm", models_dir, "--config", hub.config("1.2.1"), version="1.2.1")
    try:
        assert looks(running, "/health")[-1] == "200"
        log = running.log.read_text()
        assert '" 503 ' not in log
        texts = {
            running.choice(temperature=2.0, seed=seed, max_tokens=8)["message"]["content"] for seed in (1, 2)
        }
        assert len(texts) == 1
        stats = running.ask("/metrics")[1]
        assert stats and not any(one["specDecodingStats"]["numDraftTokens"] for one in stats)
        running.mood("die")
        with pytest.raises((OSError, http.client.HTTPException)):
            running.chat()
        assert running.process.wait(30) == 1
        assert "torch.OutOfMemoryError: CUDA out of memory." in running.log.read_text()
    finally:
        if running.process.poll() is None:
            end(running)


def test_a_stalled_load_neither_moves_nor_ends_but_can_be_stopped(hub: Hub, tmp_path: Path) -> None:
    hub_cache.make(
        hub.home / "hub", TARGET, config=hub_cache.GPT_OSS_120B, standin={"stall_while_loading": True}
    )
    running = start(hub, "trtllm", tmp_path)
    until = time.monotonic() + START_S
    while "Loading weights: 0/1288" not in running.log.read_text() and time.monotonic() < until:
        time.sleep(0.02)
    with pytest.raises(ConnectionRefusedError):
        running.ask("/health")
    assert running.process.poll() is None
    assert end(running) == 143


def test_a_taken_port_ends_it(hub: Hub) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = trtllm(hub, "1.4.0rc0", "--host", "127.0.0.1", port=str(taken.getsockname()[1]))
    assert (code, "Address already in use" in said) == (1, True)


# --- answers

ENGINES = pytest.mark.parametrize("engine", PROGRAMS)


@pytest.mark.engine
@ENGINES
def test_it_answers_with_real_tokens_whole_and_streamed(
    serving: Callable[[str], Running], engine: str
) -> None:
    running = serving(engine)
    text = running.choice()["message"]["content"]
    assert "4" in text
    chunks = running.chunks()
    assert "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"]) == text
    assert chunks[-1]["usage"]["completion_tokens"] > 1
    assert {chunk["model"] for chunk in chunks} == {TARGET}
    assert not any("timings" in chunk for chunk in chunks)
    status, body, _ = running.ask("/v1/completions", {"model": TARGET, "prompt": "Hello", "max_tokens": 3})
    assert (status, body["usage"]["completion_tokens"]) == (200, 3)
    assert [one["id"] for one in running.ask("/v1/models")[1]["data"]] == [TARGET]
    schema = {"type": "object", "properties": {"answer": {"type": "boolean"}}, "required": ["answer"]}
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    jsonschema.validate(
        json.loads(running.choice(response_format=asked, max_tokens=128)["message"]["content"]), schema
    )


@pytest.mark.engine
@ENGINES
def test_another_model_is_a_404(serving: Callable[[str], Running], engine: str) -> None:
    status, body, _ = serving(engine).chat(model="gpt-4")
    assert (status, "The model `gpt-4` does not exist." in json.dumps(body)) == (404, True)


@pytest.mark.engine
def test_the_metrics_of_trtllm_are_emptied_by_reading(serving: Callable[[str], Running]) -> None:
    running = serving("trtllm")
    running.ask("/metrics")
    choice = running.choice(max_tokens=32)
    stats = [one["specDecodingStats"] for one in running.ask("/metrics")[1]]
    assert running.ask("/metrics")[1] == []
    drafted, accepted, steps = (
        sum(one[key] for one in stats)
        for key in ("numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens")
    )
    own = choice["speculative_decoding"]
    assert (drafted, accepted) == (own["total_draft_tokens"], own["total_accepted_draft_tokens"])
    assert 0 < accepted < drafted <= 3 * steps
    assert 1 < choice["avg_decoded_tokens_per_iter"] <= 4


@pytest.mark.engine
def test_vllm_and_sglang_count_for_prometheus(serving: Callable[[str], Running]) -> None:
    def read(engine: str) -> dict[str, float]:
        text = serving(engine).ask("/metrics")[1]
        return {
            line.split("{")[0]: float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if not line.startswith("#")
        }

    before = read("vllm")
    serving("vllm").choice()
    after = read("vllm")
    grown = {name for name in after if after[name] > before[name]}
    assert {
        f"vllm:{name}_total"
        for name in ("generation_tokens", "spec_decode_num_drafts", "spec_decode_num_draft_tokens")
    } <= grown
    serving("sglang").choice()
    found = read("sglang")
    assert 1 < found["sglang:spec_accept_length"] <= 4 and found["sglang:spec_verify_calls_total"] > 0


@pytest.mark.engine
def test_new_trtllm_samples_under_speculation(serving: Callable[[str], Running]) -> None:
    running = serving("trtllm")
    texts = {running.choice(temperature=2.0, seed=seed)["message"]["content"] for seed in (1, 2)}
    assert len(texts) == 2
    status, body, _ = running.chat(presence_penalty=1.0)
    assert (status, "enable_penalty" in body["message"]) == (400, True)


@pytest.mark.engine
def test_harmony_needs_its_vocabulary_while_health_says_200(serving: Callable[[str], Running]) -> None:
    running = serving("trtllm")
    vocabulary = running.log.parent / "vocabulary" / "cl100k_base.tiktoken"
    vocabulary.unlink()
    try:
        status, body, _ = running.chat()
        assert (status, body["message"].startswith("Error in harmony chat completion: ")) == (400, True)
        assert "vocab file" in body["message"]
        assert (running.ask("/health")[0], running.ask("/health_generate")[0]) == (200, 200)
    finally:
        vocabulary.write_text("IQ== 0\n")
    assert running.chat()[0] == 200


@pytest.mark.engine
def test_trtllm_forbids_unknown_request_fields(serving: Callable[[str], Running]) -> None:
    status, body, _ = serving("trtllm").chat(cache_prompt=True)
    assert (status, "extra_forbidden" in body["message"]) == (400, True)


@pytest.mark.engine
@ENGINES
def test_moods(serving: Callable[[str], Running], engine: str) -> None:
    running = serving(engine)
    running.mood("garble")
    choice = running.choice()
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "<|channel|>" + "!" * 15)
    assert "".join(c["delta"].get("content") or "" for x in running.chunks() for c in x["choices"]).endswith(
        "!!!"
    )
    running.mood("repeat")
    choice = running.choice()
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", " the" * 16)
    running.mood("hang")
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=0.5)
    request = {"model": TARGET, "messages": [{"role": "user", "content": "hi"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(request))
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    assert running.ask("/health")[0] == 200
    assert running.ask("/standin", {"mood": "sad"})[0] == 400


@pytest.mark.engine
def test_tools_are_called_rightly_or_emptied(serving: Callable[[str], Running]) -> None:
    running = serving("trtllm")
    choice = running.choice(tools=[TOOL])
    function = choice["message"]["tool_calls"][0]["function"]
    assert (choice["finish_reason"], function["name"]) == ("tool_calls", "weather")
    jsonschema.validate(json.loads(function["arguments"]), TOOL["function"]["parameters"])  # type: ignore[index]
    calls = [c["delta"].get("tool_calls") for x in running.chunks(tools=[TOOL]) for c in x["choices"]]
    assert "".join(call[0]["function"]["arguments"] for call in calls if call) == function["arguments"]
    assert "tool_calls" not in running.choice(tools=[TOOL], tool_choice="none")["message"]
    running.mood("empty-tools")
    choice = running.choice(tools=[TOOL])
    assert (choice["message"]["content"], choice["message"]["tool_calls"]) == ("", [])
    assert running.choice()["message"]["content"]


@pytest.mark.engine
def test_vllm_wants_its_tool_switches(serving: Callable[[str], Running]) -> None:
    status, body, _ = serving("vllm").chat(tools=[TOOL])
    assert (status, "--enable-auto-tool-choice" in body["error"]["message"]) == (400, True)


# --- the images


@pytest.mark.docker
@pytest.mark.engine
@pytest.mark.parametrize("user", ["0:0", "10001:10001"])
def test_the_image_serves_as_root_and_as_another_user(
    tmp_path: Path, models_dir: Path, free_port: int, user: str
) -> None:
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker engine")
    image = standin_images.build("trtllm", "1.3.0rc12", models_dir / "SmolLM2-135M-Instruct")
    hub = Hub(tmp_path / "hf", refused_s=0.1, starting_s=0)
    hub.vocabulary()
    hub_in = "/root/.cache/huggingface" if user == "0:0" else "/hf"
    config = Path(
        hub.config(
            "1.3.0rc12",
            speculative_config__speculative_model_dir=f"{hub_in}/{hub.head.relative_to(hub.home)}",
        )
    )
    inside = f"{hub_in}/{config.name}"
    home = () if user == "0:0" else ("--env", "HF_HOME=/hf")
    container = subprocess.run(
        ["docker", "run", "--detach", "--init", "--read-only", "--user", user,
         "--publish", f"127.0.0.1:{free_port}:8000",
         "--volume", f"{hub.home}:{hub_in}:ro", "--env", "HF_HUB_OFFLINE=1", *home,
         "--env", f"TIKTOKEN_ENCODINGS_BASE={hub_in}/vocabulary",
         image, "trtllm-serve", TARGET, "--host", "0.0.0.0", "--config", inside],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    try:
        alive = subprocess.Popen(["docker", "wait", container], stdout=subprocess.PIPE)
        running = Running(alive, free_port, config)
        assert looks(running, "/health_generate")[-1] == "200"
        assert "4" in running.choice()["message"]["content"]
        subprocess.run(["docker", "kill", "--signal", "TERM", container], capture_output=True, check=True)
        assert alive.communicate(timeout=30)[0].strip() == str(128 + signal.SIGTERM).encode()
    finally:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)
