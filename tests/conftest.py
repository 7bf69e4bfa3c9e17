"""Fixtures that every room's tests share: an isolated home, a free port, the real models, the command line."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.catalog.entries import load_entry
from appliance.core.paths import default_harmony, default_models
from appliance.models.ensure import ensure
from appliance.stack.release import stack_names

# A shell that starts a job in the background has it ignore SIGINT, and every process that we start would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's own folders, nor sees the user's settings."""
    for name in [name for name in os.environ if name.startswith("SPARK_SPEC_")]:
        monkeypatch.delenv(name)
    for variable, folder in (("STATE", "state"), ("CACHE", "cache"), ("CONFIG", "config")):
        monkeypatch.setenv(f"XDG_{variable}_HOME", str(tmp_path / folder))
    return tmp_path


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _models_folder() -> Path:
    return Path(os.environ.get("TEST_MODELS") or default_models())


MODELS = _models_folder()  # read before any test changes the environment
HARMONY_FOLDER = Path(default_harmony() or "/nowhere")


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The demo's models, fetched once into the user's cache (or TEST_MODELS) and shared by all tests."""
    for model in ("smollm2-135m-instruct", "smollm2-135m-drop4"):
        ensure(load_entry(model), MODELS, print)
    return MODELS


Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(home: Path) -> Iterator[Cli]:
    """Run `spark-spec` as a person does, in a process of its own, without a terminal."""

    def run(*words: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "appliance", *words],
            capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )  # fmt: skip

    yield run
    for name in stack_names(home / "state" / "spark-spec"):  # a test that failed in the middle leaves nothing
        run("down", name)


@pytest.fixture
def demo_pairs(models_dir: Path, free_port: int) -> list[str]:
    """Settings that let a test run the demo beside anything else."""
    return [f"paths.models={models_dir}", f"serve.port={free_port}"]


@pytest.fixture
def demo_sets(demo_pairs: list[str]) -> list[str]:
    """The same as words of a command line."""
    return [word for pair in demo_pairs for word in ("--set", pair)]
