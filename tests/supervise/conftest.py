"""A supervisor over the fake engine, as real processes, with its status and its end to wait for."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.supervise import status as statuses
from appliance.supervise.plan import CounterTable, Limits, Phase, Plan
from appliance.supervise.status import READY, Status

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "fakes" / "engine.py"
PATIENCE_S = 20.0

COUNTERS = CounterTable(
    path="/metrics",
    format="prometheus",
    names={
        "generated": "llamacpp:tokens_predicted_total",
        "steps": "llamacpp:spec_decode_num_drafts_total",
        "drafted": "llamacpp:spec_decode_num_draft_tokens_total",
        "accepted": "llamacpp:spec_decode_num_accepted_tokens_total",
        "accepted_per_position": "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
        "progress": "llamacpp:n_decode_total",
        "active": "llamacpp:requests_processing",
    },
)
PHASES = (Phase(r"loading weights (\d+)/(\d+)", r"loading weights \1/\2"),)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(pid: int) -> bool:
    return statuses.start_ticks(pid) is not None


def eventually(seen: Callable[[], Any], what: str = "it") -> Any:
    """Wait for something true, and return it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := seen():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come within {PATIENCE_S:g} s")


class Supervised:
    """A supervisor process and its folders."""

    alive = staticmethod(alive)
    eventually = staticmethod(eventually)

    def __init__(self, folder: Path, *engine: str, env: dict[str, str] | None = None, **limits: Any) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.release = folder / "release"
        self.release.mkdir(exist_ok=True)
        self.log = folder / "log"
        self.port = free_port()
        self.plan = Plan(
            stack="demo",
            digest="0" * 64,
            engine="fake",
            argv=(sys.executable, "-S", "-I", str(FAKE), "--port", str(self.port), *engine),
            env=env or {},
            base_url=f"http://127.0.0.1:{self.port}",
            health_path="/health",
            chat_path="/v1/chat/completions",
            chat_body={"model": "fake", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1},
            counters=COUNTERS,
            phases=PHASES,
            limits=Limits(**{"backoff_s": 0.05, "stop_s": 5.0, **limits}),
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, **popen: Any) -> "Supervised":
        plan = self.release / "supervise.json"
        plan.write_text(self.plan.to_json(), encoding="utf-8")
        argv = [sys.executable, "-m", "appliance.supervise", str(plan), "--state", str(self.state), *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                argv, **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": ROOT, **popen}
            )
        return self

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def status(self) -> Status | None:
        return statuses.read(self.state)

    def until(self, true: Callable[[Status], Any]) -> Status:
        """The first status seen for which it is true."""

        def seen() -> Status | None:
            shown = self.status()
            return shown if shown and true(shown) else None

        try:
            return eventually(seen)
        except AssertionError:
            raise AssertionError(f"last status: {self.status()}\nlog:\n{self.said()}") from None

    def ready(self) -> Status:
        return self.until(lambda shown: shown.state == READY)

    def code(self) -> int:
        """Its exit code, once it ended."""
        assert self.process
        return self.process.wait(PATIENCE_S)

    def end(self) -> Status:
        """The final status, once it ended."""
        self.code()
        shown = self.status()
        assert shown
        return shown

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    """Makes supervisors, not started yet; at the end they are killed, and their engines must go with them."""
    made: list[Supervised] = []

    def make(*engine: str, beside: Supervised | None = None, **limits: Any) -> Supervised:
        """In a folder of its own, or in the very folder of another one."""
        folder = beside.folder if beside else tmp_path / str(len(made))
        folder.mkdir(exist_ok=True)
        made.append(Supervised(folder, *engine, **limits))
        return made[-1]

    yield make
    for one in made:
        one.close()
    for one in made:
        shown = one.status()
        if shown and shown.engine_pid:
            eventually(lambda pid=shown.engine_pid: not alive(pid), "the end of the engine")
