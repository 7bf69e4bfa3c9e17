"""Registries on this machine: Debian's docker-registry, open or with a login, unpacked beside the tests."""

import contextlib
import json
import os
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

CONFIG = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
LOGIN = "auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\n"
JOE = "joe:$2y$05$/0di2qdrOxJUDkeFkOLiB.WIQGvQ3.K1.512xor5/tFX3rkf/ckAy\n"  # bcrypt of "pw"


def unpacked(folder: Path) -> Path:
    """The program of Debian's package. Nothing is installed: installed, it would start by itself."""
    subprocess.run(
        ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "docker-registry"],
        cwd=folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (package,) = folder.glob("docker-registry_*.deb")
    subprocess.run(["dpkg", "--extract", str(package), str(folder)], check=True, timeout=60)
    return folder / "usr" / "bin" / "docker-registry"


@contextlib.contextmanager
def served(program: Path, folder: Path, *, login: bool) -> Iterator[str]:
    """A registry; yields its 127.0.0.1:PORT. Its only user is joe, with the password pw."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "htpasswd").write_text(JOE)
    config = folder / "config.yml"
    config.write_text((CONFIG + (LOGIN if login else "")).format(folder=folder, port=port))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([str(program), "serve", str(config)], stdout=log, stderr=log)
    try:
        _await(port)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _await(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no registry on port {port}")


def logged_in(folder: Path, host: str, user: str, password: str) -> dict[str, str]:
    """The environment of one who logged in; the file is what `docker login` writes."""
    folder.mkdir(exist_ok=True)
    auth = b64encode(f"{user}:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return {"DOCKER_CONFIG": str(folder), "HOME": os.environ["HOME"]}
