"""The images that dump, train and stand in front, on a real engine. NVIDIA's bases are stood in for by layout."""

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.images.versions import requirements
from tests.conftest import Cli

NAMED = "spark-spec/test:pytorch"
# As NVIDIA ships it: torch among the distribution's packages, an entry point of its own that prints, root.
PYTORCH = """FROM {base}
RUN mkdir -p /usr/local/lib/python3.11/dist-packages/torch-2.8.0a0+nv25.8.dist-info \\
 && printf 'Metadata-Version: 2.1\\nName: torch\\nVersion: 2.8.0a0+nv25.8\\n' \\
    > /usr/local/lib/python3.11/dist-packages/torch-2.8.0a0+nv25.8.dist-info/METADATA \\
 && printf '#!/bin/sh\\necho BANNER\\nexec "$@"\\n' > /opt/entrypoint.sh && chmod 755 /opt/entrypoint.sh
ENV PYTHONPATH=/usr/local/lib/python3.11/dist-packages
ENTRYPOINT ["/opt/entrypoint.sh"]
"""


def docker(*words: str, given: str | None = None) -> str:
    done = subprocess.run(
        ["docker", *words], input=given, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def built(cli: Cli, *words: str) -> str:
    done = cli("images", "build", *words, timeout=1200)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def environment(reference: str) -> dict[str, Any]:
    """What an image tells of itself, run as it will be: no network, and of what can be written to only /tmp."""
    told: dict[str, Any] = json.loads(
        docker("run", "--rm", "--network", "none", "--read-only", "--tmpfs", "/tmp", reference)
    )
    return told


@pytest.fixture
def pytorch(cli: Cli) -> Iterator[str]:
    base = docker("image", "inspect", "-f", "{{index .Config.Labels \"org.opencontainers.image.base.name\"}}",
                  built(cli, "gateway"))  # fmt: skip
    docker("build", "--quiet", "--network", "none", "--tag", NAMED, "-", given=PYTORCH.format(base=base))
    yield NAMED
    docker("rmi", "--force", NAMED)


def locked(image: str) -> dict[str, str]:
    path = requirements(image)
    assert path
    lines = [line for line in path.read_text().splitlines() if "==" in line and not line.startswith("#")]
    return dict(line.rstrip(" \\").split("==") for line in lines)


def test_train_cpu_has_what_training_needs(cli: Cli) -> None:
    reference = built(cli, "train-cpu")
    told, pins = environment(reference), locked("train-cpu")
    for name in ("torch", "transformers", "nvidia-modelopt", "accelerate", "datasets"):
        assert told["versions"][name] == pins[name]
    assert told["gpus"] == []
    code = "import torch, modelopt.torch.speculative as s, transformers; print(torch.ones(2).sum().item())"
    run = ("run", "--rm", "--network", "none", "--env", "OMP_NUM_THREADS=1", "--entrypoint", "python3")
    assert docker(*run, reference, "-c", code).splitlines()[-1] == "2.0"


def test_train_keeps_the_torch_of_its_base_and_brings_the_rest(cli: Cli, pytorch: str) -> None:
    reference = built(cli, "train", "--base", pytorch)
    try:
        told, pins = environment(reference), locked("train")
        assert told["versions"]["torch"] == "2.8.0a0+nv25.8" and "torch" not in pins
        assert told["versions"]["nvidia-modelopt"] == pins["nvidia-modelopt"]
    finally:
        docker("rmi", "--force", reference)


def test_dump_stands_on_the_engine_s_image(cli: Cli, pytorch: str) -> None:
    reference = built(cli, "dump", "--base", pytorch)
    try:
        assert environment(reference)["versions"]["nvidia-modelopt"] is None
        config = json.loads(docker("image", "inspect", "-f", "{{json .Config}}", reference))
        assert config["User"] == "10001:10001" and config["Labels"]["spark-spec.image"] == "dump"
        assert config["Labels"]["org.opencontainers.image.base.name"] == pytorch
    finally:
        docker("rmi", "--force", reference)


def test_an_unknown_job_is_told_by_the_image_itself(cli: Cli) -> None:
    done = subprocess.run(
        ["docker", "run", "--rm", built(cli, "train-cpu"), "trian"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and "invalid choice: 'trian'" in done.stderr


def get(port: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextlib.contextmanager
def running(reference: str, *words: str) -> Iterator[str]:
    """The gateway as it will run: no rights, nothing to write to but its state. Yields its port here."""
    name = docker(
        "run", "--detach", "--rm", "--publish", "127.0.0.1::8080", "--cap-drop", "ALL", "--read-only",
        "--tmpfs", "/var/lib/spark-spec:uid=10001,mode=0700", *words, reference,
    )  # fmt: skip
    try:
        yield docker("port", name, "8080").rpartition(":")[2]
    finally:
        docker("rm", "--force", name)


def answered(port: str, path: str) -> tuple[int, str]:
    for _ in range(50):
        with contextlib.suppress(OSError):
            return get(port, path)
        time.sleep(0.1)
    return get(port, path)


def test_the_gateway_is_closed_until_it_is_configured(cli: Cli) -> None:
    with running(built(cli, "gateway")) as port:
        assert answered(port, "/healthz") == (200, "closed\n")
        assert get(port, "/v1/models")[0] == 503


def test_the_gateway_runs_what_njs_is_given(cli: Cli, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    closed = docker("run", "--rm", "--entrypoint", "cat", built(cli, "gateway"), "/etc/spark-spec/nginx.conf")
    (tmp_path / "hello.js").write_text("export default {hello: r => r.return(200, 'from njs')}\n")
    (tmp_path / "nginx.conf").write_text(
        closed.replace(
            "default_type text/plain;",
            "default_type text/plain;\n    js_import hello from /etc/spark-spec/hello.js;",
        ).replace('return 503 "this gateway has no configuration\\n";', "js_content hello.hello;")
    )
    with running(built(cli, "gateway"), "--volume", f"{tmp_path}:/etc/spark-spec:ro") as port:
        assert answered(port, "/") == (200, "from njs")
