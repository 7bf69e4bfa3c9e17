"""`up` on a machine without models: they are fetched from a hub, and the release stays with what was fetched."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.docker.walks import REVISION, Walk, base_of
from tests.fakes.hub_server import Hub, Repo, serve

pytestmark = pytest.mark.engine


def test_up_fetches_what_is_missing_and_keeps_to_it(
    cli: Cli, home: Path, free_port: int, models_dir: Path
) -> None:
    """Case 16: and nothing but what the engine reads."""
    del models_dir  # the stand-in carries the demo's models
    walk = Walk(cli, home, free_port, "draft-target", base_of("trtllm", "1.3.0rc12"))
    walk.models()
    repos = {}
    for folder in walk.hub.glob("models--*"):
        snapshot = folder / "snapshots" / REVISION
        files = {
            str(path.relative_to(snapshot)): path.read_bytes()
            for path in snapshot.rglob("*")
            if path.is_file()
        }
        repos[folder.name.removeprefix("models--").replace("--", "/")] = Repo(
            files | {"original/copy.safetensors": b"x" * 1000}, revision=REVISION
        )
    shutil.rmtree(walk.hub)
    with serve(Hub(repos)) as hub:
        try:
            done = walk.up(HF_ENDPOINT=hub.address)
            assert done.returncode == 0, done.stdout + done.stderr
            assert all(
                f"fetching {len(repo.files) - 1} files of {name}" in done.stderr
                for name, repo in repos.items()
            )
            assert "original/copy.safetensors" not in hub.contents()
            (plan,) = (home / "state").rglob("releases/*/engine/supervise.json")
            assert [one["revision"] for one in json.loads(plan.read_text())["snapshots"]] == [REVISION] * 2
            asked = len(hub.asked)
            again = walk.up(HF_ENDPOINT=hub.address)
            assert again.returncode == 0 and json.loads(again.stdout)["adopted"] is True, again.stderr
            assert len(hub.asked) == asked
        finally:
            walk.down()
