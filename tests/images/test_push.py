"""A push counts its bytes, gives the digest, and leaves no name behind."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from appliance.core.errors import FetchFault
from appliance.images import push as module
from appliance.images.local import ImageInfo
from appliance.images.push import push
from tests.images.conftest import Ear

OURS, REGISTRY = "spark-spec/gateway:1", "own.example:5000/team"
REMOTE = f"{REGISTRY}/{OURS}"
SENT = [
    {"status": "Preparing", "id": "a", "progressDetail": {}},
    {"status": "Pushing", "id": "a", "progressDetail": {"current": 5, "total": 10}},
    {"status": "Layer already exists", "id": "b", "progressDetail": {}},
    {"status": "Pushing", "id": "a", "progressDetail": {"current": 12, "total": 10}},
    {"status": "Pushed", "id": "a", "progressDetail": {}},
    {"progressDetail": {}, "aux": {"Tag": "1", "Digest": "sha256:ab", "Size": 529}},
]


class Engine:
    """Stands for a Docker engine with one image of ours."""

    def __init__(self) -> None:
        self.names = {OURS}
        self.events: list[dict[str, Any] | Exception] = list(SENT)
        self.asked: list[tuple[str, str]] = []
        self.closed = False

    def push(self, repository: str, tag: str, **_: object) -> Iterator[dict[str, Any]]:
        self.asked.append((repository, tag))
        for event in self.events:
            if isinstance(event, Exception):
                raise event
            yield event

    def close(self) -> None:
        self.closed = True

    def find(self, name: str) -> ImageInfo | None:
        return ImageInfo(name, "sha256:1", "linux/arm64", 1, "local") if name in self.names else None


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    fake = Engine()
    client = SimpleNamespace(api=SimpleNamespace(push=fake.push), close=fake.close)
    monkeypatch.setattr(module, "sdk", {module.QUIET_S: client}.get)
    monkeypatch.setattr(module, "find", fake.find)
    monkeypatch.setattr(module, "tag", lambda _, other, _talk: fake.names.add(other))
    monkeypatch.setattr(module, "untag", lambda name, _talk: fake.names.remove(name))
    return fake


def test_it_gives_what_was_pushed_by_its_digest(engine: Engine, ear: Ear) -> None:
    assert push(OURS, REGISTRY, ear) == f"{REMOTE}@sha256:ab"
    assert engine.asked == [(REMOTE.rpartition(":")[0], "1")]
    assert [line.rpartition(" ")[2] for line in ear.said] == ["5/10", "10/10", "10/10"]
    assert engine.names == {OURS} and engine.closed


def test_a_name_that_was_there_before_stays(engine: Engine, ear: Ear) -> None:
    engine.names.add(REMOTE)
    push(OURS, REGISTRY, ear)
    assert engine.names == {OURS, REMOTE}


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"error": "no basic auth credentials"}, "not logged in"),
        (requests.exceptions.ReadTimeout("Read timed out."), "breaks off"),
    ],
)
def test_a_push_that_fails_says_why_and_leaves_no_name(
    event: dict[str, Any] | Exception, why: str, engine: Engine, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "logged_in", lambda _: False)
    engine.events = [*SENT[:2], event]
    with pytest.raises(FetchFault) as caught:
        push(OURS, REGISTRY, ear)
    assert why in caught.value.why
    assert engine.names == {OURS} and engine.closed


def test_a_push_without_a_digest_did_not_succeed(engine: Engine, ear: Ear) -> None:
    engine.events = SENT[:-1]
    with pytest.raises(FetchFault, match="could not be pushed"):
        push(OURS, REGISTRY, ear)
