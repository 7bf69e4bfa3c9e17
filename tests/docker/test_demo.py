"""The demo on a real Docker engine: it runs in a container, is adopted, refused, swapped, and leaves nothing."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.core.paths import PACKAGE
from appliance.machine.facts import platform
from appliance.machine.ports import is_free
from appliance.stack.render import project
from appliance.supervise.status import start_ticks
from tests.conftest import Cli


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True, timeout=120).stdout


def ours(state: Path) -> list[str]:
    return docker("ps", "--all", "--quiet", "--filter", f"label=spark-spec.home={state}").split()


def networks(state: Path) -> list[str]:
    label = f"label=com.docker.compose.project={project('demo', str(state))}"
    return docker("network", "ls", "--quiet", "--filter", label).split()


@pytest.fixture
def state(home: Path) -> Path:
    return home / "state" / "spark-spec"


@pytest.fixture
def up(cli: Cli, demo_pairs: list[str], state: Path) -> Iterator[Any]:
    """`up demo --runtime docker`, and everything of it gone afterwards."""

    def run(*words: str, preset: str = "demo", code: int = 0) -> dict[str, Any]:
        given = {word.partition("=")[0] for word in words}
        pairs = [pair for pair in demo_pairs if pair.partition("=")[0] not in given]
        sets = [word for pair in pairs for word in ("--set", pair)]
        done = cli("up", preset, "--runtime", "docker", "--json", *sets, *words, timeout=300)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout else {"stderr": done.stderr}

    yield run
    for container in ours(state):
        docker("rm", "--force", container)
    for name in ("demo", "demo-baseline"):
        subprocess.run(
            ["docker", "network", "rm", f"spark-spec-{name}_default"], capture_output=True, check=False
        )


def test_the_demo_runs_in_a_container_and_is_adopted(up: Any, cli: Cli, state: Path, free_port: int) -> None:
    told = up()
    assert told["runtime"] == "docker"
    seen = json.loads(cli("status", "--json").stdout)[0]
    assert (seen["state"], seen["runtime"]) == ("ready", "docker")
    image = docker("image", "inspect", "--format", "{{.Id}}", seen["image"]).strip()
    assert seen["where"]["image"] == image
    inside = docker("top", seen["where"]["container"], "-o", "pid,args")
    assert "llamacpp_program.py" in inside
    engine = next(int(line.split()[0]) for line in inside.splitlines() if "llamacpp_program.py" in line)
    assert Path(f"/proc/{engine}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    listening = Path(f"/proc/{engine}/net/tcp").read_text()
    assert f":{8000:04X} " in listening, "the listener is inside the container"
    ports = docker("port", seen["where"]["container"]).splitlines()
    assert ports == [f"8000/tcp -> 127.0.0.1:{free_port}"]

    again = up()
    assert again["adopted"]
    assert again["where"] == told["where"]

    down = cli("down", "demo")
    assert down.returncode == 0, down.stderr
    assert ours(state) == []
    assert is_free(free_port)
    assert networks(state) == []


def test_a_failed_up_puts_the_last_good_release_back(up: Any, cli: Cli) -> None:
    up("--no-verify")
    up("--no-verify", "--set", "image=spark-spec/base:bookworm", code=6)  # it has no engine: it ends at once
    seen = json.loads(cli("status", "--json").stdout)[0]
    assert (seen["state"], seen["release"]) == ("ready", 1)


def test_an_image_for_another_processor_is_refused_before_anything_is_stopped(up: Any, cli: Cli) -> None:
    """Case 31: the whole of it, and the image that our own would stand on."""
    name, theirs = "spark-spec-test/other:1", "linux/amd64" if platform() == "linux/arm64" else "linux/arm64"
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    subprocess.run(["docker", "import", "--platform", theirs, "-", name], input=empty.getvalue(), check=True)
    try:
        before = up("--no-verify")["where"]
        for setting in (f"image={name}", f"docker.base={name}"):
            told = up("--no-verify", "--set", setting, code=4)
            assert theirs in told["stderr"] and platform() in told["stderr"]
            seen = json.loads(cli("status", "--json").stdout)[0]
            assert (seen["state"], seen["where"], seen["release"]) == ("ready", before, 1)
    finally:
        docker("rmi", "--force", name)


def test_a_foreign_container_on_the_port_is_named_and_left_alone(up: Any, free_port: int) -> None:
    """Case 9, with docker's own proxy as the holder."""
    image = "spark-spec/base:bookworm"
    listen = f"import socket,time; s=socket.create_server(('0.0.0.0',{free_port})); time.sleep(300)"
    foreign = docker("run", "--detach", "--rm", "--name", f"foreign-{free_port}", "--publish",
                     f"127.0.0.1:{free_port}:{free_port}", image, "python3", "-c", listen).strip()  # fmt: skip
    try:
        told = up(code=4)
        assert f"foreign-{free_port}" in told["stderr"]
        assert foreign.startswith(docker("ps", "--quiet", "--filter", f"id={foreign}").strip())
        assert docker("ps", "--quiet", "--filter", f"id={foreign}").strip()
    finally:
        docker("rm", "--force", foreign)


def test_a_token_is_in_nothing_that_docker_shows(
    up: Any, cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 3."""
    monkeypatch.setenv("HF_TOKEN", "hf_x$oauthtoken")
    told = up("--no-verify")
    container = told["where"]["container"]
    seen = [docker("inspect", container), docker("logs", container), cli("show", "demo", "--json").stdout,
            docker("exec", container, "env"), cli("logs", "demo").stdout]  # fmt: skip
    seen += [path.read_text(errors="replace") for path in (home / "state").rglob("*") if path.is_file()]
    assert all("oauthtoken" not in text for text in seen)


def test_a_models_folder_with_spaces_and_other_letters(
    up: Any, models_dir: Path, tmp_path: Path, cli: Cli
) -> None:
    """Case 6."""
    odd = tmp_path / "Modèles à moi $x"
    shutil.copytree(models_dir, odd)
    told = up("--set", f"paths.models={odd}", "--set", "serve.name=é $x", "--no-verify")
    assert told["model"] == "é $x"
    assert cli("ask", "Hi", "--max-tokens", "4").returncode == 0


@pytest.mark.parametrize("victim", ["engine", "supervisor", "container"])
def test_whatever_is_killed_the_next_up_puts_it_right(up: Any, cli: Cli, state: Path, victim: str) -> None:
    told = up("--no-verify")
    container = told["where"]["container"]
    if victim == "container":
        docker("kill", container)
    else:
        wanted = "llamacpp_program.py" if victim == "engine" else "appliance.supervise"
        lines = docker("top", container, "-o", "pid,args").splitlines()
        pid = int(next(line.split()[0] for line in lines if wanted in line and "docker-init" not in line))
        os.kill(pid, signal.SIGKILL)
        _wait(lambda: start_ticks(pid) is None)
    again = up("--no-verify")
    assert json.loads(cli("status", "--json").stdout)[0]["state"] == "ready"
    assert len(ours(state)) == 1
    assert again["release"] == told["release"]


def _wait(seen: Any, patience_s: float = 20) -> None:
    deadline = time.monotonic() + patience_s
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_checked_in_stack_runs_with_plain_compose(
    models_dir: Path, cli: Cli, free_port: int, tmp_path: Path
) -> None:
    """`docker compose -f compose/demo/compose.yaml up`, with no launcher; on a free port for the test."""
    built = cli("images", "build", "demo", timeout=300)
    assert built.returncode == 0, built.stderr
    override = tmp_path / "port.yaml"
    override.write_text(f'services: {{engine: {{ports: !override ["127.0.0.1:{free_port}:8000"]}}}}\n')
    compose = ["docker", "compose", "-f", str(PACKAGE.parent / "compose/demo/compose.yaml"), "-f", str(override),
               "-p", f"plain-{free_port}"]  # fmt: skip
    environment = {**os.environ, "SPARK_SPEC_PATHS_MODELS": str(models_dir)}
    try:
        subprocess.run(
            [*compose, "up", "--detach", "--wait", "--wait-timeout", "60"], check=True, env=environment
        )
        from appliance.client.client import Client

        with Client(f"http://127.0.0.1:{free_port}", "HuggingFaceTB/SmolLM2-135M-Instruct") as client:
            answer = client.chat([{"role": "user", "content": "Hi"}], max_tokens=8, temperature=0.0)
        assert answer.text
    finally:
        subprocess.run([*compose, "down", "--timeout", "5"], check=True, env=environment)


def test_the_checked_in_stack_names_the_setting_that_is_missing() -> None:
    """Case 8: compose itself says which variable, and what it is for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_SPEC_")}
    for value in ({}, {"SPARK_SPEC_PATHS_MODELS": ""}):
        done = subprocess.run(
            ["docker", "compose", "-f", str(PACKAGE.parent / "compose/demo/compose.yaml"), "config", "-q"],
            capture_output=True, text=True, check=False, env=environment | value,
        )  # fmt: skip
        assert done.returncode != 0
        assert "SPARK_SPEC_PATHS_MODELS" in done.stderr


def test_a_project_name_in_the_environment_takes_nobody_s_containers(
    up: Any, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMPOSE_PROJECT_NAME is the user's, for the user's own compose files."""
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", "theirs")
    monkeypatch.setenv("COMPOSE_FILE", "/nowhere/compose.yaml")
    told = up("--no-verify")
    labels = json.loads(docker("inspect", "--format", "{{json .Config.Labels}}", told["where"]["container"]))
    assert labels["com.docker.compose.project"] == project("demo", str(state))


def test_two_state_folders_may_have_stacks_of_one_name(
    up: Any, cli: Cli, home: Path, models_dir: Path
) -> None:
    first = up("--no-verify")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    other = {"XDG_STATE_HOME": str(home / "other")}
    sets = ["--set", f"serve.port={port}", "--set", f"paths.models={models_dir}"]
    try:
        second = cli("up", "demo", "--runtime", "docker", "--no-verify", *sets, **other)
        assert second.returncode == 0, second.stderr
        seen = json.loads(cli("status", "--json").stdout)[0]
        assert (seen["state"], seen["where"]["container"]) == ("ready", first["where"]["container"])
    finally:
        assert cli("down", "demo", **other).returncode == 0
    assert json.loads(cli("status", "--json").stdout)[0]["state"] == "ready"


def test_a_state_folder_behind_a_link_is_the_same_folder(up: Any, cli: Cli, home: Path, state: Path) -> None:
    up("--no-verify")
    (home / "link").symlink_to(home / "state")
    assert cli("down", "demo", XDG_STATE_HOME=str(home / "link")).stdout == "demo is down\n"
    assert ours(state) == []


def test_a_container_whose_state_folder_was_lost_is_found_by_its_labels(
    up: Any, cli: Cli, state: Path
) -> None:
    first = up("--no-verify")
    shutil.rmtree(state)
    again = up("--no-verify")
    assert ours(state) == [again["where"]["container"][:12]]
    assert again["where"]["container"] != first["where"]["container"]
    assert cli("down", "demo").returncode == 0
