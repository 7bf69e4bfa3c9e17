"""Tests with a real Docker engine. Without one they are skipped, except where REQUIRE_DOCKER says they may not be."""

import os

import pytest

from appliance.machine.docker import probe_docker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/docker" in str(item.path):
            item.add_marker(pytest.mark.docker)


@pytest.fixture(autouse=True)
def engine() -> None:
    found = probe_docker()
    if found.state != "ok":
        if os.environ.get("REQUIRE_DOCKER"):
            pytest.fail(f"REQUIRE_DOCKER is set, but {found.detail}")
        pytest.skip(found.detail)
