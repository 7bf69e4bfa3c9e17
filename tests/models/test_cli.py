"""`models`, as a person runs it."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.catalog.entries import load_entry
from appliance.cli.models import models
from appliance.models.place import hub_folder, place
from tests.conftest import ROOT, Cli
from tests.fakes.hub_server import REVISION, Hub, Repo
from tests.models.conftest import FILES, SHARDS, UNNEEDED, check_whole

TARGET = load_entry("smollm2-135m-instruct")


def test_verify_names_each_bad_file_and_ends_with_nine(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    file = folder / place(TARGET)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not the model")
    done = cli("models", "verify", "demo", "--set", f"paths.models={folder}")
    assert done.returncode == 9, done.stderr
    assert f"{file} is damaged" in done.stderr and "is not there" in done.stderr
    assert done.stdout == ""
    done = cli("models", "verify", "demo", "--set", f"paths.models={folder}", "--json")
    assert done.returncode == 9
    rows = json.loads(done.stdout)
    assert [row["good"] for row in rows] == [False] * len(rows)
    assert rows[0]["path"] == str(file)


def test_verify_prints_a_line_a_good_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.models.ensure.verify", lambda *_: None)
    done = CliRunner().invoke(models, ["verify", "demo"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert len(lines) == 2 and all(line.endswith(": good") for line in lines)


def test_a_folder_is_no_model_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SPEC_PATHS_MODELS", str(tmp_path))
    (tmp_path / place(TARGET)).mkdir(parents=True)
    done = CliRunner().invoke(models, ["list", "--json"])
    row = next(row for row in json.loads(done.output) if row["id"] == TARGET.id)
    assert row["path"] == str(tmp_path / place(TARGET)) and row["here"] is False


# Models of a hub: draft-target's two, as a hub on this machine has them.

PAIR = ("nvidia/Llama-3.3-70B-Instruct-FP4", "nvidia/Llama-3.1-8B-Instruct-FP4")


@pytest.fixture
def pair(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    hub.repos |= {name: Repo(FILES | UNNEEDED) for name in PAIR}
    monkeypatch.setenv("SPARK_SPEC_PATHS_HUB", str(tmp_path / "hub"))
    return hub


def test_plan_tells_what_a_pull_would_do_and_pull_does_it(pair: Hub, cli: Cli, tmp_path: Path) -> None:
    """Cases 15 and 16: sizes and the free disk are known first, and only what is needed is counted."""
    size = sum(map(len, FILES.values()))
    planned = json.loads(cli("models", "plan", "draft-target", "--json").stdout)
    assert planned["bytes_to_fetch"] == 2 * size
    assert planned["free_bytes_after"] == planned["free_bytes"] - 2 * size
    assert [one["revision"] for one in planned["models"]] == [REVISION] * 2
    text = cli("models", "plan", "draft-target").stdout
    for words in (*FILES, *PAIR, REVISION, "apache-2.0", "to fetch", f"free in {tmp_path / 'hub'}"):
        assert words in text, words
    assert not (tmp_path / "hub").exists()

    done = cli("models", "pull", "draft-target")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "hub")
    assert f"downloading {PAIR[0]}" in done.stderr
    for name in PAIR:
        check_whole(tmp_path / "hub", name)
    assert json.loads(cli("models", "plan", "draft-target", "--json").stdout)["bytes_to_fetch"] == 0
    assert cli("models", "verify", "draft-target").stdout.count(": good") == 2
    assert len(pair.contents()) == 2 * len(FILES)


def test_plan_without_a_hub_says_unknown(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "models", "plan", "draft-target", HF_HUB_OFFLINE="1", SPARK_SPEC_PATHS_HUB=str(tmp_path / "hub")
    )
    assert done.returncode == 0, done.stderr
    assert "to fetch: unknown" in done.stdout and "unknown (the one that is here" in done.stdout
    told = json.loads(cli("models", "plan", "draft-target", "--json", HF_HUB_OFFLINE="1").stdout)
    assert told["bytes_to_fetch"] is None and told["free_bytes_after"] is None


def test_a_pull_that_is_killed_is_completed_and_says_what_it_kept(
    pair: Hub, cli: Cli, tmp_path: Path
) -> None:
    """Case 12, as a person sees it."""
    pair.fault.hold = threading.Event()
    child = subprocess.Popen(
        [sys.executable, "-m", "appliance", "models", "pull", "draft-target"], stderr=subprocess.DEVNULL
    )
    assert pair.half.wait(60)
    child.kill()
    child.wait(10)
    pair.fault.hold.set()
    done = cli("models", "pull", "draft-target")
    assert done.returncode == 0, done.stderr
    for name in PAIR:
        check_whole(tmp_path / "hub", name)


def test_verify_repairs_the_bad_file_alone(pair: Hub, cli: Cli, tmp_path: Path) -> None:
    assert cli("models", "pull", "draft-target").returncode == 0
    name = next(iter(SHARDS))
    link = tmp_path / "hub" / hub_folder(PAIR[1]) / "snapshots" / REVISION / name
    link.resolve().write_bytes(b"\0" * len(SHARDS[name]))
    pair.asked.clear()
    done = cli("models", "verify", "draft-target")
    assert done.returncode == 9 and f"{link} is damaged" in done.stderr and "--repair" in done.stderr
    done = cli("models", "verify", "draft-target", "--repair")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": good") == 2 and pair.contents() == [name]


def test_a_token_is_in_no_output(pair: Hub, cli: Cli) -> None:
    pair.fault.gated, pair.fault.token = True, "hf_right"
    for verbs in (("pull",), ("plan",)):
        done = cli("models", *verbs, "draft-target", "--json", HF_TOKEN="hf_wrong$oauthtoken")
        assert "hf_wrong" not in done.stdout + done.stderr
    assert ("Authorization", "hf_wrong") not in pair.asked
    assert any(sent == "Bearer hf_wrong$oauthtoken" for _, sent in pair.tokens)


def test_add_list_and_rm(pair: Hub, cli: Cli, tmp_path: Path) -> None:
    del pair
    folder = tmp_path / "my head"
    folder.mkdir()
    for path, content in FILES.items():
        (folder / path).write_bytes(content)
    done = cli("models", "add", str(folder), "--name", "me/head")
    assert done.returncode == 0 and Path(done.stdout.strip(), "config.json").is_file(), done.stderr
    rows = {row["id"]: row for row in json.loads(cli("models", "list", "--json").stdout)}
    size = sum(map(len, FILES.values()))
    assert (rows["me/head"]["state"], rows["me/head"]["bytes"], rows["me/head"]["here"]) == (
        "here",
        size,
        True,
    )
    assert rows["gpt-oss-120b"]["state"] == "not here"
    (Path(done.stdout.strip()) / "config.json").unlink()
    assert "in part" in next(line for line in cli("models", "list").stdout.splitlines() if "me/head" in line)
    done = cli("models", "rm", "me/head")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "hub" / hub_folder("me/head")).exists() and (folder / "config.json").exists()
    done = cli("models", "rm", "me/head")
    assert done.returncode == 2 and "there is no model 'me/head' here" in done.stderr


@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_rm_never_takes_what_a_release_uses(name: str, cli: Cli, tmp_path: Path) -> None:
    """Not even one that another model is made of."""
    models, state = tmp_path / "models", tmp_path / "state" / "spark-spec"
    file = models / place(TARGET)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"the model")
    manifest = json.loads((ROOT / "compose" / "demo" / "manifest.json").read_text())
    manifest["models"] = manifest["models"][1:]  # the draft, which needs the target
    release = state / "stacks" / "demo" / "releases" / "0001"
    release.mkdir(parents=True)
    (release / "manifest.json").write_text(json.dumps(manifest))
    (state / "stacks" / "demo" / "state.json").write_text("{}")
    done = cli("models", "rm", name, SPARK_SPEC_PATHS_MODELS=str(models))
    assert done.returncode == 3 and "releases of demo need it" in done.stderr, done.stderr
    assert file.exists()
    (state / "stacks" / "demo" / "state.json").unlink()
    assert cli("models", "rm", name, SPARK_SPEC_PATHS_MODELS=str(models)).returncode == 0
    assert not file.exists()
