"""Every command that the README shows is run: here, or by .ci/run where it is a whole run of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.core.paths import PACKAGE
from appliance.machine.docker import probe_docker
from tests.conftest import Cli

ROOT = PACKAGE.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
WHOLE_RUNS = {"make demo", "make test"}


def test_the_two_commands_come_first_and_ci_runs_them() -> None:
    assert BLOCKS[0].split("\n")[:2] == ["make demo", "make test"]
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in WHOLE_RUNS:
        assert command in ci


@pytest.mark.engine
@pytest.mark.parametrize("block", BLOCKS[1:], ids=lambda block: block.splitlines()[0])
def test_a_block_of_commands_does_what_it_says(
    block: str, models_dir: Path, free_port: int, home: Path, cli: Cli
) -> None:
    """As it stands, but for the port and the models' folder, which the environment sets."""
    del cli  # takes down what a failed block leaves
    if "docker compose" in block and probe_docker().state != "ok":
        if os.environ.get("REQUIRE_DOCKER"):
            pytest.fail("REQUIRE_DOCKER is set, but no Docker answers")
        pytest.skip("no Docker answers")
    binaries = home / "bin"
    binaries.mkdir()
    script = binaries / "spark-spec"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appliance "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "SPARK_SPEC_PATHS_MODELS": str(models_dir),
        "SPARK_SPEC_SERVE_PORT": str(free_port),
        "COMPOSE_PROJECT_NAME": f"readme-{free_port}",
    }
    if "docker compose" in block:  # the checked-in stack has its port in it: the documented one
        environment.pop("SPARK_SPEC_SERVE_PORT")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if "docker compose" in block:
        subprocess.run(
            ["docker", "network", "rm", f"readme-{free_port}_default"], capture_output=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_page_it_links_to_is_there() -> None:
    for page in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / page).is_file(), page
