"""Docker: one compose project a stack, found again by its labels."""

import contextlib
import io
import os
import re
import shlex
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.core.errors import MachineFault
from appliance.core.talk import Talk
from appliance.machine.command import CommandFailed, run
from appliance.machine.docker import require_docker, sdk
from appliance.runtime.base import ABSENT, Observed
from appliance.stack.render import project
from appliance.supervise import status

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

STATE_FOLDER = "/var/lib/spark-spec"
STOP_S = 30
COMPOSE_S = 120.0
STATUS_MOST = 1 << 20
REMEDIES = (
    (
        r"could not select device driver|nvidia\.com/gpu|runtime name: nvidia|nvidia-container",
        "this Docker has no such way to a GPU: leave docker.gpu at auto, try another of cdi, runtime and devices, or "
        "install the NVIDIA Container Toolkit",
    ),
    (
        r"port is already allocated|address already in use",
        "another program took the port meanwhile: choose another with --set serve.port=…, or end it",
    ),
)


class DockerRuntime:
    """The docker runtime of one stack. `home` tells our containers from those of other users and folders."""

    name = "docker"

    def __init__(self, stack: str, home: str, talk: Talk, held: int | None) -> None:
        self.stack = stack
        self.home = home
        self.project = project(stack, home)
        self.talk = talk
        self.held = held
        self._sdk: DockerClient | None = None

    def start(self, folder: Path, digest: str) -> None:
        """`docker compose up`. It keeps the stack's lock until it is done, even where this process is killed: no
        container appears behind the back of the next command."""
        del digest  # it stands in the rendered labels
        file = str(folder / "compose.yaml")
        argv = ["docker", "compose", "--project-name", self.project, "--file", file, "up", "--detach"]
        self.talk.command(shlex.join(argv))
        # The SDK takes a tenth of a second to load: it does so while compose works.
        meanwhile = threading.Thread(target=self._preload, daemon=True)
        meanwhile.start()
        try:
            run(argv, quiet_s=COMPOSE_S, each=_unheard, held=self.held, env=_environment())
        except CommandFailed as error:
            why = " ".join(error.words(1).split())
            by_hand = f"run it by hand to see more: {shlex.join(argv[:-1])}"
            fix = next((remedy for pattern, remedy in REMEDIES if re.search(pattern, why)), by_hand)
            raise MachineFault("docker compose could not start the stack", why, fix) from None
        finally:
            meanwhile.join()

    def _preload(self) -> None:
        with contextlib.suppress(MachineFault):
            self._client()

    def observe(self) -> Observed:
        with _answering():
            return self._observe()

    def _observe(self) -> Observed:
        container = self._container()
        if container is None:
            return ABSENT
        state: dict[str, Any] = container.attrs["State"]
        alive = state["Status"] in ("running", "restarting", "paused")
        return Observed(
            exists=True,
            alive=alive,
            digest=container.labels.get("spark-spec.digest"),
            status=self._status(container),
            exit_code=None if alive else int(state["ExitCode"]),
            restarts=int(container.attrs["RestartCount"]),
            where={
                "container": str(container.id),
                "container_name": str(container.name),
                "image": str(container.attrs["Image"]),
            },
        )

    def stop(self) -> bool:
        """Remove our containers and the project's network, by label; nothing else of the daemon's."""
        with _answering():
            return self._stop()

    def _stop(self) -> bool:
        from docker.errors import APIError, NotFound

        client = self._client()
        ours = self._ours()
        for container in ours:
            self.talk.command(f"docker stop {container.name} && docker rm {container.name}")
            with contextlib.suppress(NotFound):
                container.stop(timeout=STOP_S)
                container.remove(force=True)
        label = f"com.docker.compose.project={self.project}"
        for network in client.networks.list(filters={"label": label}):  # also one that never got a container
            with contextlib.suppress(NotFound, APIError):
                network.remove()
        return bool(ours)

    def logs(self, *, follow: bool, lines: int | None) -> Iterator[str]:
        with _answering():
            yield from self._logs(follow=follow, lines=lines)

    def _logs(self, *, follow: bool, lines: int | None) -> Iterator[str]:
        container = self._container()
        if container is None:
            return
        stream = container.logs(stream=True, follow=follow, tail="all" if lines is None else lines)
        pending = b""
        try:
            for chunk in stream:
                *whole, pending = (pending + chunk).split(b"\n")
                yield from (line.decode(errors="replace").rstrip("\r") for line in whole)
            if pending:
                yield pending.decode(errors="replace")
        finally:
            stream.close()

    def _client(self) -> "DockerClient":
        if self._sdk is None:
            self._sdk = sdk()
        return self._sdk

    def _ours(self) -> "list[Container]":
        labels = [f"spark-spec.stack={self.stack}", f"spark-spec.home={self.home}"]
        return self._client().containers.list(all=True, filters={"label": labels}, ignore_removed=True)

    def _container(self) -> "Container | None":
        found = self._ours()
        return found[0] if found else None

    def _status(self, container: "Container") -> status.Status | None:
        """The supervisor's status, out of the container's file system: there even after its end."""
        from docker.errors import APIError, NotFound

        try:
            chunks, _ = container.get_archive(f"{STATE_FOLDER}/{status.FILE}")
            with tarfile.open(fileobj=io.BytesIO(_first(chunks, STATUS_MOST))) as archive:
                stream = archive.extractfile(status.FILE)
                return status.parse(stream.read().decode()) if stream else None
        except (NotFound, APIError, KeyError, ValueError, tarfile.TarError):
            return None  # not there yet; or written by someone else: who runs in the container can do that


def _first(chunks: Iterable[bytes], most: int) -> bytes:
    """The beginning of a stream: what is longer is cut, and then is no archive."""
    taken = b""
    for chunk in chunks:
        taken += chunk
        if len(taken) > most:
            break
    return taken[:most]


def _environment() -> dict[str, str]:
    """Ours, without the variables that would have compose take another project or other files."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COMPOSE_")}


def _unheard(line: str) -> None:
    """Compose's lines of progress: ours say the same."""
    del line


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turn a daemon that went away in mid-talk into the MachineFault that says what is wrong with it."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        require_docker()
        raise MachineFault(
            "Docker failed", str(error), "run it again; `docker info` and the daemon's log say more"
        ) from None
