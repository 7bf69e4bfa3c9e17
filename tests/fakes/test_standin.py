"""The stand-ins judge as their engines do, serve real tokens, and fail as their engines fail."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.fakes import hub_cache, standin_images

FAKES = Path(__file__).resolve().parent
FACTS = FAKES.parents[1].parent / "shared" / "facts"
PROGRAMS = {
    "trtllm": ["-m", "standin.trtllm"],
    "vllm": ["-m", "standin.vllm", "serve"],
    "sglang": ["-m", "sglang.launch_server", "--model-path"],
}
TRTLLM = ("spark-single-gpu-dev", "1.2.1", "1.3.0rc12", "1.4.0rc0")
OLD, NEW = TRTLLM[:2], TRTLLM[2:]
TARGET, HEAD = "openai/gpt-oss-120b", "nvidia/gpt-oss-120b-Eagle3"
SIGTERM_EXIT = {"trtllm": 143, "vllm": 0, "sglang": 0}
LOADED = 7
START_S = 120.0
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


class Hub:
    """A hub cache with a target and a head, and the environment that a stand-in gets."""

    def __init__(self, home: Path, **standin: Any) -> None:
        self.home = home
        self.target = hub_cache.make(home / "hub", TARGET, config=hub_cache.GPT_OSS_120B, standin=standin)
        self.head = hub_cache.make(home / "hub", HEAD, config=hub_cache.EAGLE3_HEAD)
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{FAKES}:{FAKES / 'standin' / 'site'}",
            "HF_HOME": str(home),
            "HF_HUB_OFFLINE": "1",
            "TIKTOKEN_ENCODINGS_BASE": str(home / "vocabulary"),
        }

    def vocabulary(self) -> None:
        (self.home / "vocabulary").mkdir()
        for name in ("o200k_base", "cl100k_base"):
            (self.home / "vocabulary" / f"{name}.tiktoken").write_text("IQ== 0\n")

    def config(self, version: str = "1.4.0rc0", **changes: Any) -> str:
        """A right config file for a version of trtllm, but for the changes: `a__b=…` is the key b in a."""
        config: dict[str, Any] = {
            "speculative_config": {
                "decoding_type": "Eagle",
                "max_draft_len": 3,
                "speculative_model_dir": str(self.head),
            },
            "kv_cache_config": {"enable_block_reuse": False, "free_gpu_memory_fraction": 0.9},
            "cuda_graph_config": {"max_batch_size": 1},
            "enable_iter_perf_stats": True,
        }
        for key, value in changes.items():
            *path, last = key.split("__")
            inner = config
            for part in path:
                inner = inner[part]
            inner[last] = value
        path = self.home / f"{version}.yml"
        path.write_text(json.dumps(config))
        return str(path)


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    """What loads here ends at once with a word and code of its own: then everything was accepted."""
    return Hub(tmp_path / "hf", die_while_loading={"line": "it loaded", "code": LOADED}, refused_s=0)


def run(
    hub: Hub, engine: str, *words: str, model: str = TARGET, version: str = "1.4.0rc0", **env: str
) -> tuple[int, str]:
    """The exit code and everything said."""
    done = subprocess.run(
        [sys.executable, *PROGRAMS[engine], model, *words], env={**hub.env, "STANDIN_VERSION": version, **env},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def trtllm(hub: Hub, version: str, *words: str, port: str = "0", **changes: Any) -> tuple[int, str]:
    config = hub.config(version, **changes)
    return run(hub, "trtllm", "--extra_llm_api_options", config, "--port", port, *words, version=version)


# --- trtllm-serve: the judge bites, version by version


@pytest.mark.parametrize("version", TRTLLM)
def test_a_right_config_loads(hub: Hub, version: str) -> None:
    code, said = trtllm(hub, version)
    assert (code, "it loaded" in said, "SET TWICE" in said) == (LOADED, True, False), said
    assert "Loading weights: 12/1288" in said


@pytest.mark.parametrize("version", TRTLLM)
def test_each_wrong_key_and_value_is_refused(hub: Hub, version: str) -> None:
    code, said = trtllm(
        hub, version, pytorch_backend_config={}, kv_cache_config__enable_blok_reuse=True, speculative_config__draft_len=3,
        kv_cache_config__free_gpu_memory_fraction=1.5, kv_cache_config__max_tokens="all",
        kv_cache_config__enable_partial_reuse=2, cuda_graph_config__max_batch_size="one", moe_config={"backend": "FASTEST"},
    )  # fmt: skip
    assert (code, "ValidationError: 8 validation errors for TorchLlmArgs" in said) == (1, True), said
    for words in (
        "pytorch_backend_config\n  Extra inputs are not permitted [type=extra_forbidden",
        "kv_cache_config.enable_blok_reuse\n  Extra inputs are not permitted [type=extra_forbidden",
        "speculative_config.Eagle.draft_len\n  Extra inputs are not permitted [type=extra_forbidden",
        "kv_cache_config.free_gpu_memory_fraction\n  Input should be less than or equal to 1 [type=less_than_equal",
        "kv_cache_config.max_tokens\n  Input should be a valid integer [type=int_type",
        "kv_cache_config.enable_partial_reuse\n  Input should be a valid boolean [type=bool_type",
        "cuda_graph_config.max_batch_size\n  Input should be a valid integer [type=int_type",
        "moe_config.backend\n  Input should be ",
    ):
        assert words in said, words


@pytest.mark.parametrize("version", TRTLLM)
def test_one_wrong_key_is_enough(hub: Hub, version: str) -> None:
    code, said = trtllm(hub, version, cuda_graph_config__padding=True)
    assert (code, "1 validation error for TorchLlmArgs\ncuda_graph_config.padding\n" in said) == (1, True), (
        said
    )


@pytest.mark.parametrize("version", TRTLLM)
def test_speculation_needs_a_length_and_a_draft(hub: Hub, version: str) -> None:
    spec = {"decoding_type": "Eagle", "max_draft_len": 0}
    code, said = trtllm(hub, version, speculative_config=spec)
    assert code == 1
    assert (
        "Value error, max_draft_len must be > 0 for Eagle" in said and "Draft model must be provided" in said
    )


@pytest.mark.parametrize("version", TRTLLM)
def test_the_tag_of_the_other_versions_is_refused(hub: Hub, version: str) -> None:
    right, wrong = ("DraftTarget", "Draft_Target") if version in OLD else ("Draft_Target", "DraftTarget")
    assert trtllm(hub, version, speculative_config__decoding_type=right)[0] == LOADED
    code, said = trtllm(hub, version, speculative_config__decoding_type=wrong)
    expected = f"ValueError: Invalid decoding type: {wrong}" if version in OLD else "[type=union_tag_invalid"
    assert (code, expected in said) == (1, True), said
    code, said = trtllm(hub, version, speculative_config__decoding_type="Eagle3")
    assert code == (1 if version in OLD else LOADED), said


def test_keys_come_and_go_with_the_versions(hub: Hub) -> None:
    known_to: dict[str, tuple[str, ...]] = {
        "speculative_config__allow_advanced_sampling": TRTLLM[1:],
        "speculative_config__eagle3_one_model": TRTLLM[:3],
        "speculative_config__enable_penalty": TRTLLM[3:],
        "enable_energy_metrics": NEW,
        "enable_sleep": TRTLLM[:3],
        "per_request_spec_decode_stats": TRTLLM[3:],
        "disable_flashinfer_sampling": TRTLLM[:3],
    }
    for version in TRTLLM:
        _, said = trtllm(hub, version, **dict.fromkeys(known_to, True))
        for key, versions in known_to.items():
            assert (f"{key.rpartition('__')[2]}\n  Extra inputs" in said) == (version not in versions), (
                version,
                key,
            )
        unknown = trtllm(hub, version, sampler_type="auto")[0]
        assert unknown == (LOADED if version in TRTLLM[:3] else 1)


def test_speculative_model_without_dir_came_with_1_2(hub: Hub) -> None:
    path = Path(hub.config("1.2.1", speculative_config__speculative_model=str(hub.head)))
    path.write_text(
        path.read_text()
        .replace('"speculative_model_dir"', '"unused"')
        .replace(f'"unused": "{hub.head}", ', "")
    )
    codes = [run(hub, "trtllm", "--extra_llm_api_options", str(path), version=version)[0] for version in OLD]
    assert codes == [1, LOADED]


def test_the_last_word_on_1_4_is_the_unchanged_schema() -> None:
    schema = json.loads((FACTS / "serve-config-1.4.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid({"sampler_type": "auto"})


@pytest.mark.parametrize("version", [TRTLLM[0], TRTLLM[3]])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--free_gpu_fraction", "0.9"), "Error: No such option: --free_gpu_fraction"),
        (("--port", "http"), "Error: Invalid value for '--port': 'http' is not a valid integer."),
        (("--log_level", "loud"), "Error: Invalid value for '--log_level': 'loud' is not one of"),
        (("again",), "Error: Got unexpected extra argument (again)"),
    ],
)
def test_a_wrong_option_is_clicks_error(hub: Hub, version: str, words: tuple[str, ...], said: str) -> None:
    code, output = run(hub, "trtllm", *words, version=version)
    assert (code, said in output) == (2, True), output


@pytest.mark.parametrize(
    ("word", "known_to"),
    [
        ("--tp_size=1", TRTLLM),
        ("--kv_cache_free_gpu_memory_fraction=0.9", TRTLLM),
        ("--free_gpu_memory_fraction=0.9", TRTLLM[1:]),
        ("--config=", TRTLLM[1:]),
        ("--tensor_parallel_size=1", NEW),
        ("--kv_cache_dtype=fp8", NEW),
        ("--served_model_name=m", TRTLLM[3:]),
        ("--no-telemetry", TRTLLM[3:]),
    ],
)
def test_options_come_and_go_with_the_versions(hub: Hub, word: str, known_to: tuple[str, ...]) -> None:
    assert (
        tuple(version for version in TRTLLM if run(hub, "trtllm", word, version=version)[0] == LOADED)
        == known_to
    )


def test_a_value_given_twice_is_noted(hub: Hub) -> None:
    _, said = trtllm(
        hub,
        "1.4.0rc0",
        "--kv_cache_free_gpu_memory_fraction",
        "0.5",
        "--max_batch_size",
        "4",
        max_batch_size=4,
    )
    assert {line for line in said.splitlines() if "SET TWICE" in line} == {
        "standin: SET TWICE kv_cache_config.free_gpu_memory_fraction",
        "standin: SET TWICE max_batch_size",
    }
    _, said = trtllm(hub, "1.4.0rc0", "--tp_size", "1", "--tensor_parallel_size", "1")
    assert "standin: SET TWICE tensor_parallel_size" in said
    path = hub.home / "twice.yml"
    path.write_text("max_batch_size: 1\nmax_batch_size: 2\n")
    assert "standin: SET TWICE max_batch_size" in run(hub, "trtllm", "--config", str(path))[1]


@pytest.mark.parametrize("engine", PROGRAMS)
def test_a_secret_in_the_environment_is_noted_without_its_value(hub: Hub, engine: str) -> None:
    _, said = run(hub, engine, HF_TOKEN="hf_abc", NGC_API_KEY="k")
    assert [line for line in said.splitlines() if "SECRET" in line] == [
        "standin: SECRET IN ENVIRONMENT HF_TOKEN",
        "standin: SECRET IN ENVIRONMENT NGC_API_KEY",
    ]
    assert "hf_abc" not in said


# --- where the model comes from


@pytest.mark.parametrize("engine", PROGRAMS)
def test_a_repository_that_is_not_in_the_cache_is_the_hubs_offline_error(hub: Hub, engine: str) -> None:
    code, said = run(hub, engine, model="openai/gpt-oss-20b")
    assert (code, "LocalEntryNotFoundError" in said, "outgoing traffic has been disabled" in said) == (
        1,
        True,
        True,
    )


@pytest.mark.parametrize("engine", PROGRAMS)
def test_the_cache_is_found_as_the_hub_library_finds_it(hub: Hub, engine: str) -> None:
    home = hub.home.parent / "home"
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "huggingface").symlink_to(hub.home)
    assert run(hub, engine, HF_HOME="", HOME=str(home))[0] == LOADED
    assert run(hub, engine, HF_HOME="/nonexistent", HF_HUB_CACHE=str(hub.home / "hub"))[0] == LOADED
    assert run(hub, engine, model=str(hub.target))[0] == LOADED
    assert run(hub, engine, HF_HOME="/nonexistent")[0] == 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda hub: (hub.target / "model.safetensors").resolve().unlink(), "FileNotFoundError"),
        (lambda hub: (hub.target / "model.safetensors").resolve().write_bytes(b"\x10"), "SafetensorError"),
        (lambda hub: (hub.target / "model.safetensors").unlink(), "No weight files found"),
        (lambda hub: (hub.target / "config.json").unlink(), "does not appear to have a file named config.json"),
        (lambda hub: (hub.target / "tokenizer.json").unlink(), "Can't load tokenizer"),
        (lambda hub: (hub.head / "config.json").unlink(), "does not appear to have a file named config.json"),
        (lambda hub: (hub.home / "hub" / f"models--{TARGET.replace('/', '--')}" / "refs" / "main").unlink(), "LocalEntryNotFound"),
    ],
)  # fmt: skip
def test_a_damaged_model_does_not_load(hub: Hub, damage: Callable[[Hub], None], words: str) -> None:
    damage(hub)
    code, said = trtllm(hub, "1.4.0rc0")
    assert (code, words in said) == (1, True), said


# --- vllm and sglang: the judge bites


def spec(hub: Hub, **changes: Any) -> tuple[str, str]:
    config = {"method": "eagle3", "model": str(hub.head), "num_speculative_tokens": 3} | changes
    return "--speculative-config", json.dumps(
        {key: value for key, value in config.items() if value is not ...}
    )


def test_a_right_vllm_command_line_loads(hub: Hub) -> None:
    code, said = run(
        hub,
        "vllm",
        *spec(hub),
        "--gpu-memory-utilization",
        "0.8",
        "--max_model_len",
        "8k",
        "--no-enable-prefix-caching",
    )
    assert (code, "50% Completed | 1/2" in said) == (LOADED, True), said
    dotted = ("--speculative-config.method", "ngram", "--speculative-config.num_speculative_tokens", "2")
    assert run(hub, "vllm", *dotted)[0] == LOADED


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--max-modell-len", "3"), 2, "vllm serve: error: unrecognized arguments: --max-modell-len 3"),
        (("--port", "http"), 2, "argument --port: invalid int value: 'http'"),
        (("--dtype", "int3"), 2, "argument --dtype: invalid choice: 'int3'"),
        (
            ("--speculative-config", "eagle3"),
            2,
            "argument --speculative-config/-sc: Value eagle3 cannot be converted",
        ),
        (("--gpu-memory-utilization", "1.5"), 1, "Input should be less than or equal to 1"),
        (("--enable-auto-tool-choice",), 1, "--enable-auto-tool-choice requires --tool-call-parser"),
        (("--tool-call-parser", "gpt"), 1, "invalid tool call parser: gpt"),
    ],
)
def test_a_wrong_vllm_option_is_refused(hub: Hub, words: tuple[str, ...], code: int, said: str) -> None:
    found, output = run(hub, "vllm", *words)
    assert (found, said in output) == (code, True), output


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_draft_len": 3}, "max_draft_len\n  Unexpected keyword argument"),
        ({"method": "Eagle3"}, "[type=literal_error"),
        ({"num_speculative_tokens": 0}, "Input should be greater than 0"),
        ({"num_speculative_tokens": "3"}, "[type=int_type"),
        ({"num_speculative_tokens": ...}, "`num_speculative_tokens` was not provided"),
        ({"model": ...}, "model must be provided"),
        ({"model": "nvidia/absent"}, "LocalEntryNotFoundError"),
        ({"model": "/models/absent"}, "HFValidationError"),
    ],
)
def test_a_wrong_vllm_speculative_config_is_refused(hub: Hub, changes: dict[str, Any], said: str) -> None:
    code, output = run(hub, "vllm", *spec(hub, **changes))
    assert (code, said in output) == (1, True), output


def eagle(hub: Hub, *words: str) -> tuple[str, ...]:
    return ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(hub.head), *words)


def test_a_right_sglang_command_line_loads(hub: Hub) -> None:
    words = eagle(
        hub,
        "--speculative-num-steps",
        "5",
        "--speculative-eagle-topk",
        "4",
        "--speculative-num-draft-tokens",
        "8",
    )
    code, said = run(hub, "sglang", *words, "--mem-fraction-static", "0.7", "--enable-metrics")
    assert (code, "Load weight end" in said) == (LOADED, True), said
    assert run(hub, "sglang", *eagle(hub))[0] == LOADED


def test_wrong_sglang_options_are_refused(hub: Hub) -> None:
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("--mem_fraction_static", "0.7"), 2, "launch_server.py: error: unrecognized arguments"),
        (("--load-format", "zip"), 2, "argument --load-format: invalid choice: 'zip'"),
        (("--speculative-algorithm", "EAGLE9"), 1, "ValueError: Unknown speculative algorithm: EAGLE9"),
        (eagle(hub, "--speculative-num-steps", "3"), 1, "TypeError: '>' not supported"),
        (eagle(hub, "--speculative-num-draft-tokens", "4"), 1, "AssertionError"),
        (("--served-model-name", "a:b"), 1, "cannot contain a colon"),
    ]
    for words, code, said in cases:
        found, output = run(hub, "sglang", *words)
        assert (found, said in output) == (code, True), output


# --- life


class Running:
    """A stand-in under way."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    def ask(self, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                "GET" if body is None else "POST", path, None if body is None else json.dumps(body)
            )
            response = connection.getresponse()
            raw, headers = (
                response.read().decode(),
                {name.lower(): value for name, value in response.getheaders()},
            )
        finally:
            connection.close()
        return (
            response.status,
            json.loads(raw) if headers["content-type"] == "application/json" else raw,
            headers,
        )

    def chat(self, text: str = "What is 2+2?", **more: Any) -> tuple[int, Any, dict[str, str]]:
        request = {
            "model": TARGET,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 16,
            "temperature": 0,
        }
        return self.ask("/v1/chat/completions", request | more)

    def choice(self, **more: Any) -> dict[str, Any]:
        status, body, _ = self.chat(**more)
        assert status == 200, body
        found: dict[str, Any] = body["choices"][0]
        return found

    def chunks(self, **more: Any) -> list[dict[str, Any]]:
        status, raw, headers = self.chat(stream=True, stream_options={"include_usage": True}, **more)
        assert (status, "text/event-stream" in headers["content-type"]) == (200, True)
        lines = [line.removeprefix("data: ") for line in raw.splitlines() if line]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def mood(self, mood: str) -> None:
        assert self.ask("/standin", {"mood": mood})[0] == 200


def start(hub: Hub, engine: str, models: Path, *words: str, version: str = "1.4.0rc0") -> Running:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log = hub.home / f"{engine}.log"
    env = {**hub.env, "STANDIN_VERSION": version, "STANDIN_MODELS": str(models / "SmolLM2-135M-Instruct")}
    argv = [sys.executable, *PROGRAMS[engine], TARGET, "--host", "127.0.0.1", "--port", str(port), *words]
    with log.open("wb") as file:
        process = subprocess.Popen(argv, env=env, stdout=file, stderr=subprocess.STDOUT)
    return Running(process, port, log)


def looks(running: Running, path: str) -> list[str]:
    """What a watcher sees, one after the other without repeats, until it is ready."""
    seen: list[str] = []
    end = time.monotonic() + START_S
    while time.monotonic() < end and running.process.poll() is None:
        try:
            look = str(running.ask(path)[0])
        except ConnectionRefusedError:
            look = "refused"
        except (OSError, http.client.HTTPException):
            look = "reset"
        if seen[-1:] != [look]:
            seen.append(look)
        if (
            look != "refused" and running.ask("/standin")[1]["ready"]
            if look not in ("refused", "reset")
            else False
        ):
            return seen
        time.sleep(0.02)
    pytest.fail(f"not ready, seen {seen}:\n{running.log.read_text()}")


def end(running: Running) -> int:
    running.process.terminate()
    return running.process.wait(30)


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
        parts = ["Loading weights: 1288/1288", "Autotuning process starts", "CUDA graph", "Application startup complete.",
                 f"Uvicorn running on http://127.0.0.1:{running.port}"]  # fmt: skip
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
        texts = {running.choice(temperature=2.0, seed=seed)["message"]["content"] for seed in (1, 2, 3)}
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
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
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
        ["docker", "run", "--detach", "--init", "--read-only", "--user", user, "--publish", f"127.0.0.1:{free_port}:8000",
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
