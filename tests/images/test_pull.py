"""A pull counts its bytes, and says what went wrong."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker.errors import NotFound

from appliance.core.errors import FetchFault
from appliance.images import pull as module
from appliance.images.pull import pull
from tests.images.conftest import Ear

Events = list[dict[str, Any] | Exception]


def _engine(monkeypatch: pytest.MonkeyPatch, events: Events) -> list[Any]:
    """An SDK client whose pull plays events. What it was asked is kept; so is its closing."""
    asked: list[Any] = []

    def play(repository: str, tag: str | None, **options: Any) -> Iterator[dict[str, Any]]:
        asked.append((repository, tag, options["platform"]))
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield event

    client = SimpleNamespace(api=SimpleNamespace(pull=play), close=lambda: asked.append("closed"))
    monkeypatch.setattr(module, "sdk", {module.QUIET_S: client}.get)
    return asked


def test_bytes_of_all_layers_are_added_up(monkeypatch: pytest.MonkeyPatch, ear: Ear) -> None:
    asked = _engine(
        monkeypatch,
        [
            {"status": "Pulling from library/python", "id": "3.11"},
            {"status": "Downloading", "id": "a", "progressDetail": {"current": 5, "total": 10}},
            {"status": "Downloading", "id": "b", "progressDetail": {"current": 1, "total": 20}},
            {"status": "Download complete", "id": "a", "progressDetail": {}},
            {"status": "Extracting", "id": "a", "progressDetail": {"current": 3, "total": 10}},
            {"status": "Download complete", "id": "b"},
        ],
    )
    pull("own.registry:5000/x/python:3.11", "linux/arm64", ear)
    assert asked == [("own.registry:5000/x/python", "3.11", "linux/arm64"), "closed"]
    assert [line.rpartition(" ")[2] for line in ear.said] == ["5/10", "6/30", "11/30", "11/30", "30/30"]
    assert ear.commands == ["docker pull --platform linux/arm64 own.registry:5000/x/python:3.11"]


@pytest.mark.parametrize(
    ("event", "why", "fix"),
    [
        ({"error": "toomanyrequests: slow down"}, "toomanyrequests", "docker login"),
        ({"error": "unauthorized: authentication required"}, "unauthorized", "docker login own.registry"),
        (NotFound("404", explanation="manifest unknown"), "manifest unknown", "check the name"),
        (requests.exceptions.ReadTimeout("Read timed out."), "timed out", "run this again"),
        (requests.exceptions.ConnectionError("refused"), "refused", "images.registry"),
    ],
)
def test_a_failed_pull_says_why(
    event: dict[str, Any] | Exception, why: str, fix: str, monkeypatch: pytest.MonkeyPatch, ear: Ear
) -> None:
    asked = _engine(monkeypatch, [event])
    with pytest.raises(FetchFault) as caught:
        pull("own.registry/a:1", "linux/arm64", ear)
    assert why in caught.value.why and fix in caught.value.fix
    assert asked[-1] == "closed"
