"""Is there a Docker to work with? Each answer has its own words and its own remedy. And the way to it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from appliance.core.errors import MachineFault

if TYPE_CHECKING:
    from docker import DockerClient

State = Literal["absent", "down", "denied", "no-compose", "ok"]

DEFAULT = "unix:///var/run/docker.sock"
ASK_S = 5.0
SDK_S = 10
SHORT_S = 0.1  # what a command that is due has, to hand over what it already said
REAP_S = 0.5
ENDPOINT = ("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")


@dataclass(frozen=True)
class DockerState:
    """What was found. `detail` says why in one line, `fix` what to do; both are empty where all is well.

    `platform` is the engine's own, such as linux/arm64; it and the versions are None where nothing answered.
    """

    state: State
    detail: str = ""
    fix: str = ""
    server_version: str | None = None
    compose_version: str | None = None
    platform: str | None = None


def probe_docker(timeout_s: float = 5) -> DockerState:
    """Look for a Docker engine and its compose plugin, as the docker client of this user would reach them.

    DOCKER_HOST, DOCKER_CONTEXT and the chosen context are honoured. Returns within about `timeout_s` seconds.
    """
    if shutil.which("docker") is None:
        return DockerState(
            "absent",
            "there is no docker command on this machine",
            "install Docker with its compose plugin (Debian, as root: make docker-engine)",
        )
    end = time.monotonic() + timeout_s
    try:
        with (
            _running("version", "--format", "{{json .}}") as version,
            _running("compose", "version", "--short") as compose,
        ):
            answer, complaint = _finish(version, end)
            composed, _ = _finish(compose, end)
    except OSError as error:
        return DockerState(
            "absent",
            f"{shutil.which('docker')} cannot be started: {error.strerror or error}",
            "install Docker with its compose plugin (Debian, as root: make docker-engine)",
        )
    server = _server(answer)
    if server is None:
        return (
            _unfit(answer)
            if answer.strip() and not complaint.strip()
            else _unreachable(complaint, endpoint())
        )
    found = DockerState(
        "ok",
        server_version=server["Version"],
        compose_version=composed.strip() or None,
        platform=f"{server['Os']}/{server['Arch']}",
    )
    if found.compose_version is None:
        return DockerState(
            "no-compose",
            "docker has no compose plugin (`docker compose version` fails)",
            "install its version 2 (package docker-compose-plugin or docker-compose)",
            server_version=found.server_version,
            platform=found.platform,
        )
    return found


def probe_ahead() -> Callable[[], DockerState]:
    """Begin to look, in a thread, while the caller does something else. Returns what waits for the answer."""
    return ThreadPoolExecutor(1, "probe-docker").submit(probe_docker).result


def require_docker(look: Callable[[], DockerState] | None = None) -> DockerState:
    """A Docker that can be worked with. Raises MachineFault, with the remedy for what is wrong."""
    found = (look or probe_docker)()
    if found.state != "ok":
        raise MachineFault("Docker cannot be used", found.detail, found.fix)
    return found


def endpoint() -> str:
    """Where the docker client of this user reaches its engine, such as unix:///var/run/docker.sock."""
    if host := os.environ.get("DOCKER_HOST"):
        return host
    return _ask(*ENDPOINT).strip() or DEFAULT


def sdk(timeout_s: int = SDK_S) -> "DockerClient":
    """The SDK's client of the engine that the docker command reaches; no read waits longer than `timeout_s`.

    The SDK itself adds a container's own time to stop. Raises MachineFault where it does not answer.
    """
    import docker
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env

    if "DOCKER_TLS_VERIFY" in os.environ:
        settings: dict[str, Any] = dict(kwargs_from_env())
    else:
        settings = {"base_url": endpoint()}
    try:
        return docker.DockerClient(**settings, version="auto", timeout=timeout_s, use_ssh_client=True)
    except DockerException as error:
        require_docker()
        raise MachineFault("Docker cannot be used", str(error), "see that `docker info` works") from None


def docker_root(client: "DockerClient | None" = None) -> Path | None:
    """The folder in which the engine keeps its data; None where that is another machine, or it does not say. Raises
    MachineFault where it does not answer."""
    if not endpoint().startswith("unix://"):
        return None
    with contextlib.closing(sdk()) if client is None else contextlib.nullcontext(client) as asked:
        root = asked.info().get("DockerRootDir")
    return Path(root) if root and Path(root).is_dir() else None


def container_on_port(port: int) -> str | None:
    """The name of the running container that publishes a TCP port here; None where none is known to."""
    return _ask("ps", "--filter", f"publish={port}/tcp", "--format", "{{.Names}}").partition("\n")[0] or None


def _ask(*words: str) -> str:
    """What a docker command answers; nothing where it fails or there is none."""
    try:
        with _running(*words) as process:
            return _finish(process, time.monotonic() + ASK_S)[0]
    except OSError:
        return ""


@contextlib.contextmanager
def _running(*words: str) -> "Iterator[subprocess.Popen[str]]":
    """A docker command, ended at the latest with the block, and all that it started with it.

    Raises OSError where it cannot be started.
    """
    process = subprocess.Popen(
        ["docker", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:  # not reaped: its number still names its group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(REAP_S)
        for stream in (
            process.stdout,
            process.stderr,
        ):  # what left its group may hold the other ends for ever
            if stream is not None:
                stream.close()


def _finish(process: "subprocess.Popen[str]", end: float) -> tuple[str, str]:
    """What a command said and complained of, where it came to its end by `end` (monotonic)."""
    try:
        return process.communicate(timeout=max(SHORT_S, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "", "it did not answer in time"


def _server(answer: str) -> dict[str, str] | None:
    """What the docker client tells of its engine; None where that is not what a docker client says."""
    try:
        said = json.loads(answer)
    except ValueError:
        return None
    server = said.get("Server") if isinstance(said, dict) else None
    if not isinstance(server, dict):
        return None
    facts = {key: str(server.get(key) or "") for key in ("Version", "Os", "Arch")}
    return facts if all(facts.values()) else None


def _unfit(answer: str) -> DockerState:
    """The docker command complains of nothing, yet tells of no engine."""
    return DockerState(
        "down",
        f"`docker version` tells of no engine: {' '.join(answer.split())[:80]}",
        f"see what {shutil.which('docker')} is, and that `docker info` works",
    )


def _unreachable(complaint: str, where: str) -> DockerState:
    """Sort the docker client's complaint. The wordings are those of Docker 20 to 28."""
    lines = [line for line in complaint.strip().splitlines() if not line.startswith("WARNING")]
    last = lines[-1] if lines else "it gave no reason"
    if "permission denied" in complaint:
        return DockerState(
            "denied",
            f"this user may not use the Docker engine at {where}",
            'sudo usermod -aG docker "$USER", then log in again',
        )
    named = next((name for name in ("DOCKER_HOST", "DOCKER_CONTEXT") if os.environ.get(name)), None)
    if named:
        return DockerState(
            "down",
            f"no Docker engine answers where {named} points ({os.environ[named]}): {last}",
            f"unset {named}, or start the engine it names",
        )
    socket = Path(where.removeprefix("unix://"))
    if where.startswith("unix://") and not socket.exists():
        return DockerState(
            "down",
            f"no Docker engine was started: there is no socket {socket}",
            "sudo systemctl start docker (bare Debian, as root: make docker-engine)",
        )
    return DockerState(
        "down",
        f"the Docker engine at {where} does not answer: {last}",
        "see why with journalctl -u docker, then sudo systemctl restart docker",
    )
