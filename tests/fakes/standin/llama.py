"""llama.cpp inside a stand-in: a child process on an inner port. Run with its settings, it is that child."""

import collections
import ctypes
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

TARGET = "SmolLM2-135M-Instruct.Q4_1.gguf"
DRAFT = "SmolLM2-135M-Instruct.drop-*.gguf"
SLOTS = 4
SLOT_TOKENS = 2048
LOAD_S = 180.0
ANSWER_S = 600.0
PR_SET_PDEATHSIG = 1


class Llama:
    """A running llama.cpp. `draft_len` 0 is without speculation."""

    def __init__(self, draft_len: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        models = Path(os.environ.get("STANDIN_MODELS") or Path(__file__).parent / "models")
        drafts = sorted(models.glob(DRAFT))
        settings = {
            "port": self.port,
            "draft_len": draft_len,
            "target": str(models / TARGET),
            "draft": str(drafts[0]) if drafts else "",
        }
        self.child = subprocess.Popen(
            [sys.executable, "-m", "standin.llama", json.dumps(settings)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "GOMP_SPINCOUNT": "1000"},
        )  # fmt: skip
        self.tail: collections.deque[bytes] = collections.deque(maxlen=20)
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.tail.append(line)

    def wait(self) -> None:
        """Until it is ready. Raises RuntimeError with its last lines."""
        end = time.monotonic() + LOAD_S
        while time.monotonic() < end and self.child.poll() is None:
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        raise RuntimeError("llama.cpp did not start:\n" + b"".join(self.tail).decode(errors="replace"))

    def send(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        """The response, to be read by the caller."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"})
        return connection.getresponse()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        response = self.send(method, path, body)
        return response.status, response.read()

    def counters(self) -> dict[str, float]:
        """Its counters by name, without the prefix; those of a position as `name 0`, `name 1`, …"""
        found = re.findall(
            r'^llamacpp:(\w+)(?:\{position="(\d+)"\})? (\S+)$', self.ask("GET", "/metrics")[1].decode(), re.M
        )
        return {f"{name} {position}".strip(): float(value) for name, position, value in found}

    def kill(self) -> None:
        self.child.kill()


def main(settings: dict[str, Any]) -> None:
    """The child: never outlives the stand-in."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["target"]
    params.hostnames, params.port = ["127.0.0.1"], settings["port"]
    params.n_ctx, params.n_parallel = SLOTS * SLOT_TOKENS, SLOTS
    params.endpoint_metrics, params.ui, params.offline, params.fit_params = True, False, True, False
    params.cache_ram_mib = 0
    # More are slower beside other work, and the stand-in is not there to be fast.
    params.cpuparams.n_threads = params.speculative.draft.cpuparams.n_threads = 1
    if settings["draft_len"]:
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        params.speculative.draft.mparams.path = settings["draft"]
        params.speculative.draft.n_max = settings["draft_len"]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
