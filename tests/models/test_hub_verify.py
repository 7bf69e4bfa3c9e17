"""A hub's model hashed anew: what is bad is named, and repaired alone."""

import shutil
from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, Mismatch
from appliance.models.bring import bring, is_here, repair, verify
from appliance.models.hub_files import digest_of
from appliance.models.place import hub_folder
from tests.fakes import hub_cache
from tests.fakes.hub_server import REVISION, Hub, git_sha1, sha256
from tests.models.conftest import FILES, REPO, SHARDS, Told, check_whole, hub_entry, paths_in

FIRST, SECOND = SHARDS
ENTRY = hub_entry()


def blob_of(folder: Path, name: str) -> Path:
    return (paths_in(folder).hub / hub_folder(REPO) / "snapshots" / REVISION / name).resolve()


@pytest.fixture
def pulled(hub: Hub, tmp_path: Path) -> Hub:
    bring([ENTRY], paths_in(tmp_path), print)
    hub.asked.clear()
    return hub


def damage(path: Path) -> None:
    """As a bad disk does: neither size nor mtime tells."""
    import os

    seen = path.stat()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def test_a_hash_is_what_git_and_the_hub_say(tmp_path: Path) -> None:
    for content in (b"", b"x", b"y" * 3_000_000):
        file = tmp_path / "file"
        file.write_bytes(content)
        moved: list[int] = []
        assert digest_of(file, "sha256", moved.append) == sha256(content)
        assert digest_of(file, "git-sha1") == git_sha1(content)
        assert sum(moved) == len(content)


def test_a_whole_model_is_good_and_nothing_is_fetched(pulled: Hub, tmp_path: Path, told: Told) -> None:
    verify(ENTRY, paths_in(tmp_path), told.progress)
    assert pulled.contents() == []
    size = sum(map(len, FILES.values()))
    assert told.steps[-1] == (f"checking {REPO}", size, size)


@pytest.mark.parametrize("names", [(FIRST,), ("config.json",), (FIRST, SECOND)])
@pytest.mark.parametrize("where", ["hub", "record", "names of blobs"])
def test_each_bad_file_is_named_by_the_hub_or_without_it(
    names: tuple[str, ...], where: str, pulled: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = paths_in(tmp_path)
    for name in names:
        damage(blob_of(tmp_path, name))
    assert is_here(ENTRY, paths)  # a look does not see it
    if where != "hub":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    if where == "names of blobs":
        shutil.rmtree(paths.hub / hub_folder(REPO) / ".spark-spec")
    with pytest.raises(Mismatch) as caught:
        verify(ENTRY, paths)
    assert caught.value.code == 9 and "--repair" in caught.value.fix
    assert [name for name in FILES if f"{name} is damaged" in caught.value.what] == sorted(names)
    assert pulled.contents() == []
    if where != "names of blobs":
        assert not is_here(ENTRY, paths)  # and so the next `up` gets it anew


def test_absent_files_are_named(pulled: Hub, tmp_path: Path) -> None:
    del pulled
    blob_of(tmp_path, SECOND).unlink()
    with pytest.raises(Mismatch, match=SECOND):
        verify(ENTRY, paths_in(tmp_path))


def test_repair_gets_the_bad_file_alone(pulled: Hub, tmp_path: Path, told: Told) -> None:
    damage(blob_of(tmp_path, SECOND))
    repair(ENTRY, paths_in(tmp_path), told.say, told.progress)
    check_whole(paths_in(tmp_path).hub)
    assert pulled.contents() == [SECOND]
    assert f"{SECOND} is damaged" in told.text and "kept 3 whole files" in told.text


@pytest.mark.usefixtures("hub")
def test_a_model_that_was_never_fetched_is_named(tmp_path: Path) -> None:
    with pytest.raises(Mismatch, match="is not there"):
        verify(ENTRY, paths_in(tmp_path))


def test_files_that_nothing_is_known_of_are_not_called_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain files in a snapshot, without record or hub: there is nothing to compare with."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paths = paths_in(tmp_path)
    snapshot = hub_cache.make(paths.hub, REPO, config={})
    for link in list(snapshot.iterdir()):
        content = link.read_bytes()
        link.unlink()
        link.write_bytes(content)
    assert is_here(ENTRY, paths)
    with pytest.raises(FetchFault, match="nothing says what"):
        verify(ENTRY, paths)
