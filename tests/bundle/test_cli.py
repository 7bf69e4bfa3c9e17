"""The commands around a bundle, as a person types them."""

import json
from pathlib import Path

import pytest

from tests.bundle.small import MODEL, sha, small_bundle
from tests.conftest import Cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_bundle(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_bundle_is_looked_at_and_checked(folder: Path, cli: Cli) -> None:
    done = cli("bundle", "inspect", str(folder))
    assert done.returncode == 0, done.stderr
    assert "presets demo; for linux/arm64; not signed" in done.stdout and "spark-spec/x:1" in done.stdout
    assert json.loads(cli("bundle", "inspect", str(folder), "--json").stdout)["platform"] == "linux/arm64"
    done = cli("bundle", "verify", str(folder))
    assert done.returncode == 0 and "is whole" in done.stdout


def test_what_is_wrong_is_named_with_its_exit_code(folder: Path, cli: Cli) -> None:
    (folder / "blobs" / "sha256" / sha(MODEL)).unlink()
    done = cli("bundle", "verify", str(folder), "--json")
    assert done.returncode == 9 and sha(MODEL) in done.stderr
    assert json.loads(done.stdout)["problems"] == [{"path": f"blobs/sha256/{sha(MODEL)}", "what": "missing"}]
    done = cli("bundle", "verify", str(folder), "--signature", "required")
    assert done.returncode == 9 and "is not signed" in done.stderr
    done = cli("bundle", "verify", str(folder / "nowhere"))
    assert done.returncode == 5 and "bundle create" in done.stderr


def test_keys_are_made_trusted_listed_and_removed(tmp_path: Path, cli: Cli) -> None:
    key = tmp_path / "ours.key"
    made = cli("bundle", "keygen", "-o", str(key))
    assert made.returncode == 0 and "PRIVATE" not in made.stdout + made.stderr
    assert cli("bundle", "keygen", "-o", str(key)).returncode == 3
    name = cli("bundle", "trust", "add", f"{key}.pub").stdout.split()[1]
    assert json.loads(cli("bundle", "trust", "list", "--json").stdout) == [name]
    assert cli("bundle", "trust", "rm", name).returncode == 0
    assert cli("bundle", "trust", "rm", name).returncode == 3
    assert cli("bundle", "trust", "list").stdout == ""


def test_a_private_key_is_not_taken_for_a_public_one(tmp_path: Path, cli: Cli) -> None:
    cli("bundle", "keygen", "-o", str(tmp_path / "key"))
    done = cli("bundle", "trust", "add", str(tmp_path / "key"))
    assert done.returncode == 3 and "no public key" in done.stderr
