"""Files that people name are read only where that has an end; folders of a user who may have no home."""

import os
import pwd
import socket
from pathlib import Path

import pytest

from appliance.core.errors import ConfigFault
from appliance.core.paths import (
    LARGEST,
    default_config,
    default_models,
    default_state,
    expanded,
    named_file,
    read_small,
)
from appliance.core.secrets import default_secrets, environment


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, no XDG folders, and a user id that the machine does not know."""

    def unknown(_: int) -> None:
        raise KeyError

    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "socket"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            server.bind(str(path))
        with pytest.raises(ConfigFault, match="cannot read") as caught:
            read_small(path)
    assert kind in caught.value.why


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * LARGEST)
    assert read_small(path) == "x" * LARGEST
    path.write_bytes(b"x" * (LARGEST + 1))
    with pytest.raises(ConfigFault) as caught:
        read_small(path)
    assert "1 MiB" in caught.value.why


def test_what_is_not_there_reads_as_none_and_what_is_no_text_is_a_fault(tmp_path: Path) -> None:
    assert read_small(tmp_path / "none") is None
    (tmp_path / "x").write_bytes(b"\xff")
    for path in (tmp_path / "x", tmp_path / "x" / "below", tmp_path / ("n" * 300)):
        with pytest.raises(ConfigFault, match="cannot read"):
            read_small(path)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_there_are_no_defaults_and_nothing_breaks() -> None:
    assert [default_state(), default_models(), default_config(), default_secrets()] == [None] * 4
    assert "PATH" in environment()


@pytest.mark.usefixtures("homeless")
def test_without_a_home_the_base_folders_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    assert default_state() == Path("/srv/state/spark-spec")


def test_a_relative_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "here")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_state() is None


@pytest.mark.parametrize("text", ["~nosuchuser/x", "/a\x1bb", "/a\nb", "/a\udc80b", "/a\u0085b", "/a\ufffeb"])
def test_a_path_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        expanded(Path(text))
    with pytest.raises(ConfigFault, match="a preset file cannot be"):
        named_file(text, "a preset file")
