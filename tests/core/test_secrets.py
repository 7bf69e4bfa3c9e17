"""Secrets: kept for their owner alone (case 4), and arriving as they are (case 2)."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.core.errors import ConfigFault, UsageFault
from appliance.core.secrets import environment, load, store, too_open

ODD = ["hf_x$oauthtoken", "$oauthtoken", "a b 'c' \"d\" #e", "${HOME}", "x=y=z", "back\\slash", "Müller"]


@pytest.mark.parametrize("value", ODD)
def test_the_exact_value_arrives_in_the_process_that_needs_it(tmp_path: Path, value: str) -> None:
    path = tmp_path / "secrets.env"
    store(path, "HF_TOKEN", value)
    printed = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ['HF_TOKEN'])"],
        env=environment(path), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert printed == value + "\n"


def test_a_file_written_under_a_loose_umask_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    old = os.umask(0o022)
    try:
        store(path, "HF_TOKEN", "one")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert too_open(path) is None


def test_a_looser_existing_file_is_warned_of_with_the_fix_and_closed_by_the_next_write(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("HF_TOKEN=one\n")
    path.chmod(0o644)
    assert f"chmod 600 {path}" in (too_open(path) or "")
    store(path, "OTHER", "two")
    assert too_open(path) is None
    assert load(path) == {"HF_TOKEN": "one", "OTHER": "two"}


def test_removing_one_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    store(path, "A", "1")
    store(path, "B", "2")
    store(path, "A", None)
    assert load(path) == {"B": "2"}


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A\n"])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageFault):
        store(tmp_path / "secrets.env", name, "x")


@pytest.mark.parametrize("value", ["", " ", "a\nb", "a\rb"])
def test_a_value_of_no_or_several_lines_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageFault):
        store(tmp_path / "secrets.env", "A", value)


def test_a_broken_line_is_named_but_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("# mine\nA=1\nhf_secret_without_a_name\n")
    with pytest.raises(ConfigFault) as caught:
        load(path)
    assert "line 3" in caught.value.what
    assert "hf_secret" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"
