"""What a start needs is looked for before anything is stopped."""

from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, MachineFault
from appliance.lifecycle import prepare
from appliance.lifecycle.prepare import check_here
from appliance.machine.facts import this_machine
from appliance.models.place import place
from appliance.stack.release import Release, StackFolder
from appliance.stack.render import render, stack_models
from appliance.stack.resolve import resolve
from tests.docker.walks import REVISION, config_of
from tests.fakes import hub_cache


def release(tmp_path: Path, preset: str) -> Release:
    stack = resolve(preset, [], {}).stack
    folders = {name: str(tmp_path / name) for name in ("models", "hub", "harmony")}
    repos = [entry.source.repo for entry in stack_models(stack)]
    machine = this_machine("docker", folders, tmp_path, "none", dict.fromkeys(repos, REVISION))
    folder = StackFolder(tmp_path, "x")
    with folder.lock(), folder.stage(render(stack, machine, "x")) as staged:
        return folder.publish(staged)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A release of draft-target whose models are here; its image is whatever docker says."""
    monkeypatch.setattr(prepare, "find", lambda _: None)
    one = release(tmp_path, "draft-target")
    for entry in stack_models(one.stack()):
        hub_cache.make(tmp_path / "hub", entry.name, config=config_of(entry.name), revision=REVISION)
    return one


def test_an_image_that_is_gone_is_named(made: Release) -> None:
    with pytest.raises(MachineFault, match=r"the image .* is not here any more") as caught:
        check_here(made)
    assert caught.value.fix == "spark-spec up draft-target gets it"


def test_a_snapshot_that_is_gone_is_named(made: Release, tmp_path: Path) -> None:
    entry = stack_models(made.stack())[1]
    (tmp_path / "hub" / place(entry) / "snapshots" / REVISION).rename(tmp_path / "elsewhere")
    with pytest.raises(MachineFault, match=f"the model {entry.id} is not here any more"):
        check_here(made)


def test_a_vocabulary_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(FetchFault, match="harmony vocabulary"):
        check_here(release(tmp_path, "eagle3"))
