"""images/docker-engine.sh touches nothing where there is nothing to do, and only what it started."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.core.paths import data
from appliance.supervise.status import start_ticks
from tests.images.conftest import Docker

SCRIPT = (data("images") / "docker-engine.sh").read_text()
ANSWERS = 'case "$1" in version) echo 26.1.5 ;; *) echo plugin v2 ;; esac'
root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)


def engine(word: str, folder: Path, *before: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script (from standard input, so that any user can read it) with folders of its own."""
    folders = {f"DOCKER_ENGINE_{name}": str(folder / name) for name in ("DATA", "RUN", "LOG")}
    return subprocess.run(
        [*before, "bash", "-s", word], input=SCRIPT, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, **folders, **environment},
    )  # fmt: skip


def test_an_engine_that_answers_is_left_as_it_is(docker: Docker, tmp_path: Path) -> None:
    docker(ANSWERS)
    done = engine("start", tmp_path)
    assert done.returncode == 0 and "nothing to do" in done.stderr
    assert not (tmp_path / "RUN").exists() and not (tmp_path / "DATA").exists()


def test_status_tells_whether_an_engine_answers(docker: Docker, tmp_path: Path) -> None:
    docker(ANSWERS)
    assert engine("status", tmp_path).returncode == 0
    docker("exit 1")
    assert engine("status", tmp_path).returncode == 4


def test_a_word_it_does_not_know_is_a_usage_error(tmp_path: Path) -> None:
    assert engine("restart", tmp_path).returncode == 2


@root
def test_an_ordinary_user_is_told_in_three_lines(docker: Docker, tmp_path: Path) -> None:
    docker("exit 1")
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    done = engine("start", tmp_path, *nobody, PATH="/usr/bin:/bin", DOCKER_HOST=f"unix://{tmp_path}/none")
    assert done.returncode == 4
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "what failed",
        "why",
        "what to do",
    ]
    assert "root" in done.stderr


@root
def test_stop_leaves_a_process_alone_that_merely_has_the_number(docker: Docker, tmp_path: Path) -> None:
    docker(ANSWERS)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        ticks = start_ticks(stranger.pid)
        assert ticks is not None
        (tmp_path / "RUN").mkdir()
        (tmp_path / "RUN" / "owner").write_text(f"{stranger.pid} {ticks + 1}\n")
        done = engine("stop", tmp_path)
        assert done.returncode == 0 and "left alone" in done.stderr
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("script", ["docker-engine.sh", "base/make.sh"])
def test_scripts_parse(script: str) -> None:
    subprocess.run(["bash", "-n", str(data("images") / script)], check=True)
