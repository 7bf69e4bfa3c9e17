"""An import puts nothing in place before all of the bundle was checked, and says what it did."""

import fcntl
import json
from pathlib import Path

import pytest

from appliance.bundle import receive as module
from appliance.bundle.check import open_bundle
from appliance.bundle.receive import receive
from appliance.catalog.stack import Paths
from appliance.core.errors import MachineFault, Mismatch
from tests.bundle.small import MODEL, REVISION, WEIGHTS, sha, small_bundle
from tests.images.conftest import Ear

ARM = "linux/arm64"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(**{name: tmp_path / name for name in ("models", "hub", "harmony", "state")})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small bundle; its image is loaded in name only."""
    small_bundle(tmp_path / "bundle")
    monkeypatch.setattr(module, "docker_root", lambda: None)
    monkeypatch.setattr(module, "expected", lambda *_: None)
    monkeypatch.setattr(module, "is_here", lambda *_: True)
    return tmp_path / "bundle"


def taken(folder: Path, paths: Paths, platform: str = ARM) -> module.Receipt:
    return receive(open_bundle(folder, "never"), platform, paths, 2, Ear())


def test_all_of_it_is_put_in_place_and_a_line_is_kept(folder: Path, paths: Paths) -> None:
    receipt = taken(folder, paths)
    snapshot = paths.hub / "models--org--model" / "snapshots" / REVISION
    assert (snapshot / "model.safetensors").read_bytes() == WEIGHTS
    assert (paths.models / "m" / "model.gguf").read_bytes() == MODEL
    (line,) = (paths.state / "imports.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert told["event"] == "import" and told["manifest"] == receipt.manifest and told["key"] is None
    assert told["images"] == ["spark-spec/x:1"] and told["models"] == ["org/model", "m/model.gguf"]
    taken(folder, paths)
    assert len((paths.state / "imports.jsonl").read_text().splitlines()) == 2


def test_the_bundle_itself_is_not_touched(folder: Path, paths: Paths) -> None:
    before = {one: one.stat().st_mtime_ns for one in folder.rglob("*")}
    taken(folder, paths)
    assert {one: one.stat().st_mtime_ns for one in folder.rglob("*")} == before


def test_a_bundle_that_is_not_whole_is_refused_before_anything_is_used(folder: Path, paths: Paths) -> None:
    (folder / "blobs" / "sha256" / sha(MODEL)).write_bytes(MODEL[::-1])
    with pytest.raises(Mismatch, match="is not whole"):
        taken(folder, paths)
    assert not paths.hub.exists() and not paths.models.exists()


def test_a_bundle_for_another_machine_is_refused(folder: Path, paths: Paths) -> None:
    with pytest.raises(MachineFault, match="another machine") as caught:
        taken(folder, paths, "linux/amd64")
    assert "linux/arm64" in caught.value.why and "linux/amd64" in caught.value.why


def test_one_import_at_a_time(folder: Path, paths: Paths) -> None:
    (paths.state / "bundles").mkdir(parents=True)
    with (paths.state / "bundles" / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(MachineFault, match="at work"):
            taken(folder, paths)


def test_a_disk_that_is_too_small_is_told_with_numbers(
    folder: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 3})
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(MachineFault, match="too small") as caught:
        taken(folder, paths)
    assert "models in" in caught.value.why and "GB are free" in caught.value.why
    assert not paths.models.exists()
