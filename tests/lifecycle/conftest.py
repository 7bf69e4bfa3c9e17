"""`up` and its kin over the fake engine: real supervisors and processes, no model to load."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.catalog.stack import Stack
from appliance.engines import llamacpp
from appliance.engines.base import Death, Launch, Pair, Place
from appliance.lifecycle import change
from appliance.lifecycle import up as up_module
from appliance.lifecycle.managed import Managed
from appliance.lifecycle.up import Outcome, Wanted, up
from appliance.stack.release import StackFolder, stack_names
from appliance.stack.resolve import resolve
from appliance.supervise.plan import Phase

FAKE = Path(__file__).parents[1] / "fakes" / "engine.py"


class Talked:
    """A Talk that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.on_line: Callable[[str], object] = len  # hears nothing

    def say(self, line: str) -> None:
        self.lines.append(line)
        self.on_line(line)

    command = say

    def phase(self, text: str) -> None:
        if self.lines[-1:] != [text]:
            self.say(text)

    def progress(self, label: str, done: int, total: int | None) -> None:
        del label, done, total


class FakeEngine:
    """llama.cpp's tables with the fake engine's program."""

    name = "llamacpp"
    formats = llamacpp.ENGINE.formats
    runtimes = llamacpp.ENGINE.runtimes
    gpu = False
    health_path = "/health"
    chat_path = "/v1/chat/completions"
    local_modules: tuple[str, ...] = ()
    counters = llamacpp.ENGINE.counters
    phases = (Phase(r"loading weights (\d+)/(\d+)", r"loading weights \1/\2"),)
    deaths = (Death("out of cheese", "there is no cheese left", "buy some cheese"),)

    def __init__(self) -> None:
        self.words: tuple[str, ...] = ()

    def version(self, stack: Stack) -> str:
        del stack
        return "fake"

    def check(self, stack: Stack, pair: Pair) -> tuple[str, ...]:
        del stack, pair
        return ()

    def launch(self, stack: Stack, pair: Pair, place: Place) -> Launch:
        del pair
        k = ("--k", str(stack.draft.k)) if stack.draft.k else ()
        argv = (sys.executable, "-S", "-I", str(FAKE), "--port", str(place.port), "--model", stack.serve.name)
        return Launch(argv=(*argv, *k, *self.words))


class Bench:
    """One state folder, the fake engine, and `up` on it."""

    def __init__(self, folder: Path, engine: FakeEngine, port: int) -> None:
        self.engine = engine
        self.folder = folder / "state"
        self.port = port
        self.talk = Talked()

    def up(
        self,
        *words: str,
        name: str = "demo",
        replace: bool = False,
        verify: bool = False,
        sets: tuple[str, ...] = (),
    ) -> Outcome:
        """`up demo` with the fake engine told `words`."""
        self.engine.words = words
        pairs = [f"paths.state={self.folder}", f"serve.port={self.port}", "serve.name=fake", *sets]
        return up(resolve("demo", pairs, {}), Wanted(name, "process", replace, verify), self.talk)

    def stack(self, name: str = "demo") -> Managed:
        return Managed(StackFolder(self.folder, name), self.talk)

    def stop_all(self) -> None:
        for name in stack_names(self.folder):
            self.stack(name).stop()


@pytest.fixture
def bench(tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    engine = FakeEngine()
    monkeypatch.setattr(change, "check_here", lambda _: None)  # the fake engine has no models
    monkeypatch.setattr(llamacpp, "ENGINE", engine)
    monkeypatch.setattr(up_module, "fetch", lambda *_: None)
    bench = Bench(tmp_path, engine, free_port)
    yield bench
    bench.stop_all()
