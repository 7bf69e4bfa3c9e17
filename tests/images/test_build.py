"""The context holds all a build needs; a failed or interrupted build leaves nothing half-made."""

import hashlib
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, MachineFault, Mismatch, SparkSpecError
from appliance.images import build as module
from appliance.images.build import build, build_argv, ca_bundle, fetch_wheel, lay_out
from appliance.images.versions import WheelFile
from appliance.machine.command import CommandFailed
from tests.images.conftest import Docker, Ear

AMD = "linux/amd64"


@pytest.fixture(autouse=True)
def no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """No image is looked at: the bases here are names."""
    monkeypatch.setattr(module, "find", lambda _: None)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for pip's download: a wheel of two files."""

    def fetched(pin: str, file: WheelFile, python: str, folder: Path, talk: Ear) -> Path:
        del file, python, talk
        wheel = folder / f"{pin.partition('=')[0]}-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("xllamacpp/__init__.py", "")
            archive.writestr("xllamacpp-1.dist-info/licenses/LICENSE", "MIT")
        return wheel

    monkeypatch.setattr(module, "fetch_wheel", fetched)


@pytest.mark.usefixtures("no_pip")
def test_the_context_is_the_same_wherever_it_is_made(tmp_path: Path, ear: Ear) -> None:
    context = tmp_path / "context"
    lay_out("serve-llamacpp", AMD, context, ear)
    files = {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()}
    assert {"site/xllamacpp/__init__.py", "site/xllamacpp-1.dist-info/licenses/LICENSE"} < files
    assert {"program/appliance/supervise/plan.py", "program/programs/llamacpp_program.py"} < files
    assert not any(name.endswith((".whl", ".pyc")) for name in files)
    for path in context.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)
        assert path.stat().st_mtime == 0


def test_a_platform_without_a_wheel_is_refused(tmp_path: Path, ear: Ear) -> None:
    with pytest.raises(MachineFault, match="riscv"):
        lay_out("serve-llamacpp", "linux/riscv64", tmp_path / "context", ear)


def test_the_build_command_is_for_the_target_and_hides_the_ca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    argv = build_argv(
        "serve-llamacpp",
        "x:1",
        base="b:1",
        base_id="sha256:0",
        platform="linux/arm64",
        context=tmp_path,
        builder="default",
    )
    joined = " ".join(argv)
    assert "--platform linux/arm64 --tag x:1" in joined and "--build-arg BASE=b:1" in joined
    assert f"--secret id=ca,src={bundle}" in joined
    assert argv[-1] == str(tmp_path)


def test_a_ca_bundle_that_is_not_there_is_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    monkeypatch.setattr(module, "CA_BUNDLES", ())
    assert ca_bundle() is None


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize(
    ("words", "fault", "fix"),
    [
        ("Temporary failure resolving 'mirror'", FetchFault, ""),
        ("tls: certificate signed by unknown authority", FetchFault, "SSL_CERT_FILE"),
        ("exec /bin/sh: exec format error", MachineFault, "qemu"),
        ("write: no space left on device", MachineFault, "docker system df"),
        ("the base needs Python 3.11 or later", MachineFault, ""),
    ],
)
def test_a_failed_build_tells_its_last_lines_and_leaves_nothing(
    words: str, fault: type[SparkSpecError], fix: str, docker: Docker, ear: Ear, contexts: Path
) -> None:
    docker(f'[ "$1" = context ] && echo default && exit; echo "{words}" >&2; exit 1')
    with pytest.raises(fault) as caught:
        build("serve-llamacpp", "x:1", "b:1", AMD, ear)
    assert words in caught.value.why and fix in caught.value.fix
    assert not list(contexts.iterdir())
    assert any(line.startswith("docker buildx build") for line in ear.commands)


@pytest.mark.usefixtures("no_pip")
def test_an_interrupt_leaves_no_context(
    docker: Docker, ear: Ear, contexts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker('[ "$1" = context ] && echo default && exit; echo "#5 [stage-0 2/5] RUN x"; sleep 300')

    def interrupt(text: str) -> None:
        del text
        raise KeyboardInterrupt

    monkeypatch.setattr(ear, "phase", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build("serve-llamacpp", "x:1", "b:1", AMD, ear)
    assert not list(contexts.iterdir())


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "contexts"
    folder.mkdir()
    monkeypatch.setattr(module.tempfile, "tempdir", str(folder))
    return folder


def _file(sha256: str) -> WheelFile:
    return WheelFile(tag="manylinux2014_aarch64", sha256=sha256, bytes=3)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stand in for the pip process: it writes a wheel of three bytes. Its argvs are kept."""
    seen: list[list[str]] = []

    def run(argv: list[str], **_: object) -> list[str]:
        seen.append(argv)
        (Path(argv[argv.index("--dest") + 1]) / "x-1-py3-none-any.whl").write_bytes(b"abc")
        return []

    monkeypatch.setattr(module, "run", run)
    return seen


def test_pip_is_asked_for_the_targets_wheel(pip: list[list[str]], tmp_path: Path, ear: Ear) -> None:
    wheel = fetch_wheel("x==1", _file(hashlib.sha256(b"abc").hexdigest()), "3.11", tmp_path, ear)
    assert wheel.name == "x-1-py3-none-any.whl"
    joined = " ".join(pip[0])
    assert joined.startswith(f"{sys.executable} -m pip download")
    assert "--platform manylinux2014_aarch64 --python-version 3.11" in joined and joined.endswith("x==1")


@pytest.mark.usefixtures("pip")
def test_another_wheel_than_the_known_one_is_refused(tmp_path: Path, ear: Ear) -> None:
    with pytest.raises(Mismatch) as caught:
        fetch_wheel("x==1", _file("0" * 64), "3.11", tmp_path, ear)
    assert "0" * 64 in caught.value.why


def test_a_python_without_pip_is_told(tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", {}.get)
    with pytest.raises(MachineFault) as caught:
        fetch_wheel("x==1", _file("0" * 64), "3.11", tmp_path, ear)
    assert "ensurepip" in caught.value.fix


def test_a_wheel_that_cannot_be_had(tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: list[str], **_: object) -> list[str]:
        raise CommandFailed(argv, "exit code 1", ["ERROR: No matching distribution found for x==1"])

    monkeypatch.setattr(module, "run", run)
    with pytest.raises(FetchFault) as caught:
        fetch_wheel("x==1", _file("0" * 64), "3.11", tmp_path, ear)
    assert "No matching distribution" in caught.value.why and "PIP_FIND_LINKS" in caught.value.fix
