"""Runs the stand-ins as plain processes, with a hub cache of their own."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import hub_cache

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


def spec(hub: Hub, **changes: Any) -> tuple[str, str]:
    config = {"method": "eagle3", "model": str(hub.head), "num_speculative_tokens": 3} | changes
    return "--speculative-config", json.dumps(
        {key: value for key, value in config.items() if value is not ...}
    )


def eagle(hub: Hub, *words: str) -> tuple[str, ...]:
    return ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(hub.head), *words)


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
        ready = _is_ready(running)  # asked first: what is seen after it is that of a ready one
        look = _look(running, path)
        if seen[-1:] != [look]:
            seen.append(look)
        if ready:
            return seen
        time.sleep(0.02)
    pytest.fail(f"not ready, seen {seen}:\n{running.log.read_text()}")


def _look(running: Running, path: str) -> str:
    try:
        return str(running.ask(path)[0])
    except ConnectionRefusedError:
        return "refused"
    except (OSError, http.client.HTTPException):
        return "reset"


def _is_ready(running: Running) -> bool:
    try:
        return bool(running.ask("/standin")[1]["ready"])
    except (OSError, http.client.HTTPException, TypeError, KeyError, ValueError):
        return False


def end(running: Running) -> int:
    running.process.terminate()
    return running.process.wait(30)
