"""What docker saves is streamed: both layouts, and every way it can end early."""

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from docker.errors import APIError

from appliance.core.errors import MachineFault
from appliance.images import export as module
from appliance.images.export import SavedImage, members, read_manifest, saved
from appliance.images.local import ImageInfo

IMAGE = ImageInfo("a:1", "sha256:1", "linux/arm64", 5_000_000_000, "local")
OLD = {
    "l1/layer.tar": b"x" * 9000,
    "l2/layer.tar": "../l1/layer.tar",
    "c.json": b"{}",
    "manifest.json": b"[]",
}
NEW = {"blobs/sha256/aa": b"x" * 9000, "blobs/sha256/bb": b"{}", "index.json": b"{}", "manifest.json": b"[]"}

Play = Callable[..., list[str]]


def _tar(files: dict[str, Any]) -> bytes:
    """A tar of files, where the content is text of a symbolic link to it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """An engine that saves `raw`, in chunks of any size, or fails; gives back what was asked of it."""

    def make(raw: bytes, fault: Exception | None = None, free: int = 10**13) -> list[str]:
        asked: list[str] = []

        def chunks(reference: str) -> Iterator[bytes]:
            asked.append(reference)
            try:
                for start in range(0, len(raw), 777):
                    yield raw[start : start + 777]
                    yield b""
                if fault:
                    raise fault
            finally:
                asked.append("ended")

        api = SimpleNamespace(get_image=chunks)
        client = SimpleNamespace(
            api=api, info=lambda: {"DockerRootDir": "/"}, close=lambda: asked.append("closed")
        )
        monkeypatch.setattr(module, "find", {"a:1": IMAGE}.get)
        monkeypatch.setattr("appliance.machine.docker.endpoint", lambda: "unix:///var/run/docker.sock")
        monkeypatch.setattr(module, "sdk", lambda seconds: asked.append(f"{seconds} s") or client)
        monkeypatch.setattr(module.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
        return asked

    return make


@pytest.mark.parametrize("layout", [OLD, NEW], ids=["old", "new"])
def test_each_file_is_read_in_order(layout: dict[str, Any], play: Play) -> None:
    asked = play(_tar(layout))
    with saved("a:1") as files:
        found = {file.path: file.same_as or file.stream.read() for file in files}
    assert found == layout | ({"l2/layer.tar": "l1/layer.tar"} if layout is OLD else {})
    assert asked == ["370 s", "a:1", "ended", "closed"]  # two minutes, and time for docker's own copy


def test_what_is_not_read_is_passed_over_and_leaving_ends_it(play: Play) -> None:
    asked = play(_tar(NEW))
    with saved("a:1") as files:
        assert [file.size for file in files] == [9000, 2, 2, 2]
    with saved("a:1") as files:
        assert next(files).path == "blobs/sha256/aa"
    assert asked.count("ended") == asked.count("closed") == 2


@pytest.mark.parametrize("kept", [0, 100, 512, 5000, 9728, 9729, 10752, 11776])
def test_a_stream_that_ends_early_is_no_image(kept: int, play: Play) -> None:
    play(_tar(NEW)[:kept])
    with pytest.raises(MachineFault, match="could not be read out of docker"), saved("a:1") as files:
        assert [file.stream.read() for file in files]


def test_docker_s_words_in_the_midst_of_the_stream_are_no_end(play: Play) -> None:
    play(_tar(NEW)[:9728] + b'{"error":"layer is gone"}'.ljust(4096))
    with pytest.raises(MachineFault), saved("a:1") as files:
        list(files)


@pytest.mark.parametrize(
    "fault", [requests.exceptions.ReadTimeout("Read timed out."), requests.exceptions.ConnectionError("gone")]
)
def test_silence_and_a_lost_engine_have_an_end(fault: Exception, play: Play) -> None:
    asked = play(_tar(NEW)[:5000], fault)
    with pytest.raises(MachineFault) as caught, saved("a:1") as files:
        list(files)
    assert str(fault) in caught.value.why and asked[-1] == "closed"


def test_a_full_disk_is_told_with_numbers_before_and_after(play: Play) -> None:
    asked = play(b"", free=1_000_000_000)
    with pytest.raises(MachineFault, match="no room") as caught, saved("a:1"):
        pass
    assert "5.0 GB, and 1.0 GB are free" in caught.value.why and "a:1" not in asked
    play(b"", APIError("500", explanation="write /docker/tmp/x: no space left on device"), free=6_000_000_000)
    with pytest.raises(MachineFault, match="no room") as caught, saved("a:1") as files:
        list(files)
    assert "5.0 GB, and 6.0 GB are free" in caught.value.why


def test_an_image_that_is_not_here_is_said(play: Play) -> None:
    play(b"")
    with pytest.raises(MachineFault, match="b:1 is not here"), saved("b:1"):
        pass


def test_a_manifest_names_the_config_and_the_layers() -> None:
    raw = json.dumps([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["l1/layer.tar", "l2/layer.tar"]}])
    assert read_manifest(raw.encode()) == SavedImage("c.json", ("l1/layer.tar", "l2/layer.tar"))


@pytest.mark.parametrize(
    "raw", ["", "[]", "[{}]", "{}", "3", '[{"Config":"a","Layers":null}]', "[1]", "[{},{}]"]
)
def test_what_is_no_manifest_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_manifest(raw.encode())


def test_members_of_a_tar_are_not_kept() -> None:
    raw = _tar({f"file{number}": b"" for number in range(50)})
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r|") as archive:
        assert [member.name for member in members(archive)] == [f"file{number}" for number in range(50)]
        assert not archive.getmembers()
