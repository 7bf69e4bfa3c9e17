"""A model in the hub's cache: whole, or named with the command that gets it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.catalog.entries import HubSource
from appliance.core.errors import FetchFault
from appliance.models.hub import INDEX, check_snapshot, main_revision
from tests.fakes import hub_cache
from tests.fakes.hub_cache import REVISION

REPO = "openai/gpt-oss-120b"
SHARDS = ("model-00000-of-00001.safetensors", "model-00001-of-00001.safetensors")
SHARDED = {
    INDEX: json.dumps({"metadata": {}, "weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}).encode(),
    **dict.fromkeys(SHARDS, hub_cache.safetensors({"a": (2, 2)})),
}


def source(revision: str | None = None, *unneeded: str) -> HubSource:
    return HubSource(
        kind="hub",
        repo=REPO,
        revision=revision,
        files=("*.json", "*.safetensors"),
        unneeded=unneeded,
        bytes=None,
    )


def snapshot(hub: Path, files: dict[str, bytes] | None = None) -> Path:
    return hub_cache.make(hub, REPO, config=hub_cache.GPT_OSS_120B, files=files)


def lacks(hub: Path, revision: str | None = None) -> str:
    with pytest.raises(FetchFault) as caught:
        check_snapshot(source(revision), hub)
    assert caught.value.code == 5 and caught.value.what == f"the model {REPO} is not here"
    assert caught.value.fix == "get it: spark-spec models pull PRESET"
    return caught.value.why


def test_one_file_or_all_the_shards_of_an_index_are_whole(tmp_path: Path) -> None:
    snapshot(tmp_path / "one")
    snapshot(tmp_path / "sharded", SHARDED).joinpath("model.safetensors").unlink()
    for hub in (tmp_path / "one", tmp_path / "sharded"):
        for revision in (None, REVISION):
            check_snapshot(source(revision), hub)


def test_what_main_names_is_known(tmp_path: Path) -> None:
    assert main_revision(source(), tmp_path) is None
    snapshot(tmp_path)
    assert main_revision(source(), tmp_path) == REVISION
    for text in ("", " \n", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"):
        (tmp_path / "models--openai--gpt-oss-120b" / "refs" / "main").write_text(text, encoding="utf-8")
        assert main_revision(source(), tmp_path) is None


def test_nothing_at_all_is_named_by_its_folder(tmp_path: Path) -> None:
    assert lacks(tmp_path) == f"there is no {tmp_path}/models--openai--gpt-oss-120b"


def test_a_folder_without_main_holds_no_whole_download(tmp_path: Path) -> None:
    snapshot(tmp_path)
    (tmp_path / "models--openai--gpt-oss-120b" / "refs" / "main").unlink()
    assert lacks(tmp_path).endswith("has no refs/main that names a revision")
    check_snapshot(source(REVISION), tmp_path)  # a pinned revision needs none


def test_the_pinned_revision_is_looked_for_not_another(tmp_path: Path) -> None:
    snapshot(tmp_path)
    assert lacks(tmp_path, "f" * 40).endswith(f"snapshots/{'f' * 40} lacks config.json")


def test_a_snapshot_without_weights_is_not_whole(tmp_path: Path) -> None:
    """Case of dgx-spark-qwen38#5: only the small files were fetched."""
    (snapshot(tmp_path) / "model.safetensors").unlink()
    assert lacks(tmp_path).endswith("lacks weights")


def test_a_snapshot_without_its_config_is_not_whole(tmp_path: Path) -> None:
    (snapshot(tmp_path) / "config.json").unlink()
    assert lacks(tmp_path).endswith("lacks config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_link_that_leads_nowhere_is_not_whole(tmp_path: Path, name: str) -> None:
    (snapshot(tmp_path) / name).resolve().unlink()
    assert lacks(tmp_path).endswith(name)


def test_a_shard_that_the_index_names_and_nobody_fetched_is_named(tmp_path: Path) -> None:
    (snapshot(tmp_path, SHARDED) / SHARDS[1]).unlink()
    assert lacks(tmp_path).endswith(f"lacks {SHARDS[1]}")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"weight_map": []}', "\N{SNOWMAN}"])
def test_an_index_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    snapshot(tmp_path, SHARDED | {INDEX: text.encode()})
    assert lacks(tmp_path).endswith(f"lacks a readable {INDEX}")


AS_NOBODY = """
    import json, os, sys
    from pathlib import Path
    from appliance.catalog.entries import load_entry
    from appliance.core.errors import MachineFault
    from appliance.models.hub import check_snapshot, main_revision
    source = load_entry("gpt-oss-120b").source  # while this Python's own files can be read
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    try:
        check_snapshot(source, Path(sys.argv[1]))
    except MachineFault as fault:
        print(json.dumps([main_revision(source, Path(sys.argv[1])), fault.why, fault.fix]))
"""


@pytest.fixture
def closed() -> Iterator[Path]:
    """A cache that nobody may look into. pytest's own folders let no other user in."""
    hub = Path(tempfile.mkdtemp(prefix="hub-"))
    snapshot(hub)
    hub.chmod(0o755)
    for part in (hub / "models--openai--gpt-oss-120b").glob("*"):
        part.chmod(0)
    yield hub
    for part in (hub / "models--openai--gpt-oss-120b").glob("*"):
        part.chmod(0o755)
    shutil.rmtree(hub)


def test_a_cache_that_another_user_wrote_is_told_with_the_command(closed: Path) -> None:
    """Case 11, of a cache: a container that ran as root wrote it."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AS_NOBODY), str(closed)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    revision, why, fix = json.loads(done.stdout)
    assert revision is None and "Permission denied" in why
    assert f"chown -R $(id -u) {closed}/models--openai--gpt-oss-120b" in fix


@pytest.mark.parametrize(
    "text", ["../../etc", "/etc/passwd", "main", "", "f" * 41, "a" * 10_000_000, "\0" * 40]
)
def test_refs_main_names_a_commit_or_nothing(tmp_path: Path, text: str) -> None:
    snapshot(tmp_path)
    (tmp_path / "models--openai--gpt-oss-120b" / "refs" / "main").write_text(text)
    assert main_revision(source(), tmp_path) is None


def test_a_pipe_for_refs_main_is_not_waited_for(tmp_path: Path) -> None:
    snapshot(tmp_path)
    place = tmp_path / "models--openai--gpt-oss-120b" / "refs" / "main"
    place.unlink()
    os.mkfifo(place)
    assert main_revision(source(), tmp_path) is None
