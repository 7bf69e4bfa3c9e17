"""The wheels of an image come from pip as it is set up here: for the target, and only with a hash that is locked."""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.images import wheels as module
from appliance.images.wheels import install, pip_argv, platform_tags
from appliance.machine.command import CommandFailed
from tests.images.conftest import Ear

ARM = "linux/arm64"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, all that pip may look at: `part` 1, for Python 3.12 on a Spark's processor."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    with zipfile.ZipFile(folder / "part-1-cp312-cp312-manylinux_2_28_aarch64.whl", "w") as archive:
        archive.writestr("part/__init__.py", "")
        archive.writestr(
            "part-1.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: part\nVersion: 1\nRequires-Python: ==3.12.*\n",
        )
        archive.writestr("part-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        archive.writestr("part-1.dist-info/entry_points.txt", "[console_scripts]\npart = part:main\n")
        archive.writestr("part-1.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


def locked(folder: Path, digest: str) -> Path:
    path = folder / "requirements.txt"
    path.write_text(f"part==1 --hash=sha256:{digest}\n")
    return path


def digest(shelf: Path) -> str:
    return hashlib.sha256(next(shelf.glob("*.whl")).read_bytes()).hexdigest()


def test_a_wheel_for_another_machine_is_installed_without_its_scripts(
    shelf: Path, tmp_path: Path, ear: Ear
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(locked(tmp_path, digest(shelf)), ARM, "3.12", site, ear)
    assert (site / "part" / "__init__.py").is_file()
    assert not (site / "bin").exists()
    assert ear.commands[0].startswith(f"{sys.executable} -m pip install")


def test_another_wheel_than_the_locked_one_is_refused(shelf: Path, tmp_path: Path, ear: Ear) -> None:
    with pytest.raises(Mismatch) as caught:
        install(locked(tmp_path, "0" * 64), ARM, "3.12", tmp_path / "site", ear)
    assert "0" * 64 in caught.value.why and digest(shelf) in caught.value.why


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(("platform", "python"), [("linux/amd64", "3.12"), (ARM, "3.11")])
def test_a_wheel_for_something_else_does_not_do(platform: str, python: str, tmp_path: Path, ear: Ear) -> None:
    with pytest.raises(FetchFault) as caught:
        install(locked(tmp_path, "0" * 64), platform, python, tmp_path / "site", ear)
    assert "No matching distribution" in caught.value.why and "PIP_FIND_LINKS" in caught.value.fix


def test_a_python_without_pip_is_told(tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", {}.get)
    with pytest.raises(MachineFault) as caught:
        install(locked(tmp_path, "0" * 64), ARM, "3.12", tmp_path / "site", ear)
    assert "ensurepip" in caught.value.fix


def test_a_pip_that_hangs_is_a_fault(tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: list[str], **_: object) -> list[str]:
        raise CommandFailed(argv, "no sign of life for 900 s", [])

    monkeypatch.setattr(module, "run", run)
    with pytest.raises(FetchFault, match="could not be fetched"):
        install(locked(tmp_path, "0" * 64), ARM, "3.12", tmp_path / "site", ear)


def test_nothing_is_built_and_nothing_unlocked_is_taken() -> None:
    argv = pip_argv(Path("r.txt"), ARM, "3.12", Path("site"))
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} < set(argv)


def test_the_newest_tag_comes_first() -> None:
    tags = platform_tags(ARM)
    assert tags[0] == "manylinux_2_34_aarch64" and tags[-1] == "manylinux2014_aarch64"
