"""Images through one's own registry and back, and how each way of being turned away is told.

The registry is Debian's; the answers that only NVIDIA's gives come from a stand-in of it.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.docker.registries import logged_in, served, unpacked
from tests.fakes.ngc import KEY, USER, ngc


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("registry"))


@pytest.fixture
def registry(program: Path, tmp_path: Path) -> Iterator[str]:
    with served(program, tmp_path / "open", login=False) as host:
        yield host


@pytest.fixture
def closed(program: Path, tmp_path: Path) -> Iterator[str]:
    with served(program, tmp_path / "closed", login=True) as host:
        yield host


@pytest.fixture
def gateway(cli: Cli) -> str:
    """The smallest image of ours."""
    done = cli("images", "build", "gateway", timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_image_goes_to_a_registry_and_comes_back_the_same(registry: str, gateway: str, cli: Cli) -> None:
    told = docker("image", "inspect", "-f", "{{.Id}}", gateway)
    pushed = cli("images", "push", "gateway", "--registry", f"{registry}/team")
    assert pushed.returncode == 0, pushed.stderr
    assert pushed.stdout.startswith(f"{registry}/team/{gateway}@sha256:")
    assert f"{registry}/" not in docker("image", "ls", "--format", "{{.Repository}}")
    docker("rmi", gateway)
    pulled = cli("images", "pull", "gateway", "--set", f"images.registry={registry}/team")
    assert (pulled.returncode, pulled.stdout.strip()) == (0, gateway), pulled.stderr
    docker("rmi", f"{registry}/team/{gateway}")
    assert docker("image", "inspect", "-f", "{{.Id}}", gateway) == told
    again = cli("images", "pull", "gateway", "--set", f"images.registry={registry}/team")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_build_takes_what_the_registry_has(registry: str, gateway: str, cli: Cli) -> None:
    cli("images", "push", "gateway", "--registry", registry)
    docker("rmi", gateway)
    done = cli("images", "build", "gateway", "--set", f"images.registry={registry}")
    assert done.stdout.strip() == gateway and "building" not in done.stderr
    docker("rmi", f"{registry}/{gateway}")


@pytest.mark.usefixtures("gateway")
def test_who_is_not_logged_in_is_told_how(closed: str, cli: Cli, tmp_path: Path) -> None:
    push = ("images", "push", "gateway", "--registry", closed)
    done = cli(*push)
    assert done.returncode == 5
    assert "not logged in" in done.stderr and f"docker login {closed}" in done.stderr
    done = cli(*push, **logged_in(tmp_path / "wrong", closed, "joe", "no"))
    assert done.returncode == 5
    assert "the login is not accepted" in done.stderr and f"docker logout {closed}" in done.stderr
    done = cli(*push, **logged_in(tmp_path / "right", closed, "joe", "pw"))
    assert done.returncode == 0, done.stderr
    assert closed not in docker("image", "ls", "--format", "{{.Repository}}")


def test_what_a_registry_does_not_have_is_told(registry: str, cli: Cli) -> None:
    done = cli("images", "pull", "dump", "--engine", "0.0.1", "--set", f"images.registry={registry}/nobody")
    assert done.returncode == 5
    assert "nothing of this name and tag" in done.stderr


def test_what_is_not_here_cannot_be_pushed_and_nothing_goes_to_a_public_registry(cli: Cli) -> None:
    done = cli("images", "push", "dump", "--engine", "0.0.1", "--registry", "127.0.0.1:9")
    assert done.returncode == 4 and "spark-spec images build dump" in done.stderr
    done = cli("images", "push", "gateway")
    assert done.returncode == 2 and "--registry" in done.stderr
    done = cli("images", "push", "demo", "--registry", "127.0.0.1:9", "--set", "image=vendor/engine:1")
    assert done.returncode == 3 and "vendor/engine:1" in done.stderr


@pytest.mark.parametrize(
    ("repository", "login", "why"),
    [
        ("nvidia/internal", False, "not logged in"),
        ("nvidia/internal", True, "not entitled"),
        ("nvidia/licensed", True, "not entitled"),
        ("nvidia/free", True, "nothing of this name and tag"),
    ],
)
def test_nvidia_s_ways_to_turn_one_away(
    repository: str, login: bool, why: str, cli: Cli, tmp_path: Path
) -> None:
    with ngc() as host:
        environment = logged_in(tmp_path / "docker", host, USER, KEY) if login else {}
        done = cli("images", "pull", "dump", "--base", f"{host}/{repository}:1", **environment)
    assert done.returncode == 5
    assert why in done.stderr and KEY not in done.stderr


def test_the_list_tells_what_is_here(gateway: str, cli: Cli) -> None:
    shelved = {one["reference"]: one for one in json.loads(cli("images", "list", "--json").stdout)}
    assert shelved[gateway]["state"] == "here" and shelved[gateway]["here"]["size"] > 1e7
    lines = cli("images", "list").stdout.splitlines()
    assert lines[0].split() == ["IMAGE", "STATE", "PLATFORM", "SIZE", "PRESETS"]
    (line,) = [line for line in lines if line.startswith("spark-spec/serve-vllm:") and "eagle3-vllm" in line]
    assert "draft-target-vllm" in line
