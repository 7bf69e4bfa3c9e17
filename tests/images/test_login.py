"""Whether there is a login for a registry: as docker itself would find it."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.images.login import logged_in

HELPER = """#!/bin/sh
read host
[ "$host" = own.example ] && echo '{"Username": "ada", "Secret": "s"}' && exit
echo 'credentials not found in native keychain'; exit 1
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path / "config.json"


def written(config: Path, content: dict[str, Any]) -> None:
    config.write_text(json.dumps(content))


def test_without_a_config_there_is_none(config: Path) -> None:
    assert not config.exists()
    assert logged_in("nvcr.io") is False


def test_a_login_counts_for_its_registry_alone(config: Path) -> None:
    written(config, {"auths": {"nvcr.io": {"auth": "YTpi"}, "https://index.docker.io/v1/": {"auth": "YTpi"}}})
    assert logged_in("nvcr.io") is True
    assert logged_in("docker.io") is True
    assert logged_in("registry.example:5000") is False


def test_a_helper_is_asked(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = config.parent / "docker-credential-test"
    helper.write_text(HELPER)
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{config.parent}:/usr/bin:/bin")
    written(config, {"auths": {"own.example": {}}, "credsStore": "test"})
    assert logged_in("own.example") is True
    assert logged_in("other.example") is False


def test_a_helper_that_is_missing_is_not_known(config: Path) -> None:
    written(config, {"credHelpers": {"own.example": "gone"}})
    assert logged_in("own.example") is None
