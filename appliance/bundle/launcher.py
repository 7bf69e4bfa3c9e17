"""The launcher's own wheel and those of all it needs, for another platform, as pip is set up on this machine."""

import importlib.metadata
import shlex
import sys
import zipfile
from pathlib import Path

from appliance.core.errors import FetchFault
from appliance.core.paths import PACKAGE
from appliance.core.talk import Talk
from appliance.images.wheels import platform_tags
from appliance.machine.command import CommandFailed, run

NAME = "spark-spec"
PYTHONS = ("3.11", "3.12", "3.13")
QUIET_S = 600.0
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip file can tell


def collect(folder: Path, platform: str, extras: tuple[str, ...], talk: Talk) -> list[Path]:
    """Put the wheels into an empty folder. Returns them by name. Raises FetchFault."""
    own = _own(folder, talk)
    extra = f"[{','.join(extras)}]" if extras else ""
    tags = [word for tag in platform_tags(platform) for word in ("--platform", tag)]
    for python in PYTHONS:
        _pip(
            "download", "--only-binary=:all:", "--implementation", "cp", "--python-version", python, *tags,
            "--dest", str(folder), f"{NAME}{extra} @ {own.as_uri()}", "pip", talk=talk,
        )  # fmt: skip
    return sorted(folder.glob("*.whl"))


def _own(folder: Path, talk: Talk) -> Path:
    """Our wheel: built from the checkout we run from, else put together again from the files that were installed."""
    if (PACKAGE.parent / "pyproject.toml").is_file():
        _pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(PACKAGE.parent), talk=talk)
        return next(folder.glob("spark_spec-*.whl"))
    return repacked(importlib.metadata.distribution(NAME), folder)


def repacked(installed: importlib.metadata.Distribution, folder: Path) -> Path:
    """The wheel that a distribution was installed from, but for what installing added. The same bytes each time."""
    wheel = folder / f"spark_spec-{installed.version}-py3-none-any.whl"
    added = ("INSTALLER", "REQUESTED", "direct_url.json")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(installed.files or (), key=str):
            if ".." not in file.parts and file.suffix != ".pyc" and file.name not in added:
                content = Path(str(file.locate())).read_bytes()
                if file.name == "RECORD":
                    content = _record(content.decode(), added).encode()
                archive.writestr(zipfile.ZipInfo(str(file), EPOCH), content, zipfile.ZIP_DEFLATED)
    return wheel


def _record(text: str, added: tuple[str, ...]) -> str:
    """RECORD without what is not in the wheel."""

    def stays(line: str) -> bool:
        path = line.partition(",")[0]
        return not path.startswith("..") and not path.endswith((".pyc", *added))

    return "".join(f"{line}\n" for line in text.splitlines() if stays(line))


def _pip(*words: str, talk: Talk) -> None:
    argv = [sys.executable, "-m", "pip", words[0], "--disable-pip-version-check", "--no-input", "--progress-bar",
            "off", *words[1:]]  # fmt: skip
    if words[0] == "wheel":
        argv.remove("--progress-bar")
        argv.remove("off")
    talk.command(shlex.join(argv))
    talk.phase("collecting the launcher's wheels")
    try:
        run(argv, quiet_s=QUIET_S, each=lambda _: None)
    except CommandFailed as error:
        raise FetchFault(
            "the launcher's wheels could not be collected", f"{error.reason}:\n{error.words(4)}",
            "let pip reach an index that has them (PIP_INDEX_URL, or PIP_FIND_LINKS for a folder of wheels)",
        ) from None  # fmt: skip
