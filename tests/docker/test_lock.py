"""`images lock` with a real registry, and with an engine's image that tells what it takes."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engines.options import FOLDER
from appliance.images.local import digests_here, find
from appliance.images.lock import read_base
from appliance.images.pull import pull
from appliance.machine.facts import platform
from tests.conftest import Cli
from tests.docker.registries import served, unpacked
from tests.images.conftest import Ear

ENGINE = "spark-spec-test/engine:1.3.0rc12"
DIST = "/usr/lib/python3/dist-packages"
# As the engine ships it: a schema in the package, a version in its metadata; and it talks when it is loaded.
RECIPE = f"""FROM {{base}}
COPY tensorrt_llm {DIST}/tensorrt_llm
RUN mkdir {DIST}/tensorrt_llm-1.3.0rc12.dist-info \\
 && printf 'Metadata-Version: 2.1\\nName: tensorrt_llm\\nVersion: 1.3.0rc12\\n' \\
    > {DIST}/tensorrt_llm-1.3.0rc12.dist-info/METADATA
"""


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def base(cli: Cli) -> str:
    done = cli("images", "build", "gateway", timeout=600)
    assert done.returncode == 0, done.stderr
    label = '{{index .Config.Labels "org.opencontainers.image.base.name"}}'
    return docker("image", "inspect", "-f", label, done.stdout.strip())


@pytest.fixture
def engine(base: str, tmp_path: Path) -> Iterator[str]:
    """A stand-in of TensorRT-LLM's image that knows its own settings."""
    package = tmp_path / "tensorrt_llm"
    (package / "schemas").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "raise ImportError('libcuda.so.1: cannot open shared object file')\n"
    )
    shutil.copy(FOLDER / "trtllm-1.4.0rc0.json", package / "schemas" / "trtllm-serve-config.schema.json")
    (tmp_path / "Dockerfile").write_text(RECIPE.format(base=base))
    docker("build", "--quiet", "--network", "none", "--tag", ENGINE, str(tmp_path))
    yield ENGINE
    docker("rmi", "--force", ENGINE)


def test_an_engine_tells_what_it_takes_and_that_decides(engine: str, cli: Cli, tmp_path: Path) -> None:
    own = ("--set", f"docker.base={engine}")
    done = cli("images", "lock", "eagle3", *own)
    assert done.returncode == 0, done.stderr
    assert "trtllm:1.3.0rc12 (1.3.0rc12)" in done.stdout and "images.lock.json" in done.stderr
    assert "spark-spec-options-" not in docker("ps", "--all", "--format", "{{.Names}}")
    before = cli("images", "lock", "eagle3", *own)
    assert "written" not in before.stderr
    render = ("render", "eagle3", "-o", str(tmp_path / "out"), *own)
    refused = cli(*render, "--set", "trtllm.no_such_setting=1")
    assert refused.returncode == 3 and "known to trtllm 1.3.0rc12\n" in refused.stderr
    assert cli(*render).returncode == 0


def test_an_image_that_is_no_engine_is_told(base: str, cli: Cli) -> None:
    done = cli("images", "lock", "eagle3-vllm", "--set", f"docker.base={base}")
    assert done.returncode == 4
    assert "No module named 'vllm'" in done.stderr and "nothing is locked" in done.stdout


def test_what_cannot_be_asked_is_told_and_nothing_is_locked(cli: Cli, home: Path) -> None:
    done = cli("images", "lock", "demo", "--set", "docker.base=127.0.0.1:9/x:1")
    assert done.returncode == 0 and "nothing is locked" in done.stdout  # llama.cpp has no settings of its own
    assert not list(home.rglob("images.lock.json"))


def test_a_digest_that_a_registry_told_gets_that_image(
    base: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, ear: Ear
) -> None:
    program = unpacked(tmp_path_factory.mktemp("registry"))
    with served(program, tmp_path / "open", login=False) as host:
        name = f"{host}/vendor/engine:1"
        docker("tag", base, name)
        docker("push", "--quiet", name)
        docker("rmi", name)
        read = read_base(name, platform(), ear)
        assert read.platforms == (platform(),)
        pinned = f"{name}@{read.digest}"
        pull(pinned, platform(), ear)
        found = find(pinned)
        assert found and found.id == docker("image", "inspect", "-f", "{{.Id}}", base)
        assert digests_here(pinned) == (read.digest,)
    again = read_base(pinned, platform(), ear)  # the registry is gone: what is here was pulled by that digest
    docker("rmi", pinned)
    assert again.digest == read.digest


@pytest.fixture
def ear() -> Ear:
    return Ear()
