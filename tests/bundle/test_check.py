"""Whatever is changed in a bundle is found before anything of it is used, and named."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.bundle import keys
from appliance.bundle.check import Policy, Problem, open_bundle, problems, refused
from appliance.bundle.journal import Journal, journal
from appliance.bundle.layout import MANIFEST, SIGNATURE, SUMS
from appliance.core.errors import ConfigFault, FetchFault, Mismatch, SparkSpecError
from tests.bundle.small import MODEL, WEIGHTS, sha, small_bundle

BLOB = f"blobs/sha256/{sha(MODEL)}"
PART = f"blobs/sha256/{sha(WEIGHTS)}.001"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_bundle(tmp_path / "bundle")
    return tmp_path / "bundle"


def found(folder: Path, seen: Journal | None = None) -> tuple[Problem, ...]:
    return problems(open_bundle(folder, "never"), 2, seen or Journal(None), lambda *_: None)


def test_a_whole_bundle_has_no_problem_and_sha256sum_agrees(folder: Path) -> None:
    assert found(folder) == ()
    subprocess.run(["sha256sum", "--quiet", "--check", SUMS], cwd=folder, check=True)


Change = Callable[[Path], object]


@pytest.mark.parametrize(
    ("path", "change", "what"),
    [
        (BLOB, Path.unlink, "missing"),
        (BLOB, lambda file: file.write_bytes(b""), "short"),
        (PART, lambda file: file.write_bytes(file.read_bytes() + b"x"), "long"),
        (PART, lambda file: file.write_bytes(file.read_bytes()[::-1]), "changed"),
        ("RUNBOOK.md", lambda file: file.write_bytes(b"x" * file.stat().st_size), "changed"),
        (SUMS, lambda file: file.write_text("nothing\n"), "changed"),
        (SUMS, Path.unlink, "missing"),
        ("x", lambda file: file.write_text("?"), "extra"),
        ("blobs/y", lambda file: file.write_text("?"), "extra"),
        ("blobs/more", Path.mkdir, "extra"),
        ("dangling", lambda file: file.symlink_to("/etc/passwd"), "extra"),
        ("pipe", os.mkfifo, "extra"),
        (SIGNATURE, Path.mkdir, "no plain file"),
    ],
)
def test_each_change_is_named(path: str, change: Change, what: str, folder: Path) -> None:
    change(folder / path)
    (problem,) = found(folder)
    assert problem.path == path and problem.what.startswith(what)


@pytest.mark.parametrize("how", ["symbolic", "hard", "pipe"])
def test_a_file_that_stands_elsewhere_is_refused(how: str, folder: Path, tmp_path: Path) -> None:
    """Its content could be changed behind our back, or is somebody's secret."""
    (folder / BLOB).rename(tmp_path / "elsewhere")
    if how == "pipe":
        os.mkfifo(folder / BLOB)
    elif how == "hard":
        (folder / BLOB).hardlink_to(tmp_path / "elsewhere")
    else:
        (folder / BLOB).symlink_to(tmp_path / "elsewhere")
    assert found(folder) == (Problem(BLOB, "no plain file"),)


def test_all_problems_are_named_not_the_first(folder: Path) -> None:
    (folder / BLOB).unlink()
    (folder / PART).write_bytes(b"short")
    (folder / "extra").touch()
    listed = found(folder)
    assert {one.path for one in listed} == {BLOB, PART, "extra"}
    fault = refused(open_bundle(folder, "never"), listed)
    assert fault.code == 9 and all(one.path in fault.why for one in listed) and "another copy" in fault.fix


def test_what_a_medium_has_by_itself_is_no_problem(folder: Path) -> None:
    (folder / "lost+found").mkdir()
    (folder / "System Volume Information").mkdir()
    assert found(folder) == ()


def mutated(folder: Path, data: st.DataObject) -> None:
    """One change of any kind to any file."""
    names = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
    file = folder / data.draw(st.sampled_from(names))
    raw = file.read_bytes()
    kind = data.draw(st.sampled_from(["flip", "cut", "append", "remove", "rename", "add", "swap"]))
    if kind == "flip":
        place = data.draw(st.integers(0, len(raw) - 1))
        bit = 1 << data.draw(st.integers(0, 7))
        file.write_bytes(raw[:place] + bytes([raw[place] ^ bit]) + raw[place + 1 :])
    elif kind == "cut":
        file.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    elif kind == "append":
        file.write_bytes(raw + data.draw(st.binary(min_size=1, max_size=4)))
    elif kind == "remove":
        file.unlink()
    elif kind == "rename":
        file.rename(file.with_name(file.name + "x"))
    elif kind == "add":
        file.with_name(file.name[::-1]).write_bytes(raw)
    else:
        other = folder / data.draw(st.sampled_from([name for name in names if folder / name != file]))
        content = other.read_bytes()
        file.write_bytes(content)
        other.write_bytes(raw)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed bundle, and its key beside it."""
    place = tmp_path_factory.mktemp("signed")
    small_bundle(place / "bundle")
    keys.keygen(place / "key")
    text = keys.sign(keys.private(place / "key"), (place / "bundle" / MANIFEST).read_bytes())
    (place / "bundle" / SIGNATURE).write_text(text)
    return place


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_a_signed_bundle_goes_unnoticed(
    data: st.DataObject, signed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(signed / "bundle", copy)
    mutated(copy, data)
    try:
        opened = open_bundle(copy, "required", keys.public(signed / "key.pub"))
    except SparkSpecError as fault:
        assert fault.code in (3, 5, 9)
        return
    assert problems(opened, 2, Journal(None), lambda *_: None)


@pytest.mark.parametrize(
    ("policy", "given", "signature", "outcome"),
    [
        ("required", None, None, "is not signed"),
        ("required", None, "trusted", None),
        ("required", None, "unknown", "not trusted"),
        ("if-present", None, None, None),
        ("if-present", None, "unknown", "not trusted"),
        ("if-present", None, "broken", "cannot be read"),
        ("if-present", "trusted", None, "is not signed"),
        ("if-present", "trusted", "unknown", "not trusted"),
        ("if-present", "unknown", "trusted", "not trusted"),
        ("if-present", "unknown", "unknown", None),
        ("never", None, "broken", None),
    ],
)
def test_signatures(
    policy: Policy,
    given: str | None,
    signature: str | None,
    outcome: str | None,
    folder: Path,
    tmp_path: Path,
) -> None:
    for name in ("trusted", "unknown"):
        keys.keygen(tmp_path / name)
    keys.trust(tmp_path / "trusted.pub")
    if signature == "broken":
        (folder / SIGNATURE).write_text("?")
    elif signature:
        text = keys.sign(keys.private(tmp_path / signature), (folder / MANIFEST).read_bytes())
        (folder / SIGNATURE).write_text(text)
    key = keys.public(tmp_path / f"{given}.pub") if given else None
    if outcome is None:
        told = open_bundle(folder, policy, key).key
        assert (told is None) == (signature is None or policy == "never")
    else:
        with pytest.raises(Mismatch, match=outcome):
            open_bundle(folder, policy, key)


def test_what_is_no_bundle_is_told(tmp_path: Path) -> None:
    with pytest.raises(FetchFault, match="is no bundle"):
        open_bundle(tmp_path, "never")
    (tmp_path / MANIFEST).write_text("[]")
    with pytest.raises(Mismatch):
        open_bundle(tmp_path, "never")
    (tmp_path / MANIFEST).write_text('{"schema_version": 2}')
    with pytest.raises(ConfigFault, match="of a newer kind"):
        open_bundle(tmp_path, "never")
    (tmp_path / MANIFEST).unlink()
    (tmp_path / MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(Mismatch):
        open_bundle(tmp_path, "never")


def test_what_was_hashed_is_not_read_again_unless_it_changed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, opened = tmp_path / "state", open_bundle(folder, "never")
    assert found(folder, journal(state, opened.digest)) == ()
    read: list[str] = []
    from appliance.bundle import check

    real = check.hash_plain
    monkeypatch.setattr(check, "hash_plain", lambda file, *rest: read.append(file.name) or real(file, *rest))
    assert found(folder, journal(state, opened.digest)) == () and read == []
    content = (folder / BLOB).read_bytes()
    (folder / BLOB).write_bytes(content[::-1])
    (problem,) = found(folder, journal(state, opened.digest))
    assert problem.path == BLOB and len(read) == 1
    (state / "bundles" / f"{opened.digest}.json").write_text("{")
    assert len(found(folder, journal(state, opened.digest))) == 1
