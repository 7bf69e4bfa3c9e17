"""Reading what is locked: the registry first, then what is here; a container that answers or is gone."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from appliance.core.errors import FetchFault, MachineFault
from appliance.images import lock as module
from appliance.images.lock import read_base, read_engine
from appliance.images.options_inside import MARK
from tests.images.conftest import Docker, Ear

NAME = "own.example/engine:1"
DIGEST = "sha256:" + "ab" * 32


def registry(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | Exception) -> None:
    def inspect_distribution(_: str) -> dict[str, Any]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = SimpleNamespace(
        api=SimpleNamespace(inspect_distribution=inspect_distribution), close=lambda: None
    )
    monkeypatch.setattr(module, "sdk", lambda _: client)


def test_the_registry_tells_the_digest_and_its_platforms(monkeypatch: pytest.MonkeyPatch, ear: Ear) -> None:
    platforms = [{"os": "linux", "architecture": one} for one in ("arm64", "amd64")]
    attestation = {"os": "unknown", "architecture": "unknown"}
    registry(monkeypatch, {"Descriptor": {"digest": DIGEST}, "Platforms": [*platforms, attestation]})
    base = read_base(NAME, "linux/arm64", ear)
    assert (base.digest, base.platforms) == (DIGEST, ("linux/amd64", "linux/arm64"))


def test_without_a_registry_the_image_that_is_here_tells_how_it_was_pulled(
    monkeypatch: pytest.MonkeyPatch, docker: Docker, ear: Ear
) -> None:
    registry(monkeypatch, APIError("no such host"))
    docker(f'echo \'["other.example/engine@sha256:00", "own.example/engine@{DIGEST}"]\'')
    base = read_base(NAME, "linux/arm64", ear)
    assert (base.digest, base.platforms) == (DIGEST, ("linux/arm64",))


@pytest.mark.parametrize("answer", ["echo '[]'", "echo 'Error: No such image' >&2; exit 1"])
def test_where_neither_tells_the_registrys_fault_stands(
    answer: str, monkeypatch: pytest.MonkeyPatch, docker: Docker, ear: Ear
) -> None:
    registry(monkeypatch, APIError("connect: connection refused"))
    docker(answer)
    with pytest.raises(FetchFault, match="could not be looked up"):
        read_base(NAME, "linux/arm64", ear)


def test_an_engine_is_asked_in_a_container_that_can_do_nothing_else(docker: Docker, ear: Ear) -> None:
    said = MARK + json.dumps({"version": "1.3.0rc12", "options": {"type": "object"}})
    folder = docker(f"echo \"$@\" >> calls; [ \"$1\" = run ] && echo 'a banner' && echo '{said}'; exit 0")
    read = read_engine("trtllm", NAME, "cdi", ear)
    assert (read.version, read.image, read.options) == ("1.3.0rc12", NAME, {"type": "object"})
    calls = (folder / "calls").read_text()
    for words in ("--network none", "--read-only", "--device nvidia.com/gpu=all", "--entrypoint python3"):
        assert words in calls
    assert "rm --force spark-spec-options-" in calls


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("echo 'ImportError: libcuda.so.1' >&2; exit 1", "libcuda.so.1"),
        ("echo 'hello'", "hello"),
        (f"echo '{MARK}{{}}'", MARK.strip()),
    ],
)
def test_an_image_that_does_not_tell_is_a_fault_and_its_container_is_gone(
    answer: str, why: str, docker: Docker, ear: Ear
) -> None:
    folder = docker(f'echo "$@" >> calls; [ "$1" = rm ] && exit; {answer}')
    with pytest.raises(MachineFault) as caught:
        read_engine("vllm", NAME, "none", ear)
    assert why in caught.value.why
    assert "rm --force spark-spec-options-" in (folder / "calls").read_text()
