"""docker-bake.hcl knows each image of versions.yaml, as buildx itself reads it."""

import json
import subprocess
from typing import Any

import pytest

from appliance.images.versions import bake_file, versions
from appliance.machine.docker import probe_docker


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    """What `docker buildx bake` would do; it needs no running engine."""
    if probe_docker().state == "absent":
        pytest.skip("there is no docker command")
    done = subprocess.run(
        ["docker", "buildx", "bake", "--file", str(bake_file()), "--print"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_all_images_are_built_by_default(plan: dict[str, Any]) -> None:
    assert set(plan["group"]["default"]["targets"]) == set(plan["target"]) == set(versions().images)


@pytest.mark.parametrize("image", list(versions().images))
def test_each_is_labelled_as_what_it_is(plan: dict[str, Any], image: str) -> None:
    labels = plan["target"][image]["labels"]
    assert labels["spark-spec.image"] == image
    assert labels["org.opencontainers.image.title"] == f"spark-spec {image}"
    assert labels["org.opencontainers.image.vendor"] == "spark-spec"
    assert labels["org.opencontainers.image.description"]


@pytest.mark.parametrize("image", list(versions().images))
def test_a_build_reads_its_context_alone_and_lands_in_the_engine(plan: dict[str, Any], image: str) -> None:
    target = plan["target"][image]
    assert (target["context"], target["output"]) == ("context", ["type=docker"])
