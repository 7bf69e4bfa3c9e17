"""Every ending is an exit code, and an error is three lines."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--help"], 0, "Commands:"),
        (["--version"], 0, "spark-spec, version"),
        (["presets"], 0, "demo"),
        (["upp"], 2, "Did you mean up?"),
        (["up"], 2, "Missing argument"),
        (["up", "demo", "--nonsense"], 2, "No such option"),
        (["up", "nonsense"], 3, "there is no preset"),
        (["up", "demo", "--set", "serve.prt=1"], 3, "serve.port"),
        (["up", "demo", "--set", "target.model=smollm"], 3, "smollm2-135m-instruct"),
        (["up", "demo", "--name", "My.Proj"], 2, "--name my-proj"),
        (["status"], 0, "no stacks"),
        (["status", "nothing"], 2, "there is no stack"),
        (["down"], 2, "there is no stack here"),
        (["ask", "hi"], 2, "there is no stack here"),
        (["secrets", "rm", "X"], 2, "there is no secret X"),
        (["show", "demo", "--set", "draft.k"], 3, "has no value"),
    ],
)
def test_each_ending_has_its_code(cli: Cli, words: list[str], code: int, said: str) -> None:
    done = cli(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["My.Proj", "Spark_A", "a b", "_x"])
@pytest.mark.parametrize("words", [("up", "demo"), ("render", "demo", "-o", "out")])
def test_a_bad_stack_name_is_one_clear_error_before_any_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    """Case 1."""
    monkeypatch.chdir(tmp_path)
    done = cli(*words, "--name", name)
    assert done.returncode == 2
    assert "use --name" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_own_preset_whose_file_name_is_no_stack_name_needs_a_name(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "My.Proj.yaml"
    path.write_text(
        "title: Mine\nstack: {engine: {name: llamacpp}, target: {model: smollm2-135m-instruct}, serve: {name: x}}\n"
    )
    done = cli("render", str(path), "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "--name my-proj" in done.stderr
    assert cli("render", str(path), "-o", str(tmp_path / "out"), "--name", "my-proj").returncode == 0


def test_an_error_is_what_why_and_fix(cli: Cli) -> None:
    lines = cli("up", "nonsense").stderr.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["error", "why", "fix"]


def test_a_traceback_comes_only_with_debug(cli: Cli) -> None:
    assert "Traceback" in cli("--debug", "up", "nonsense").stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_is_130(home: Path, number: int) -> None:
    del home
    with subprocess.Popen(
        [sys.executable, "-m", "appliance", "secrets", "set", "X"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        _wait_for_read(child.pid)
        child.send_signal(number)
        assert child.wait(10) == 130


def _wait_for_read(pid: int) -> None:
    """Until the process blocks in reading its standard input."""
    import time

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        wchan = Path(f"/proc/{pid}/wchan").read_text()
        if "pipe_read" in wchan:
            return
        time.sleep(0.02)
    raise AssertionError("it never waited for its input")


def test_a_reader_that_goes_away_is_no_error(home: Path) -> None:
    del home
    done = subprocess.run(
        f"{sys.executable} -m appliance show demo | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_json_is_json_and_nothing_else(cli: Cli) -> None:
    for words in (["presets"], ["show", "demo"], ["status"], ["models", "list"], ["secrets", "list"]):
        json.loads(cli(*words, "--json").stdout)


def test_no_escape_codes_without_a_terminal(cli: Cli) -> None:
    for words in (["--help"], ["show", "demo"], ["up", "nonsense"]):
        done = cli(*words)
        assert "\033" not in done.stdout + done.stderr


def test_help_loads_no_heavy_library(home: Path) -> None:
    del home
    heavy = "pydantic yaml jinja2 docker python_on_whales http.client"
    code = (
        "import sys\nfrom appliance.cli.main import main\nmain(['--help'])\n"
        f"print('loaded:', [name for name in '{heavy}'.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")


def test_the_secret_s_value_is_never_printed(cli: Cli, home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "appliance", "secrets", "set", "HF_TOKEN"],
        input="hf_x$oauthtoken\n", capture_output=True, text=True, check=True, env=dict(os.environ),
    )  # fmt: skip
    listed = cli("secrets", "list", "--json")
    assert "oauthtoken" not in done.stdout + done.stderr + listed.stdout + listed.stderr
    assert json.loads(listed.stdout)["names"] == ["HF_TOKEN"]
    assert (home / "config/spark-spec/secrets.env").read_text() == "HF_TOKEN=hf_x$oauthtoken\n"


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&-", "<&-"])
def test_a_closed_or_full_stream_is_no_bug(home: Path, redirection: str) -> None:
    del home
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m appliance status {redirection}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "bug" not in done.stderr


def test_a_full_disk_under_the_result_is_the_machine_s_fault(home: Path) -> None:
    del home
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m appliance show demo > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "No space left" in done.stderr


def test_a_question_that_is_not_utf_8_is_refused_before_it_is_asked(cli: Cli, home: Path) -> None:
    del home
    done = subprocess.run(
        [sys.executable, "-m", "appliance", "ask", "-"], input=b"caf\xe9", capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"not UTF-8" in done.stderr
    assert cli("ask", "caf\udce9").returncode == 2
