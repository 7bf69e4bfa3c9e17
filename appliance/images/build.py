"""Build an image of ours, as docker-bake.hcl says; all that it reads is laid out on the host before."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import appliance
from appliance.core.errors import FetchFault, MachineFault
from appliance.core.paths import data
from appliance.core.talk import Talk
from appliance.images.local import BASE_LABEL, find
from appliance.images.versions import (
    bake_file,
    dockerfile,
    extra_files,
    program,
    requirements,
    versions,
)
from appliance.images.wheels import install
from appliance.machine.command import CommandFailed, run

BUILD_QUIET_S = 400.0
CA = "ca.crt"
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

    Raises FetchFault (a wheel or package cannot be had), Mismatch (a wheel is not the locked one), MachineFault.
    """
    with tempfile.TemporaryDirectory(prefix="spark-spec-build-") as name:
        folder = Path(name)
        lay_out(image, platform, folder, talk)
        argv = build_argv(image, reference, base, base_id=_id(base), platform=platform, builder=_builder())
        if (folder / CA).exists():
            argv += ["--set", f"{image}.secrets=id=ca,src={CA}"]
        talk.command(f"cd {shlex.quote(name)} && {shlex.join(argv)}")
        try:
            run(argv, quiet_s=BUILD_QUIET_S, each=lambda line: _phase(line, talk), cwd=folder)
        except CommandFailed as error:
            words = _last_words(error.tail)
            fault = FetchFault if NETWORK.search(words) else MachineFault
            raise fault(
                f"the image {reference} could not be built", f"{error.reason}:\n{words}", _fix(words)
            ) from None


def build_argv(
    image: str, reference: str, base: str, *, base_id: str, platform: str, builder: str
) -> list[str]:
    """The build command, to be run in the folder that `lay_out` wrote."""
    labels = {
        "org.opencontainers.image.version": appliance.__version__,
        "org.opencontainers.image.base.name": base,
        BASE_LABEL: base_id,
    }
    if "@sha256:" in base:
        labels["org.opencontainers.image.base.digest"] = base.partition("@")[2]
    return [
        *("docker", "buildx", "bake", "--builder", builder, "--file", "docker-bake.hcl"),
        *("--progress", "plain", image),
        *("--set", f"{image}.tags={reference}", "--set", f"{image}.platform={platform}"),
        *("--set", f"{image}.args.BASE={base}"),
        *(word for key, value in labels.items() for word in ("--set", f"{image}.labels.{key}={value}")),
    ]


def _id(base: str) -> str:
    found = find(base)
    return found.id if found else ""


def ca_bundle() -> str | None:
    """The host's file of trusted certificates, or None."""
    names = (os.environ.get("SSL_CERT_FILE", ""), *CA_BUNDLES)
    return next((name for name in names if name and Path(name).is_file()), None)


def lay_out(image: str, platform: str, folder: Path, talk: Talk) -> None:
    """Write the folder that an image is built in: docker-bake.hcl, the host's certificates, and its context/.

    The context has the Dockerfile, site/ (wheels, installed), program/ (files of this package), files/ (others of the
    image's folder) and state/ (empty). Modes and times are the same wherever it is written. What builds is not let
    out of this folder by newer versions of buildx, so all it reads lies in it. Raises as `build` does.
    """
    context = folder / "context"
    for part in ("site", "program", "files", "state/spark-spec"):
        (context / part).mkdir(parents=True)
    shutil.copyfile(bake_file(), folder / "docker-bake.hcl")
    shutil.copyfile(dockerfile(image), context / "Dockerfile")
    if bundle := ca_bundle():
        shutil.copyfile(bundle, folder / CA)
    _wheels(image, platform, context / "site", talk)
    for place, source in program(image):
        target = context / "program" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    for source in extra_files(image):
        shutil.copyfile(source, context / "files" / source.name)
    for path in [context, *context.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (0, 0))


def _wheels(image: str, platform: str, site: Path, talk: Talk) -> None:
    """What an image locks, installed into `site`. Raises MachineFault where it is locked for other platforms only."""
    locked, made_of = requirements(image), versions().images[image]
    if locked is None:
        return
    if platform not in made_of.fetch:
        raise MachineFault(
            f"the image {image} cannot be built for {platform}",
            f"its wheels are locked for {', '.join(made_of.fetch)} only",
            "build it for one of these: --platform",
        )
    python = versions().bases[made_of.base].python
    assert python is not None, f"{image} has wheels, so its base must say for which Python"
    talk.say(f"fetching the wheels of {image} for {platform} ({made_of.fetch[platform] / 1e6:.0f} MB)")
    install(locked, platform, python, site, talk)


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


def _last_words(tail: Sequence[str]) -> str:
    """The last lines that tell something, without the Dockerfile's own text."""
    return "\n".join([line[:200] for line in tail if not EXCERPT.match(line)][-12:])


def _fix(words: str) -> str:
    if "exec format error" in words:
        return f"let this machine run that architecture, as root: bash {data('images') / 'emulation.sh'}"
    if "no space left" in words:
        return "free some disk: docker system df shows what images and build caches take"
    if "certificate" in words:
        return (
            "a proxy re-signs TLS here: add its CA to the host's bundle, or name that file in SSL_CERT_FILE"
        )
    return "its last lines above say what is missing"
