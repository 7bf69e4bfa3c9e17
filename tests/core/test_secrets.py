"""Secrets: kept for their owner alone (case 4), and arriving as they are (case 2)."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.core.errors import ConfigFault, UsageFault
from appliance.core.paths import LARGEST
from appliance.core.secrets import environment, load, store, too_open
from tests.conftest import Cli

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


@pytest.mark.parametrize(
    "value", ["", " ", "a\nb", "a\rb", "a\0b", "a\tb", "a\x1bb", "a\u0085b", "a\udc80b", "a\ufffeb"]
)
def test_a_value_that_is_not_one_line_that_can_be_shown_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageFault):
        store(tmp_path / "secrets.env", "A", value)


def test_a_broken_line_is_named_but_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("# mine\nA=1\nhf_secret_without_a_name\n")
    with pytest.raises(ConfigFault) as caught:
        load(path)
    assert "line 3" in caught.value.what
    assert "hf_secret" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"


def test_several_at_once_all_stay(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secrets.env"
    names = [f"T{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store(path, name, "x"), names))
    assert sorted(load(path)) == sorted(names)


@pytest.mark.parametrize("value", ["new", None])
def test_what_a_killed_write_left_goes_with_the_next(tmp_path: Path, value: str | None) -> None:
    path = tmp_path / "secrets.env"
    store(path, "A", "1")
    (tmp_path / ".secrets.env.k1ll3d").write_text("A=old\n")
    store(path, "A", value)
    assert [one.name for one in tmp_path.iterdir()] == ["secrets.env"]


def test_a_value_in_the_file_that_no_process_can_be_given_is_a_fault_that_hides_it(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("A=hidden\0x\n")
    with pytest.raises(ConfigFault) as caught:
        environment(path)
    assert "hidden" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"


def test_a_bom_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.write_text("\ufeffA=1\n", encoding="utf-8")
    assert load(path) == {"A": "1"}


def test_a_file_that_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secrets.env")
    with pytest.raises(ConfigFault, match="cannot read"):
        load(tmp_path / "secrets.env")


def test_no_write_makes_a_file_that_could_not_be_read_again(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="1 MiB"):
        store(tmp_path / "secrets.env", "A", "x" * LARGEST)
    assert load(tmp_path / "secrets.env") == {}


def test_a_folder_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigFault, match="cannot write"):
        store(tmp_path / "file" / "secrets.env", "A", "1")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (b"tok\n", 0),
        (b"\xef\xbb\xbftok\r\n", 0),
        (b"\xff\xfet\0", 2),
        (b"t\0k", 2),
        (b"", 2),
        (b"x" * 70_000, 2),
    ],
)
def test_standard_input_is_a_secret_or_a_usage_fault(home: Path, given: bytes, code: int) -> None:
    command = [sys.executable, "-m", "appliance", "secrets", "set", "T"]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    kept = load(home / "config" / "spark-spec" / "secrets.env")
    assert kept == ({"T": "tok"} if code == 0 else {})


def test_without_a_home_the_command_says_what_to_set(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    done = cli("secrets", "list", HOME="relative")
    assert (done.returncode, "XDG_CONFIG_HOME" in done.stderr) == (3, True)
