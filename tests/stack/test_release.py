"""Releases: staged, published by rename, numbered, remembered; one lock a stack."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.core.errors import ConfigFault, MachineFault
from appliance.stack.release import Release, StackFolder, State, stack_names
from appliance.stack.render import Rendered


def rendered(text: str = "one") -> Rendered:
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()
    manifest = {"schema": 2, "digest": digest, "runtime": "process", "files": {"engine/a.json": digest},
                "stack": {"serve": {"port": 8000}}}  # fmt: skip
    return Rendered("demo", digest, None, {"engine/a.json": text, "manifest.json": json.dumps(manifest)})


def publish(folder: StackFolder, what: Rendered) -> Release:
    with folder.lock():
        known = folder.published(what.digest)
        if known:
            return known
        with folder.stage(what) as staged:
            return folder.publish(staged)


def test_releases_are_numbered_in_the_order_they_are_published(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    assert [publish(folder, rendered(text)).number for text in ("one", "two", "three")] == [1, 2, 3]
    assert (tmp_path / "stacks/demo/releases/0002/engine/a.json").read_text() == "two"


def test_the_same_content_is_the_same_release(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    publish(folder, rendered("one"))
    publish(folder, rendered("two"))
    assert publish(folder, rendered("one")).number == 1
    assert [release.number for release in folder.releases()] == [1, 2]


def test_a_release_that_someone_edited_is_not_used_again(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    publish(folder, rendered("one"))
    (tmp_path / "stacks/demo/releases/0001/engine/a.json").write_text("edited")
    assert publish(folder, rendered("one")).number == 2


def test_what_is_staged_but_not_published_goes_and_so_does_what_a_killed_run_left(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    stale = tmp_path / "stacks/demo/releases/.staged-1"
    stale.mkdir(parents=True)
    with folder.lock(), pytest.raises(KeyboardInterrupt), folder.stage(rendered()) as staged:
        assert not stale.exists()
        assert (staged / "engine/a.json").exists()
        raise KeyboardInterrupt
    assert list((tmp_path / "stacks/demo/releases").iterdir()) == []


def test_files_can_be_read_by_the_container_s_user_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        release = publish(StackFolder(tmp_path, "demo"), rendered())
    finally:
        os.umask(old)
    assert (release.folder / "engine").stat().st_mode & 0o777 == 0o755
    assert (release.folder / "engine/a.json").stat().st_mode & 0o777 == 0o644


def test_what_is_current_and_what_was_good_is_remembered(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    with folder.lock():
        assert not folder.exists()
    release = publish(folder, rendered())
    with folder.lock():
        folder.remember_current(release)
        for number in (1, 2, 1):
            folder.remember_good(number)
    assert folder.state() == State(current=1, runtime="process", good=(2, 1))
    with folder.lock():
        folder.remember_current(None)
    assert folder.state() == State(good=(2, 1))
    assert stack_names(tmp_path) == ["demo"]


def test_a_second_command_is_refused_at_once_and_told_who_holds_the_lock(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    with folder.lock(), pytest.raises(MachineFault) as caught, StackFolder(tmp_path, "demo").lock():
        pass
    assert str(os.getpid()) in caught.value.why
    with folder.lock():
        pass


def test_a_killed_command_leaves_no_lock(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from appliance.stack.release import StackFolder\n"
        "with StackFolder(Path(sys.argv[1]), 'demo').lock(): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    with StackFolder(tmp_path, "demo").lock():
        pass


def test_the_lock_is_the_stack_s_own(tmp_path: Path) -> None:
    with StackFolder(tmp_path, "demo").lock(), StackFolder(tmp_path, "other").lock():
        pass


@pytest.mark.parametrize(
    "text", ['{"schema": 99}', "", "[]", "null", '{"schema": 1}', '{"schema": 1, "current": 1']
)
def test_a_state_file_that_is_damaged_or_of_another_version_is_named(tmp_path: Path, text: str) -> None:
    folder = StackFolder(tmp_path, "demo")
    release = publish(folder, rendered())
    with folder.lock():
        folder.remember_current(release)
    (folder.folder / "state.json").write_text(text)
    with pytest.raises(ConfigFault, match="cannot be used"):
        folder.state()
    with folder.lock():
        folder.remember_current(None)
    assert folder.state() == State(), "it is written anew when the stack is taken down"


@pytest.mark.parametrize("text", ['{"schema": 99}', "", "[]", "null", "{}"])
def test_a_manifest_that_is_damaged_or_of_another_version_is_named(tmp_path: Path, text: str) -> None:
    folder = StackFolder(tmp_path, "demo")
    release = publish(folder, rendered())
    (release.folder / "manifest.json").write_text(text)
    with pytest.raises(ConfigFault, match="release 1 of demo cannot be read"):
        folder.release(1)


def test_a_state_folder_that_cannot_be_written_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "stacks").write_text("a file where a folder must be")
    with (
        pytest.raises(MachineFault, match="cannot write the state folder"),
        StackFolder(tmp_path, "demo").lock(),
    ):
        pass


def test_the_audit_log_gets_one_line_an_event(tmp_path: Path) -> None:
    folder = StackFolder(tmp_path, "demo")
    with folder.lock():
        folder.audit("up", release=1)
        folder.audit("down")
    events = [json.loads(line) for line in (folder.folder / "audit.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["up", "down"]
    assert events[0]["release"] == 1
