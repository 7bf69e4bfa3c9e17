"""The context holds all a build needs; a failed or interrupted build leaves nothing half-made."""

import stat
from pathlib import Path

import pytest

from appliance.core.errors import FetchFault, MachineFault, SparkSpecError
from appliance.images import build as module
from appliance.images.build import build, build_argv, ca_bundle, lay_out
from appliance.images.local import BASE_LABEL
from tests.images.conftest import Docker, Ear

AMD = "linux/amd64"


@pytest.fixture(autouse=True)
def no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """No image is looked at: the bases here are names."""
    monkeypatch.setattr(module, "find", lambda _: None)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for pip: it installs two files."""

    def installed(locked: Path, platform: str, python: str, site: Path, talk: Ear) -> None:
        del locked, platform, python, talk
        for name, text in {
            "xllamacpp/__init__.py": "",
            "xllamacpp-1.dist-info/licenses/LICENSE": "MIT",
        }.items():
            (site / name).parent.mkdir(parents=True)
            (site / name).write_text(text)

    monkeypatch.setattr(module, "install", installed)


@pytest.mark.usefixtures("no_pip")
def test_the_context_is_the_same_wherever_it_is_made(tmp_path: Path, ear: Ear) -> None:
    lay_out("serve-llamacpp", AMD, tmp_path, ear)
    context = tmp_path / "context"
    files = {str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()}
    assert {"Dockerfile", "site/xllamacpp/__init__.py", "site/xllamacpp-1.dist-info/licenses/LICENSE"} < files
    assert {"program/appliance/supervise/plan.py", "program/programs/llamacpp_program.py"} < files
    assert not any(name.endswith((".whl", ".pyc")) for name in files)
    for path in context.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)
        assert path.stat().st_mtime == 0


def test_the_files_of_an_image_s_own_folder_come_along(tmp_path: Path, ear: Ear) -> None:
    lay_out("gateway", AMD, tmp_path, ear)
    assert [path.name for path in (tmp_path / "context" / "files").iterdir()] == ["closed.conf"]


@pytest.mark.parametrize(
    ("image", "platform"), [("serve-llamacpp", "linux/riscv64"), ("train-cpu", "linux/arm64")]
)
def test_a_platform_without_wheels_is_refused(image: str, platform: str, tmp_path: Path, ear: Ear) -> None:
    with pytest.raises(MachineFault, match=platform) as caught:
        lay_out(image, platform, tmp_path, ear)
    assert "linux/amd64" in caught.value.why


def test_the_build_command_is_for_the_target() -> None:
    argv = build_argv(
        "dump", "x:1", "b:1@sha256:ab", base_id="sha256:0", platform="linux/arm64", builder="default"
    )
    joined = " ".join(argv)
    assert joined.startswith("docker buildx bake --builder default --file docker-bake.hcl ")
    for setting in (
        "tags=x:1",
        "platform=linux/arm64",
        "args.BASE=b:1@sha256:ab",
        f"labels.{BASE_LABEL}=sha256:0",
    ):
        assert f"--set dump.{setting}" in joined
    assert "labels.org.opencontainers.image.base.digest=sha256:ab" in joined


def test_a_base_without_a_digest_claims_none() -> None:
    argv = build_argv("dump", "x:1", "b:1", base_id="", platform=AMD, builder="default")
    assert "base.digest" not in " ".join(argv)


@pytest.mark.usefixtures("no_pip")
def test_the_host_s_certificates_are_a_secret_of_the_build(
    docker: Docker, tmp_path: Path, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("certificates")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    kept = docker(
        'cd "$OLDPWD"; [ "$1" = context ] && echo default && exit; cp ca.crt "$(dirname "$0")/seen"; '
        'ls context > "$(dirname "$0")/context"'
    )
    build("serve-llamacpp", "x:1", "b:1", AMD, ear)
    assert (kept / "seen").read_text() == "certificates"
    assert "ca.crt" not in (kept / "context").read_text()
    assert "--set serve-llamacpp.secrets=id=ca,src=ca.crt" in ear.commands[-1]


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
        ("exec /bin/sh: exec format error", MachineFault, "emulation.sh"),
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
    assert any(line.startswith("cd /") and " docker buildx bake " in line for line in ear.commands)


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
