"""Every command that the README shows is run: here, or by .ci/run where it is a whole run of its own.

What needs a Spark or a model hub is marked so, and held against what the program itself asks for.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from appliance.machine.docker import probe_docker
from tests.conftest import Cli
from tests.pages import ROOT, Block, blocks, check_on_a_spark, environment, read, run

BLOCKS = blocks("README.md")
WHOLE_RUNS = {"make demo", "make test"}
HERE = [block for block in BLOCKS[1:] if not block.on_a_spark]
(SPARK,) = [block for block in BLOCKS if block.on_a_spark]


def require_docker() -> None:
    if probe_docker().state != "ok":
        if os.environ.get("REQUIRE_DOCKER"):
            pytest.fail("REQUIRE_DOCKER is set, but no Docker answers")
        pytest.skip("no Docker answers")


def test_the_two_commands_come_first_and_ci_runs_them() -> None:
    assert BLOCKS[0].lines == ["make demo", "make test"]
    ci = read(".ci/run")
    for command in WHOLE_RUNS:
        assert command in ci


@pytest.mark.engine
@pytest.mark.parametrize("block", HERE, ids=lambda block: block.lines[0])
def test_a_block_of_commands_does_what_it_says(
    block: Block, models_dir: Path, free_port: int, home: Path, cli: Cli
) -> None:
    """As it stands, but for the port and the models' folder, which the environment sets."""
    del cli  # takes down what a failed block leaves
    plain_compose = "docker compose" in block.text
    if plain_compose:
        require_docker()
    env = environment(
        home, SPARK_SPEC_PATHS_MODELS=str(models_dir), COMPOSE_PROJECT_NAME=f"readme-{free_port}"
    )
    if not plain_compose:  # the checked-in stack has its port in it: the documented one
        env["SPARK_SPEC_SERVE_PORT"] = str(free_port)
    done = run(block.text, env)
    if plain_compose:
        subprocess.run(
            ["docker", "network", "rm", f"readme-{free_port}_default"], capture_output=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_block_for_a_spark_is_what_the_program_asks_for() -> None:
    check_on_a_spark(SPARK)
    verbs = [line.split()[1] for line in SPARK.lines if line.startswith("spark-spec")]
    assert verbs == ["models", "models", "up", "ask", "verify"]


@pytest.mark.docker
def test_its_up_would_start_once_the_models_are_there(cli: Cli) -> None:
    """All of `up` that comes before a fetch, for real; but without a GPU, which is not here, nor its memory."""
    require_docker()
    (up,) = [line for line in SPARK.lines if line.startswith("spark-spec up")]
    done = cli(*up.split()[1:], "--dry-run", "--set", "docker.gpu=none", "--set", "serve.port=18999")
    assert done.returncode == 0, done.stderr
    assert "wait for a token through chat" in done.stdout


def test_every_page_it_links_to_is_there() -> None:
    for page in re.findall(r"\]\(([^)]+)\)", read("README.md")):
        assert (ROOT / page).is_file(), page
