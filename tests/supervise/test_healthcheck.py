import subprocess
import sys
import time
from pathlib import Path

import pytest

from appliance.supervise import status
from appliance.supervise.status import EXITED, READY, STARTING, STOPPED, WEDGED, Status


def check(folder: Path) -> tuple[int, str]:
    """Run it as a container does: exit code and output."""
    argv = [sys.executable, "-m", "appliance.supervise.healthcheck", str(folder)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=root, timeout=20, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def shown(state: str, age: float = 0) -> Status:
    now = time.time() - age
    return Status("demo", "0", 1, 1, None, state, "loading", now, now, now, 1)


def test_ready_and_fresh_is_healthy(tmp_path: Path) -> None:
    status.write(tmp_path, shown(READY))
    assert check(tmp_path) == (0, "")


@pytest.mark.parametrize("state", [STARTING, WEDGED, EXITED, STOPPED])
def test_any_other_state_is_not_and_is_named(tmp_path: Path, state: str) -> None:
    status.write(tmp_path, shown(state))
    assert check(tmp_path) == (1, f"{state}: loading\n")


@pytest.mark.parametrize("age", [60, -60])
def test_a_status_of_another_time_is_not(tmp_path: Path, age: float) -> None:
    status.write(tmp_path, shown(READY, age))
    assert check(tmp_path) == (1, "the supervisor is silent: its status is 60 s old\n")


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"state": "ready", "phase": "", "updated": null}'])
def test_no_status_is_not(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / status.FILE).write_text(text)
    code, said = check(tmp_path)
    assert code == 1
    assert said.startswith("no status: ") and said.count("\n") == 1
