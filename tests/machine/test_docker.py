"""Each way in which Docker can be missing has its own words and its own remedy (cases.md, 10)."""

import inspect
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.core.errors import MachineFault
from appliance.machine.docker import (
    container_on_port,
    docker_root,
    endpoint,
    probe_docker,
    require_docker,
    sdk,
)
from appliance.supervise.status import start_ticks

VERSION = '{"Client":{"Version":"28.2.2"},"Server":{"Version":"26.1.5","Os":"linux","Arch":"arm64"}}'
NO_SERVER = '{"Client":{"Version":"28.2.2"},"Server":null}'
REFUSED = "Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?"
DENIED = (
    "WARNING: Error loading config file: open /root/.docker/config.json: permission denied\n"
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
)

FakeDocker = Callable[..., None]
real_client = pytest.mark.skipif(shutil.which("docker") is None, reason="needs a docker command")


@pytest.fixture
def fake_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Put a `docker` first in PATH that answers as recorded from the real one."""

    def make(
        version: str = VERSION, complaint: str = "", compose: str = "2.40.3", host: str = "unix:///s"
    ) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, text in (
            ("version", version),
            ("complaint", complaint),
            ("compose", compose),
            ("host", host),
        ):
            (folder / name).write_text(text)
        script = folder / "docker"
        script.write_text(
            f"""#!/bin/sh
cd {folder}
case "$1" in
version) cat version; cat complaint >&2; test ! -s complaint ;;
compose) test -s compose && cat compose ;;
context) cat host ;;
esac
"""
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return make


def test_all_well(fake_docker: FakeDocker) -> None:
    fake_docker()
    found = require_docker()
    assert (found.state, found.server_version, found.compose_version) == ("ok", "26.1.5", "2.40.3")
    assert found.platform == "linux/arm64"


def test_no_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert probe_docker().state == "absent"
    assert endpoint() == "unix:///var/run/docker.sock"
    assert container_on_port(8000) is None


def test_each_fault_has_its_own_words_and_remedy(
    fake_docker: FakeDocker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "socket").touch()
    faults = []
    for change in (
        {"version": NO_SERVER, "complaint": REFUSED, "host": "unix:///nowhere/docker.sock"},
        {"version": NO_SERVER, "complaint": REFUSED, "host": f"unix://{tmp_path}/socket"},
        {"version": NO_SERVER, "complaint": DENIED},
        {"compose": ""},
    ):
        shutil.rmtree(tmp_path / "bin", ignore_errors=True)
        fake_docker(**change)
        with pytest.raises(MachineFault) as caught:
            require_docker()
        faults.append(caught.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineFault) as caught:
        require_docker()
    faults.append(caught.value)
    assert [
        sum(word in fault.fix for fault in faults) for word in ("usermod", "restart", "compose-plugin")
    ] == [1, 1, 1]
    assert len({fault.why for fault in faults}) == len({fault.fix for fault in faults}) == 5
    assert all(fault.code == 4 for fault in faults)
    assert "there is no socket /nowhere/docker.sock" in faults[0].why
    assert "usermod -aG docker" in faults[2].fix


@real_client
def test_a_wrong_docker_host_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    found = probe_docker()
    assert found.state == "down"
    assert "DOCKER_HOST" in found.detail and "unset DOCKER_HOST" in found.fix
    assert endpoint() == f"unix://{tmp_path}/nothing.sock"


@real_client
def test_a_context_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONTEXT", "no-such-context")
    found = probe_docker()
    assert found.state == "down" and "DOCKER_CONTEXT" in found.detail


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Path]:
    """A socket that takes connections and never says a word."""
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield path


@real_client
def test_an_engine_that_never_answers_does_not_hold_us_up(
    listener: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{listener}")
    found = probe_docker(timeout_s=0.5)
    assert found.state == "down" and "in time" in found.detail


@real_client
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_a_user_without_the_right_is_told_so(
    listener: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.chmod(0o600)
    wrapper = tmp_path / "bin" / "docker"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups {shutil.which("docker")} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{listener}")
    assert probe_docker().state == "denied"


def test_probing_loads_no_docker_library() -> None:
    code = "import sys, appliance.machine.docker as d; d.probe_docker(); print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a `docker` of this text first in PATH."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)

    def make(text: str) -> None:
        file = tmp_path / "bin" / "docker"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{file.parent}:/usr/bin:/bin")

    return make


@pytest.mark.parametrize(
    "body",
    [
        "echo $$ >> pids\nsleep 1000\necho never",  # the shell waits for a child that has its pipes
        "sleep 1000 & echo $! >> pids",  # the shell ends, its child keeps the pipes
        "setsid sh -c 'echo $$ >> pids; exec sleep 1000' & exit 0",  # and even leaves its group
    ],
    ids=["child", "orphan", "escaped"],
)
def test_a_docker_that_hangs_through_what_it_started_does_not_hold_us_up(
    script: Callable[[str], None], tmp_path: Path, body: str
) -> None:
    script(f"#!/bin/sh\ncd {tmp_path}\n{body}\n")
    code = "from appliance.machine.docker import probe_docker as p; s = p(timeout_s=0.5); print(s.state, s.detail)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    left = [int(word) for word in (tmp_path / "pids").read_text().split()]
    still = [pid for pid in left if start_ticks(pid) is not None]
    for pid in still:
        os.kill(pid, signal.SIGKILL)
    assert done.stdout.startswith("down ") and "in time" in done.stdout
    assert not still or "setsid" in body


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        "[]",
        "3",
        "null",
        '{"Server":{}}',
        '{"Server":[]}',
        '{"Server":{"Version":"26"}}',
        "hello\nworld",
    ],
)
def test_an_answer_that_tells_of_no_engine_is_a_state_with_the_answer_in_it(
    fake_docker: FakeDocker, answer: str
) -> None:
    fake_docker(version=answer)
    found = probe_docker()
    assert found.state == "down" and found.fix
    assert " ".join(answer.split()) in found.detail


@pytest.mark.parametrize("text", ["", "not a program", "#!/nowhere/sh\n"])
def test_a_docker_that_cannot_be_started_is_a_state(script: Callable[[str], None], text: str) -> None:
    script(text)
    assert probe_docker().state != "ok"
    assert container_on_port(8000) is None
    assert endpoint() == "unix:///var/run/docker.sock"


def test_an_engine_that_takes_calls_and_never_answers_does_not_hold_up_the_sdk(
    listener: Path, script: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    script("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{listener}")
    assert inspect.signature(sdk).parameters["timeout_s"].default <= 10
    with pytest.raises(MachineFault):
        sdk(timeout_s=1)


def test_the_engine_s_own_disk_is_known_only_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def told(root: str) -> Any:
        return SimpleNamespace(info=lambda: {"DockerRootDir": root}, close=lambda: None)

    monkeypatch.setattr("appliance.machine.docker.endpoint", lambda: "unix:///run/docker.sock")
    assert docker_root(told(str(tmp_path))) == tmp_path
    assert docker_root(told(str(tmp_path / "nowhere"))) is None
    monkeypatch.setattr("appliance.machine.docker.endpoint", lambda: "tcp://other:2375")
    assert docker_root(told(str(tmp_path))) is None
