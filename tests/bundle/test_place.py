"""Models and vocabulary out of a bundle: as if they had been fetched, whole or not at all, and nothing twice."""

from pathlib import Path

import pytest

from appliance.bundle.manifest import Bundle
from appliance.bundle.place import place_file, place_model, place_vocabulary
from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault, Mismatch
from appliance.models import record
from appliance.models.hub import check_snapshot, main_revision
from appliance.models.hub_files import read_record
from appliance.models.hub_verify import verify
from tests.bundle.small import MODEL, REVISION, WEIGHTS, sha, small_bundle

SOURCE = HubSource(kind="hub", repo="org/model", revision=None, files=("*",), bytes=None)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return small_bundle(tmp_path / "bundle")


def place(bundle: Bundle, tmp_path: Path) -> list[int]:
    """Put the bundle's model of the hub in place. Returns the bytes that were read of the bundle."""
    read: list[int] = []
    place_model(tmp_path / "bundle", bundle, bundle.models[0], tmp_path / "hub", print, read.append)
    return read


def test_a_model_of_the_hub_lies_as_its_library_lays_it(bundle: Bundle, tmp_path: Path) -> None:
    assert sum(place(bundle, tmp_path)) == len(WEIGHTS)
    folder = tmp_path / "hub" / "models--org--model"
    link = folder / "snapshots" / REVISION / "model.safetensors"
    assert link.is_symlink() and str(link.readlink()) == f"../../blobs/{sha(WEIGHTS)}"
    assert link.read_bytes() == WEIGHTS and link.stat().st_mode & 0o777 == 0o644
    assert main_revision(SOURCE, tmp_path / "hub") == REVISION
    verify(SOURCE, tmp_path / "hub", lambda *_: None)
    known = read_record(folder, REVISION)
    assert known and known.origin == "hub" and known.files[0].digest == sha(WEIGHTS)


def test_what_is_in_place_is_not_written_again(bundle: Bundle, tmp_path: Path) -> None:
    place(bundle, tmp_path)
    blob = tmp_path / "hub" / "models--org--model" / "blobs" / sha(WEIGHTS)
    before = blob.stat()
    assert place(bundle, tmp_path) == []
    assert blob.stat().st_ino == before.st_ino
    blob.write_bytes(WEIGHTS[::-1])
    assert sum(place(bundle, tmp_path)) == len(WEIGHTS)
    assert blob.read_bytes() == WEIGHTS


def test_a_single_file_gets_its_record(bundle: Bundle, tmp_path: Path) -> None:
    target = tmp_path / "models" / bundle.files[0].path
    for _ in range(2):
        place_file(tmp_path / "bundle", bundle, bundle.files[0], target, lambda _: None)
    known = record.read(target)
    assert target.read_bytes() == MODEL and known and known.sha256 == sha(MODEL)


def test_a_file_that_is_there_without_a_record_is_hashed_not_copied(bundle: Bundle, tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(MODEL)
    read: list[int] = []
    place_file(tmp_path / "bundle", bundle, bundle.files[0], target, read.append)
    assert read == [] and record.read(target)


def test_a_content_that_changed_since_the_check_is_not_put_in_place(bundle: Bundle, tmp_path: Path) -> None:
    part = next((tmp_path / "bundle" / "blobs" / "sha256").glob(f"{sha(WEIGHTS)}.001"))
    part.write_bytes(part.read_bytes()[::-1])
    with pytest.raises(Mismatch, match="changed after it was checked"):
        place(bundle, tmp_path)
    folder = tmp_path / "hub" / "models--org--model"
    assert list((folder / "blobs").iterdir()) == []
    with pytest.raises(FetchFault):
        check_snapshot(SOURCE, tmp_path / "hub")


def test_what_the_bundle_before_should_have_brought_is_named(bundle: Bundle, tmp_path: Path) -> None:
    later = bundle.model_copy(update={"carried": (), "parent": "ab" * 32})
    with pytest.raises(FetchFault, match="does not bring it") as caught:
        place(later, tmp_path)
    assert "ab" * 32 in caught.value.why
    place(bundle, tmp_path)
    assert place(later, tmp_path) == []


def test_the_vocabulary_has_no_record(bundle: Bundle, tmp_path: Path) -> None:
    target = tmp_path / "harmony" / "o200k_base.tiktoken"
    place_vocabulary(tmp_path / "bundle", bundle, bundle.files[0], target, lambda _: None)
    assert [one.name for one in target.parent.iterdir()] == [target.name]
