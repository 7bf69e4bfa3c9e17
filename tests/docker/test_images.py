"""Images on a real engine: built, inspected, run; and what must be refused."""

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.core.errors import FetchFault, MachineFault
from appliance.images.base import obtain
from appliance.images.build import build
from appliance.images.ensure import ensure
from appliance.images.local import ImageInfo, find
from appliance.images.versions import ImageName, base_image, own, versions
from appliance.machine.docker import require_docker
from appliance.machine.facts import platform
from tests.images.conftest import Ear

OTHER = {"linux/amd64": "linux/arm64", "linux/arm64": "linux/amd64"}
TEST = "spark-spec/test"


def _docker(*words: str, given: bytes | None = None) -> str:
    done = subprocess.run(["docker", *words], input=given, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture(scope="module")
def image() -> ImageInfo:
    return ensure(own("serve-llamacpp", "1"), platform(), None, Ear())


@pytest.fixture(autouse=True)
def _test_images_are_removed() -> Iterator[None]:
    yield
    names = _docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", TEST).split()
    if names:
        _docker("rmi", "--force", *names)


def test_the_engine_is_for_this_machine() -> None:
    found = require_docker()
    assert found.platform == platform()
    assert found.compose_version and found.server_version


def test_the_image_says_what_it_is(image: ImageInfo) -> None:
    config: dict[str, Any] = json.loads(
        _docker("image", "inspect", "-f", "{{json .Config}}", image.reference)
    )
    labels = config["Labels"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["python3", "-m", "appliance.supervise"]
    assert config["Healthcheck"]["Test"][1:4] == ["python3", "-m", "appliance.supervise.healthcheck"]
    assert labels["spark-spec.image"] == "serve-llamacpp"
    base = base_image(versions().bases["bookworm"], "1")
    assert labels["org.opencontainers.image.base.name"] in {base.local, base.public}
    assert {f"org.opencontainers.image.{name}" for name in ("title", "version", "licenses")} < set(labels)
    assert image.platform == platform()


def test_a_second_ensure_finds_it_and_does_nothing(image: ImageInfo, ear: Ear) -> None:
    again = ensure(ImageName(image.reference), platform(), None, ear)
    assert (again.id, again.origin) == (image.id, "local")
    assert not ear.said and not ear.commands


def test_the_engine_loads_without_root_and_only_the_state_can_be_written(image: ImageInfo) -> None:
    code = (
        "import os, xllamacpp, appliance.supervise.__main__\n"
        "print(os.getuid(), os.access('/var/lib/spark-spec', os.W_OK),\n"
        "      os.access('/opt/spark-spec', os.W_OK), os.path.isfile('/opt/spark-spec/programs/llamacpp_program.py'))"
    )
    run = ("run", "--rm", "--network", "none", "--entrypoint", "python3", image.reference, "-c", code)
    assert _docker(*run).split() == ["10001", "True", "False", "True"]


def test_an_image_of_another_architecture_under_a_right_name_is_refused(ear: Ear) -> None:
    name = f"{TEST}:other"
    _docker("import", "--platform", OTHER[platform()], "-", name, given=_tiny_tar())
    with pytest.raises(MachineFault) as caught:
        ensure(ImageName(name), platform(), None, ear)
    assert OTHER[platform()] in caught.value.why and f"docker rmi {name}" in caught.value.fix


@pytest.mark.usefixtures("image")
def test_a_base_without_python_fails_with_the_builds_own_words(ear: Ear) -> None:
    _docker("import", "--platform", platform(), "-", f"{TEST}:empty", given=_tiny_tar())
    with pytest.raises(MachineFault) as caught:
        build("serve-llamacpp", f"{TEST}:built", f"{TEST}:empty", platform(), ear)
    assert "/bin/sh" in caught.value.why
    assert find(f"{TEST}:built") is None


@pytest.mark.usefixtures("image")
def test_a_base_that_lacks_the_openmp_library_gets_it(ear: Ear) -> None:
    base = obtain(base_image(versions().bases["bookworm"], "1"), platform(), None, ear)
    recipe = f"FROM {base}\nRUN dpkg --purge --force-depends libgomp1 && ldconfig\n"
    _docker("build", "--quiet", "--tag", f"{TEST}:bare", "-", given=recipe.encode())
    build("serve-llamacpp", f"{TEST}:built", f"{TEST}:bare", platform(), ear)
    run = ("run", "--rm", "--entrypoint", "sh", f"{TEST}:built", "-c")
    assert _docker(
        *run, "python3 -c 'import xllamacpp' && ls -A /var/lib/apt/lists; ls /run/secrets 2>&1 || true"
    )
    assert "ca.crt" not in _docker("run", "--user", "0", *run[1:], "find / -xdev -name ca.crt")


def test_a_registry_that_is_not_there_is_said(ear: Ear) -> None:
    with pytest.raises(FetchFault) as caught:
        ensure(ImageName("127.0.0.1:9/vendor/engine:1"), platform(), None, ear)
    assert "127.0.0.1:9" in caught.value.why


def _tiny_tar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    return stream.getvalue()
