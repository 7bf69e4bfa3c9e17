"""A bundle is written so that it is whole when it has a manifest; what is there or was sent is not written again."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from appliance.bundle import create as module
from appliance.bundle import keys
from appliance.bundle.check import open_bundle, problems
from appliance.bundle.create import MARK, Order, check_folder, create, items
from appliance.bundle.journal import Journal
from appliance.bundle.manifest import Bundle, HubBlob, HubModel, NamedFile, PresetSet
from appliance.bundle.wanted import Wanted
from appliance.core.errors import ConfigFault, MachineFault, Mismatch
from tests.bundle.small import REVISION, sha
from tests.images.conftest import Ear

WEIGHTS, GGUF = b"weights" * 1000, b"gguf" * 500


def wanted(folder: Path, weights: bytes = WEIGHTS) -> Wanted:
    """One model of the hub, and one of a file; no image: those are packed in tests/docker/test_bundle.py."""
    folder.mkdir(exist_ok=True)
    (folder / "weights").write_bytes(weights)
    (folder / "gguf").write_bytes(GGUF)
    digest = sha(weights)
    file = HubBlob(path="model.safetensors", sha256=digest, bytes=len(weights), cached=digest)
    return Wanted(
        presets=(PresetSet(name="demo", sets=()),),
        models=(HubModel(repo="a/b", revision=REVISION, origin="hub", files=(file,)),),
        files=(NamedFile(path="m/x.gguf", sha256=sha(GGUF), bytes=len(GGUF)),),
        vocabulary=(), images=(),
        sources={digest: folder / "weights", sha(GGUF): folder / "gguf"},
    )  # fmt: skip


def order(folder: Path, parent: Path | None = None, key: Path | None = None, part_bytes: int = 3000) -> Order:
    given = None
    if parent:
        raw = (parent / "bundle.json").read_bytes()
        given = (open_bundle(parent, "never").bundle, raw)
    return Order(folder, "linux/arm64", part_bytes, given, None, keys.private(key) if key else None)


def made(tmp_path: Path, name: str = "out", **kind: Path | None) -> Bundle:
    return create(wanted(tmp_path / "here"), order(tmp_path / name, **kind), tmp_path / "state", Ear())


def whole(folder: Path) -> bool:
    return problems(open_bundle(folder, "never"), 2, Journal(None), lambda *_: None) == ()


def test_what_is_written_is_whole_and_no_link_or_mark_is_in_it(tmp_path: Path) -> None:
    bundle = made(tmp_path)
    out = tmp_path / "out"
    assert whole(out) and not (out / MARK).exists()
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=out, check=True)
    assert len(bundle.parts[sha(WEIGHTS)]) == 3 and sha(GGUF) not in bundle.parts
    assert {one.path for one in bundle.plain} == {"install.py", "RUNBOOK.md"}
    assert not any(one.is_symlink() for one in out.rglob("*"))


def test_the_same_again_writes_no_content_and_gives_the_same_bytes(tmp_path: Path) -> None:
    made(tmp_path)
    blobs = {one: one.stat().st_ino for one in (tmp_path / "out" / "blobs").rglob("*")}
    before = (tmp_path / "out" / "bundle.json").read_bytes()
    made(tmp_path)
    assert {one: one.stat().st_ino for one in (tmp_path / "out" / "blobs").rglob("*")} == blobs
    assert (tmp_path / "out" / "bundle.json").read_bytes() == before
    made(tmp_path, "other")
    assert (tmp_path / "other" / "bundle.json").read_bytes() == before


def test_a_run_that_was_ended_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = module._chunks, list[str]()

    def ends(file: Path) -> object:
        seen.append(file.name)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(file)

    monkeypatch.setattr(module, "_chunks", ends)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path)
    assert not (tmp_path / "out" / "bundle.json").exists()
    monkeypatch.setattr(module, "_chunks", lambda file: seen.append(file.name) or real(file))
    made(tmp_path)
    assert whole(tmp_path / "out") and len(seen) == 3 and seen[1] == seen[2]


def test_only_what_the_other_side_lacks_is_written(tmp_path: Path) -> None:
    made(tmp_path, "first")
    newer = wanted(tmp_path / "here", WEIGHTS + b"more")
    bundle = create(newer, order(tmp_path / "second", tmp_path / "first"), tmp_path / "state", Ear())
    assert bundle.carried == (sha(WEIGHTS + b"more"),)
    assert bundle.parent == hashlib.sha256((tmp_path / "first" / "bundle.json").read_bytes()).hexdigest()
    assert whole(tmp_path / "second")
    told = {one.name: one.new for one in items(newer, order(tmp_path / "third", tmp_path / "first"))}
    assert told == {"a/b": True, "m/x.gguf": False}


def test_an_older_bundle_in_the_folder_makes_room(tmp_path: Path) -> None:
    made(tmp_path)
    create(wanted(tmp_path / "here", b"other"), order(tmp_path / "out"), tmp_path / "state", Ear())
    names = {one.name for one in (tmp_path / "out" / "blobs" / "sha256").iterdir()}
    assert names == {sha(b"other"), sha(GGUF)} and whole(tmp_path / "out")


def test_it_is_signed_where_a_key_is_given_and_only_then(tmp_path: Path) -> None:
    keys.keygen(tmp_path / "key")
    public = keys.public(tmp_path / "key.pub")
    made(tmp_path, key=tmp_path / "key")
    assert open_bundle(tmp_path / "out", "required", public).key == keys.key_id(public)
    made(tmp_path)
    with pytest.raises(Mismatch, match="is not signed"):
        open_bundle(tmp_path / "out", "required", public)


def test_a_folder_of_others_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigFault, match="is not empty") as caught:
        made(tmp_path)
    assert "thesis.txt" in caught.value.why and [one.name for one in (tmp_path / "out").iterdir()] == [
        "thesis.txt"
    ]
    with pytest.raises(ConfigFault, match="is no folder"):
        check_folder(tmp_path / "out" / "thesis.txt")


def test_a_medium_that_is_too_small_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "room", lambda _: 1000)
    with pytest.raises(MachineFault, match="does not fit") as caught:
        made(tmp_path)
    assert "--parent" in caught.value.fix and not (tmp_path / "out").exists()


def test_a_model_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    changing = wanted(tmp_path / "here")
    (tmp_path / "here" / "weights").write_bytes(WEIGHTS[::-1])
    with pytest.raises(Mismatch, match="changed while it was read"):
        create(changing, order(tmp_path / "out"), tmp_path / "state", Ear())
    assert not (tmp_path / "out" / "bundle.json").exists()
