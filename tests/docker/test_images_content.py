"""What is in an image, on a real engine: saved as a stream, compared with its record."""

import hashlib
import io
import json
import os
import resource
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.images.base import obtain
from appliance.images.export import read_manifest, saved
from appliance.images.versions import base_image, versions
from appliance.machine.facts import platform
from tests.conftest import Cli
from tests.images.conftest import Ear

TEST = "spark-spec/test-content"
BASE = "spark-spec/test-content-base:1"


def docker(*words: str, given: bytes | None = None) -> str:
    done = subprocess.run(["docker", *words], input=given, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def tar(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture(autouse=True)
def _test_images_are_removed() -> Iterator[None]:
    yield
    names = docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", TEST).split()
    if names:
        docker("rmi", "--force", *names)


def test_a_saved_image_is_streamed_with_flat_memory() -> None:
    name = f"{TEST}:large"
    docker("import", "-", f"{TEST}:first", given=tar({"first": os.urandom(100 << 20)}))
    docker("build", "--quiet", "--tag", name, "-", given=f"FROM {TEST}:first\nWORKDIR /second\n".encode())
    digests, kept = {}, {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with saved(name) as files:
        for file in files:
            digest = hashlib.sha256()
            while chunk := file.stream.read(1 << 20):
                digest.update(chunk)
                if file.size < 1 << 16:
                    kept[file.path] = chunk
            digests[file.path] = digest.hexdigest()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # kilobytes
    image = read_manifest(kept["manifest.json"])
    config = json.loads(kept[image.config])
    assert [f"sha256:{digests[layer]}" for layer in image.layers] == config["rootfs"]["diff_ids"]
    assert len(image.layers) == 2


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_leaving_early_ends_the_transfer() -> None:
    name = f"{TEST}:left"
    docker("import", "-", name, given=tar({"first": os.urandom(30 << 20)}))
    before = _open_files()
    with saved(name) as files:
        next(files)
    assert _open_files() == before


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """Our base under a name of the tests, so that the image on it is nobody else's."""
    docker("tag", obtain(base_image(versions().bases["bookworm"], "1"), platform(), None, Ear()), BASE)
    yield BASE
    docker("rmi", "--force", BASE)


@pytest.fixture
def image(cli: Cli, base: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The demo's image, built and so recorded."""
    monkeypatch.setenv("SPARK_SPEC_DOCKER_BASE", base)
    built = cli("images", "build", "demo")
    assert built.returncode == 0, built.stderr
    yield built.stdout.strip()
    docker("rmi", "--force", built.stdout.strip())


def changed(image: str, *change: str, file: bool = False) -> None:
    """Put another image under an image's name, as somebody could who wants ours to run his."""
    container = docker("create", image).strip()
    try:
        if file:
            docker("cp", "-", f"{container}:/opt/spark-spec/site", given=tar({"sitecustomize.py": b""}))
        docker("commit", *(word for one in change for word in ("--change", one)), container, image)
    finally:
        docker("rm", container)


def test_what_was_built_is_the_same_also_after_it_was_carried(cli: Cli, image: str) -> None:
    done = cli("images", "verify", "demo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"reference": image, "state": "same", "differences": []}]
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as save:
        saved_bytes = save.communicate(timeout=300)[0]
    docker("rmi", "--force", image)
    assert cli("images", "verify", "demo").returncode == 4
    docker("load", given=saved_bytes)
    assert cli("images", "verify", image).returncode == 0


def test_an_added_file_and_a_changed_variable_are_named(cli: Cli, image: str) -> None:
    changed(image, "ENV PYTHONPATH=/tmp", file=True)
    done = cli("images", "verify", image, "--json")
    assert done.returncode == 9
    (found,) = json.loads(done.stdout)
    assert found["differences"][0].startswith("layers: 6, expected 5: 1 added")
    assert found["differences"][1].startswith("env PYTHONPATH: '/tmp', expected '/opt/spark-spec:")
    assert all(one in done.stderr for one in found["differences"])


def test_an_image_that_says_it_is_another_is_found_without_a_record(cli: Cli, image: str, home: Path) -> None:
    records = home / "state/spark-spec/images"
    (record,) = records.iterdir()
    record.unlink()
    done = cli("images", "verify", image)
    assert done.returncode == 8 and "not recorded" in done.stdout and "nothing to compare with" in done.stderr
    changed(image, "LABEL spark-spec.image=serve-vllm")
    done = cli("images", "verify", image)
    assert done.returncode == 9 and "serve-vllm, its name says serve-llamacpp" in done.stderr


def test_an_image_for_another_platform_is_no_mismatch(cli: Cli, image: str) -> None:
    other = next(one for one in ("linux/amd64", "linux/arm64") if one != platform())
    done = cli("images", "verify", image, "--platform", other)
    assert done.returncode == 4 and f"platform: {platform()}, expected {other}" in done.stderr


def test_the_bill_of_an_image_names_what_is_in_it(cli: Cli, tmp_path: Path) -> None:
    built = cli("images", "build", "demo", timeout=600)
    assert built.returncode == 0, built.stderr
    done = cli("images", "sbom", "demo")
    assert done.returncode == 0, done.stderr
    parts = {part["name"]: part for part in json.loads(done.stdout)["components"]}
    assert {"libc6", "python3", "xllamacpp", "spark-spec"} < set(parts)
    into = tmp_path / "demo.cdx.json"
    again = cli("images", "sbom", built.stdout.strip(), "-o", str(into))
    assert (again.returncode, again.stdout) == (0, "")
    assert into.read_text() == done.stdout


def test_what_a_later_layer_removes_is_not_in_the_bill(cli: Cli) -> None:
    base = obtain(base_image(versions().bases["bookworm"], "1"), platform(), None, Ear())
    name = f"{TEST}:removed"
    recipe = f"FROM {base}\nRUN rm -rf /var/lib/dpkg\n"
    docker("build", "--quiet", "--network", "none", "--tag", name, "-", given=recipe.encode())
    parts = json.loads(cli("images", "sbom", name).stdout)["components"]
    assert not [part for part in parts if part.get("purl", "").startswith("pkg:deb")]


def test_a_bill_that_cannot_be_written_or_made_is_told(cli: Cli, tmp_path: Path) -> None:
    assert cli("images", "build", "gateway", timeout=600).returncode == 0
    done = cli("images", "sbom", "gateway", "-o", str(tmp_path / "nowhere" / "x.json"))
    assert done.returncode == 3 and "-o FILE" in done.stderr
    done = cli("images", "sbom", "spark-spec/nothing:1")
    assert done.returncode == 4 and "is not here" in done.stderr
