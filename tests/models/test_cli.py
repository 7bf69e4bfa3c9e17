"""`models verify` and `models list`, as a person runs them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.catalog.entries import load_entry
from appliance.cli.models import models
from appliance.models.place import place
from tests.conftest import Cli

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
