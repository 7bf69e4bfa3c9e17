"""What is in an image, on a real engine: saved as a stream."""

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

from appliance.images.export import read_manifest, saved

TEST = "spark-spec/test-content"


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
