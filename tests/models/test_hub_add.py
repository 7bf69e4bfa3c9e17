"""A folder becomes a model of the cache, whole or not at all; and one that nobody uses can be removed."""

import os
from pathlib import Path

import pytest

from appliance.core.errors import ConfigFault, FetchFault, Mismatch, UsageFault
from appliance.models.bring import bring, is_here, verify
from appliance.models.hub_add import add, name_of
from appliance.models.place import hub_folder
from tests.fakes.hub_server import Hub
from tests.models.conftest import FILES, SHARDS, Told, hub_entry, paths_in

FIRST = next(iter(SHARDS))
NAME = "me/my-head"


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """What a training leaves: the checkpoint, and other things."""
    folder = tmp_path / "Mon modèle"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("no part of it")
    for path, content in {**FILES, "tokens/extra.json": b"{}"}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_it_lies_there_as_if_its_hub_had_given_it(
    trained: Path, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paths, entry = paths_in(tmp_path), hub_entry(NAME)
    snapshot = add(trained, NAME, paths.hub, told.say, told.progress)
    folder = paths.hub / hub_folder(NAME)
    assert (folder / "refs" / "main").read_text() == snapshot.name and len(snapshot.name) == 40
    found = {str(path.relative_to(snapshot)): path for path in snapshot.rglob("*") if not path.is_dir()}
    assert set(found) == {*FILES, "tokens/extra.json"}
    for path, link in found.items():
        assert link.is_symlink() and not link.readlink().is_absolute()
        assert link.resolve().parent == (folder / "blobs").resolve()
        assert link.samefile(trained / path)  # a hard link: it costs no room
    assert is_here(entry, paths)
    verify(entry, paths)
    assert bring([entry], paths, told.say) == [folder]


def test_the_hubs_library_finds_it(trained: Path, tmp_path: Path, told: Told) -> None:
    from huggingface_hub import try_to_load_from_cache

    snapshot = add(trained, NAME, tmp_path / "hub", told.say, told.progress)
    found = try_to_load_from_cache(NAME, "config.json", cache_dir=tmp_path / "hub")
    assert found == str(snapshot / "config.json")


def test_the_same_folder_again_is_the_same_revision_and_another_is_refused(
    trained: Path, tmp_path: Path, told: Told
) -> None:
    hub = tmp_path / "hub"
    first = add(trained, NAME, hub, told.say, told.progress)
    assert add(trained, NAME, hub, told.say, told.progress) == first
    (trained / "config.json").unlink()  # a new file in its place, as whoever writes anew does
    (trained / "config.json").write_bytes(b'{"other": 1}')
    with pytest.raises(ConfigFault) as caught:
        add(trained, NAME, hub, told.say, told.progress)
    assert "here already" in caught.value.what and f"models rm {NAME}" in caught.value.fix
    assert (hub / hub_folder(NAME) / "refs" / "main").read_text() == first.name


def test_a_file_that_others_may_not_read_is_copied_and_left_as_it_was(
    trained: Path, tmp_path: Path, told: Told
) -> None:
    """The engine's user is another one."""
    (trained / FIRST).chmod(0o600)
    snapshot = add(trained, NAME, tmp_path / "hub", told.say, told.progress)
    assert not (snapshot / FIRST).samefile(trained / FIRST)
    assert (snapshot / FIRST).stat().st_mode & 0o777 == 0o644
    assert (trained / FIRST).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("missing", ["config.json", FIRST])
def test_half_a_checkpoint_is_refused_and_leaves_nothing(
    missing: str, trained: Path, tmp_path: Path, told: Told
) -> None:
    (trained / missing).unlink()
    with pytest.raises(ConfigFault) as caught:
        add(trained, NAME, tmp_path / "hub", told.say, told.progress)
    assert "no whole checkpoint" in caught.value.what and missing in caught.value.why
    assert not (tmp_path / "hub").exists()


def test_what_is_no_file_is_refused(trained: Path, tmp_path: Path, told: Told) -> None:
    os.mkfifo(trained / "pipe")
    with pytest.raises(ConfigFault, match="pipe"):
        add(trained, NAME, tmp_path / "hub", told.say, told.progress)


def test_a_stop_in_the_middle_leaves_no_model(
    trained: Path, tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from appliance.models import hub_add

    placed: list[Path] = []

    def stop_at_third(content: Path, target: Path) -> None:
        if len(placed) == 2:
            raise KeyboardInterrupt
        placed.append(target)
        target.write_bytes(content.read_bytes())

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(hub_add, "place", stop_at_third)
        add(trained, NAME, tmp_path / "hub", told.say, told.progress)
    assert not is_here(hub_entry(NAME), paths_in(tmp_path))
    add(trained, NAME, tmp_path / "hub", told.say, told.progress)
    assert is_here(hub_entry(NAME), paths_in(tmp_path))


@pytest.mark.parametrize("name", ["plain", "../x", "a/b/c", "a--b/c", "org/", "ö/x"])
def test_a_name_that_no_hub_has_is_refused(name: str, trained: Path, tmp_path: Path, told: Told) -> None:
    with pytest.raises(UsageFault):
        add(trained, name, tmp_path / "hub", told.say, told.progress)


def test_without_a_name_it_gets_its_folders(trained: Path) -> None:
    assert name_of(trained) == "local/Mon-mod-le"
    with pytest.raises(UsageFault):
        name_of(Path("/"))


def test_damage_of_an_added_model_is_told_and_no_hub_is_asked(
    hub: Hub, trained: Path, tmp_path: Path, told: Told
) -> None:
    paths, entry = paths_in(tmp_path), hub_entry(NAME)
    snapshot = add(trained, NAME, paths.hub, told.say, told.progress)
    (snapshot / FIRST).resolve().write_bytes(b"written into")
    with pytest.raises(Mismatch, match=FIRST):
        verify(entry, paths)
    with pytest.raises(FetchFault) as caught:
        bring([entry], paths, told.say)
    assert "added from a folder" in caught.value.why and "models rm" in caught.value.fix
    assert hub.asked == []
