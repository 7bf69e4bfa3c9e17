"""What an engine needs is laid out and checked before it starts: one revision of each model, files by their hash."""

import hashlib
from pathlib import Path

import pytest

from appliance.supervise.needs import check, lay_out
from appliance.supervise.plan import File, Snapshot
from tests.fakes import hub_cache
from tests.fakes.hub_cache import REVISION

REPO = "openai/gpt-oss-120b"
OTHER = "f" * 40


def cached(folder: Path, revision: str = REVISION) -> Path:
    """Its folder in a cache, with one more revision in it; refs/main names the last."""
    hub_cache.make(folder, REPO, config={"of": revision}, revision=revision)
    return folder / "models--openai--gpt-oss-120b"


def resolved(state: Path, name: str) -> bytes:
    """What a library finds that looks a repository's file up in a cache: by refs/main, then by the snapshot."""
    own = state / "hub" / "models--openai--gpt-oss-120b"
    return (own / "snapshots" / (own / "refs" / "main").read_text() / name).read_bytes()


def test_the_pinned_revision_is_what_name_and_path_mean_although_the_cache_says_another(
    tmp_path: Path,
) -> None:
    folder = cached(tmp_path / "hub")
    pinned = (folder / "snapshots" / REVISION / "config.json").read_bytes()
    cached(tmp_path / "hub", OTHER)
    assert (folder / "refs" / "main").read_text() == OTHER
    state = tmp_path / "state"
    lay_out([Snapshot(REPO, str(folder), REVISION)], state)
    assert resolved(state, "config.json") == (state / "models" / REPO / "config.json").read_bytes() == pinned
    assert resolved(state, "model.safetensors")
    assert (folder / "refs" / "main").read_text() == OTHER  # the cache itself is left as it is


def test_without_a_revision_it_is_the_one_the_cache_names(tmp_path: Path) -> None:
    folder = cached(tmp_path / "hub")
    cached(tmp_path / "hub", OTHER)
    lay_out([Snapshot(REPO, str(folder), None)], tmp_path / "state")
    assert (tmp_path / "state" / "models" / REPO).resolve().name == OTHER


def test_a_read_only_cache_is_enough(tmp_path: Path) -> None:
    folder = cached(tmp_path / "hub")
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    lay_out([Snapshot(REPO, str(folder), REVISION)], tmp_path / "state")
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before


def test_every_start_may_lay_it_out_anew_and_a_new_revision_takes_the_place_of_the_old(
    tmp_path: Path,
) -> None:
    folder, state = cached(tmp_path / "hub"), tmp_path / "state"

    def seen() -> dict[str, str]:
        files = (path for path in state.rglob("*") if path.is_symlink() or path.is_file())
        return {str(path): str(path.readlink()) if path.is_symlink() else path.read_text() for path in files}

    lay_out([Snapshot(REPO, str(folder), REVISION)], state)
    first = seen()
    lay_out([Snapshot(REPO, str(folder), REVISION)], state)
    assert seen() == first and len(first) == 4
    cached(tmp_path / "hub", OTHER)
    (state / "models" / "openai" / ".gpt-oss-120b.new").symlink_to("/nowhere")  # of a start that was killed
    lay_out([Snapshot(REPO, str(folder), OTHER)], state)
    assert b"ffff" in resolved(state, "config.json")
    assert seen().keys() == first.keys()


@pytest.mark.parametrize("main", [None, "", "\n", "main", "../../../etc", "ABCD" * 10])
def test_a_cache_without_a_whole_download_is_an_error(tmp_path: Path, main: str | None) -> None:
    folder = cached(tmp_path / "hub")
    (folder / "refs" / "main").unlink() if main is None else (folder / "refs" / "main").write_text(main)
    with pytest.raises(FileNotFoundError, match=f"{folder} has no refs/main"):
        lay_out([Snapshot(REPO, str(folder), None)], tmp_path / "state")


def test_a_revision_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    folder = cached(tmp_path / "hub")
    with pytest.raises(FileNotFoundError, match=f"{folder} has no snapshot {OTHER}"):
        lay_out([Snapshot(REPO, str(folder), OTHER)], tmp_path / "state")
    with pytest.raises(FileNotFoundError):
        lay_out([Snapshot(REPO, str(tmp_path / "nowhere"), None)], tmp_path / "state")


def test_a_file_is_known_by_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "o200k_base.tiktoken"
    path.write_bytes(b"IQ== 0\n")
    right = File(str(path), hashlib.sha256(b"IQ== 0\n").hexdigest(), "a vocabulary")
    check([right])
    with pytest.raises(ValueError, match=f"{path} is not a vocabulary: its sha256 is {right.sha256}, not 0"):
        check([right, File(str(path), "0" * 64, "a vocabulary")])
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"{path} is not there: a vocabulary"):
        check([right])
    path.mkdir()
    with pytest.raises(OSError, match=r"tiktoken"):
        check([right])
