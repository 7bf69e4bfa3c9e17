"""The project as a package: its wheel works away from a checkout, and says clearly what a Python lacks."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from appliance.core.paths import PACKAGE

ROOT = PACKAGE.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return next(folder.glob("spark_spec-*.whl"))


def test_everything_of_the_wheel_lies_under_its_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"appliance", "spark_spec"}
    for wanted in (
        "appliance/data/templates/compose/compose.yaml.j2",
        "appliance/data/images/serve-llamacpp/Dockerfile",
        "appliance/data/images/versions.yaml",
        "appliance/data/compose/demo/compose.yaml",
        "appliance/catalog/presets/demo.yaml",
        "appliance/catalog/models/smollm2-135m-instruct.yaml",
    ):
        assert wanted in names


def test_the_installed_wheel_renders_the_same_stack(wheel: Path, tmp_path: Path) -> None:
    """Away from the checkout: its own files, none of ours. Dependencies are borrowed from this environment."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], check=True,
                capture_output=True, text=True).stdout.strip())  # fmt: skip
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    borrowed = (
        Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    )
    script = f"import sys; sys.path.append({str(borrowed)!r}); from appliance.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [python, "-I", "-c", script, "render", "demo", "-o", str(tmp_path / "out"), "--reference"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for path in (ROOT / "compose" / "demo").rglob("*"):
        if path.is_file():
            assert (
                tmp_path / "out" / path.relative_to(ROOT / "compose" / "demo")
            ).read_text() == path.read_text()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("*ensurepip*) exit 1;;", "apt-get install python3-venv"),
        ("*version_info*) exit 1;;", "not Python 3.11 or newer"),
    ],
)
def test_a_python_that_lacks_something_gets_a_clear_line(tmp_path: Path, answers: str, said: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\ncase "$*" in {answers} esac\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert said in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_help_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("help", "setup", "demo", "test", "lint", "bench", "up", "down", "docker-engine", "golden"):
        assert f"\n{target} " in f"\n{done.stdout}"


def test_only_the_docker_target_and_ci_touch_docker_s_installation() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert makefile.count("docker-engine.sh") == 1
    assert "apt-get" not in makefile.replace("apt-get install python3-venv", "")
