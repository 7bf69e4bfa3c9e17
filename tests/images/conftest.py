"""A person's ear, and a docker command that does what a test tells it to."""

from collections.abc import Callable
from pathlib import Path

import pytest


class Ear:
    """Keeps all that is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.commands: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def command(self, line: str) -> None:
        self.commands.append(line)

    def progress(self, label: str, done: int, total: int | None) -> None:
        self.said.append(f"{label} {done}/{total}")

    def phase(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def ear() -> Ear:
    return Ear()


Docker = Callable[[str], Path]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """Put a `docker` first in PATH: `docker("body")` is its shell script. Returns its folder, its cwd."""

    def make(body: str) -> Path:
        folder = tmp_path / "docker"
        folder.mkdir(exist_ok=True)
        script = folder / "docker"
        script.write_text(f'#!/bin/bash\ncd "{folder}"\n{body}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return folder

    return make
