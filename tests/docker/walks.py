"""What a walk needs: the stand-in of an engine as the base, models in a hub cache, the vocabulary, and the command."""

import json
import os
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import HARMONY_FOLDER, Cli
from tests.fakes import harmony, hub_cache, standin_images

REVISION = "89abcdef0123456789abcdef0123456789abcdef"


def vocabulary() -> Path:
    """The harmony vocabulary in the user's cache. Where it cannot be had, a test is skipped, unless it may not be."""
    try:
        return harmony.make(HARMONY_FOLDER)
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("REQUIRE_DOCKER"):
            pytest.fail(f"REQUIRE_DOCKER is set, but the vocabulary cannot be had: {error}")
        pytest.skip(f"the harmony vocabulary cannot be had: {error}")


def config_of(repo: str) -> dict[str, Any]:
    if "eagle3" in repo.lower():
        own = hub_cache.EAGLE3_HEAD
        layers = {"eagle_aux_hidden_state_layer_ids": [24, 30, 36]} if repo.endswith("v3") else {}
        return {**own, "eagle_config": {**own["eagle_config"], **layers}}
    if "gpt-oss" in repo:
        return hub_cache.GPT_OSS_120B
    return hub_cache.LLAMA_33_70B_FP4 if "70B" in repo else hub_cache.LLAMA_31_8B_FP4


@dataclass
class Walk:
    """One preset on the stand-in of its engine."""

    cli: Cli
    home: Path
    port: int
    preset: str
    base: str
    sets: tuple[str, ...] = ()
    standin: dict[str, Any] = field(default_factory=dict)

    @property
    def hub(self) -> Path:
        return self.home / "Modèles à moi" / "hub"

    def models(self, *, without: str = "") -> None:
        """Put the preset's models into the hub cache, and their revision into refs/main."""
        manifest = json.loads((Path("compose") / self.preset / "manifest.json").read_text())
        for number, model in enumerate(manifest["models"]):
            repo = model["source"]["repo"]
            if repo != without:
                hub_cache.make(self.hub, repo, config=config_of(repo), revision=REVISION,
                               standin=self.standin if number == 0 else None)  # fmt: skip

    def words(self, *more: str) -> list[str]:
        pairs = [
            f"paths.hub={self.hub}",
            f"paths.harmony={HARMONY_FOLDER}",
            f"serve.port={self.port}",
            f"docker.base={self.base}",
            "docker.gpu=none",
            *self.sets,
            *more,
        ]
        return [word for pair in pairs for word in ("--set", pair)]

    def up(self, *more: str, verify: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        flags = [] if verify else ["--no-verify"]
        return self.cli("up", self.preset, *self.words(*more), *flags, "--json", timeout=300, **environment)

    def down(self) -> None:
        assert self.cli("down", self.preset).returncode == 0

    def mood(self, mood: str) -> None:
        self.ask("/standin", {"mood": mood})

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def container(self) -> str:
        """The container's name."""
        told = json.loads(self.cli("status", "--json").stdout)
        return str(told[0]["where"]["container_name"])

    def log(self) -> str:
        done = subprocess.run(
            ["docker", "logs", self.container()], capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr


def base_of(engine: str, version: str) -> str:
    return standin_images.build(engine, version)
