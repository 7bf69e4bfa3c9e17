"""linux/arm64, a Spark's own platform: made and run on any machine, emulated where that is of another kind.

Base, image and launcher are real, and so are the model and its tokens. `make test-arm64` runs this, not `make test`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.paths import PACKAGE, data
from appliance.images.base import obtain
from appliance.images.build import build
from appliance.images.local import find
from appliance.images.versions import base_image, versions
from appliance.images.wheels import platform_tags
from tests.images.conftest import Ear

pytestmark = pytest.mark.arm64

ARM = "linux/arm64"
IMAGE, CONTAINER = "spark-spec-test/arm64:llamacpp", "spark-spec-test-arm64"
ROOT = PACKAGE.parent


def ran(*argv: str, seconds: float = 300) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def base() -> str:
    """The base, and a machine that can run it."""
    ran("bash", str(data("images") / "emulation.sh"), seconds=900)
    return obtain(base_image(versions().bases["bookworm"], ""), ARM, None, Ear())


@pytest.fixture(scope="module")
def image(base: str) -> Iterator[str]:
    build("serve-llamacpp", IMAGE, base, ARM, Ear())
    yield IMAGE
    ran("docker", "rmi", "--force", IMAGE)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher's wheel, and those of all it needs for the base's Python on arm64."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip")
    ran(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (own,) = folder.glob("spark_spec-*.whl")
    tags = [word for tag in platform_tags(ARM) for word in ("--platform", tag)]
    ran(
        *pip, "download", "--quiet", "--only-binary=:all:", *tags, "--implementation", "cp",
        "--python-version", "3.11", "--dest", str(folder), f"spark-spec[local] @ file://{own}", "pip",
        seconds=600,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def spark(base: str, wheels: Path) -> Iterator[str]:
    """A container without a network, in which the launcher was installed from the wheels alone. Yields its name."""
    models = Path(os.environ.get("TEST_MODELS") or Path.home() / ".cache" / "spark-spec" / "models")
    ran(
        "docker", "run", "--detach", "--rm", "--name", CONTAINER, "--platform", ARM, "--network", "none",
        "--volume", f"{wheels}:/wheels:ro", "--volume", f"{models}:/models:ro", base, "sleep", "1800",
    )  # fmt: skip
    try:
        inside("python3 -m venv --without-pip /opt/own")
        inside("/opt/own/bin/python $(ls /wheels/pip-*.whl)/pip install --quiet --no-index --find-links /wheels "
               "--no-compile 'spark-spec[local]'")  # fmt: skip
        yield CONTAINER
    finally:
        ran("docker", "rm", "--force", CONTAINER)


def inside(command: str, seconds: float = 300) -> str:
    return ran("docker", "exec", CONTAINER, "sh", "-c", command, seconds=seconds)


def test_the_image_is_for_arm64_and_its_engine_loads(image: str) -> None:
    found = find(image)
    assert found and found.platform == ARM
    run = ("docker", "run", "--rm", "--platform", ARM, "--network", "none")
    assert "usage: appliance.supervise" in ran(*run, image, "--help")
    code = "import platform, xllamacpp; print(platform.machine())"
    assert ran(*run, "--entrypoint", "python3", image, "-c", code) == "aarch64\n"


@pytest.mark.usefixtures("spark")
def test_the_launcher_runs() -> None:
    assert "spark-spec up demo" in inside("/opt/own/bin/spark-spec --help")
    assert "eagle3" in inside("/opt/own/bin/spark-spec presets")


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("preset", ["demo", "eagle3"])
def test_a_stack_renders_as_on_any_machine(preset: str) -> None:
    inside(f"/opt/own/bin/spark-spec render {preset} --reference -o /tmp/{preset}")
    for path in sorted((ROOT / "compose" / preset).rglob("*")):
        if path.is_file():
            name = path.relative_to(ROOT / "compose" / preset)
            assert inside(f"cat /tmp/{preset}/{name}") == path.read_text(), name


@pytest.mark.usefixtures("spark", "models_dir")
def test_the_demo_comes_up_and_answers() -> None:
    spec = "/opt/own/bin/spark-spec"
    inside(f"{spec} up demo --no-verify --runtime process --set paths.models=/models", seconds=600)
    assert '"runtime": "process"' in inside(f"{spec} status demo --json")
    assert inside(f"{spec} ask --name demo --max-tokens 4 'Say yes.'", seconds=300).strip()
    inside(f"{spec} down demo")
