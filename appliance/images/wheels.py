"""The wheels of an image, installed on the host for the target's platform: its build then needs no network."""

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path

from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.core.talk import Talk
from appliance.machine.command import CommandFailed, run

QUIET_S = 900.0
GLIBC = (34, 31, 28, 27, 26, 24, 17)  # 2.NN of the manylinux tags that run on glibc 2.34 and later
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


def platform_tags(platform: str) -> list[str]:
    """pip's names of a platform, the newest first. Source: PEP 600, and PEP 599 for the year's name."""
    machine = MACHINES[platform]
    return [*(f"manylinux_2_{minor}_{machine}" for minor in GLIBC), f"manylinux2014_{machine}"]


def install(requirements: Path, platform: str, python: str, site: Path, talk: Talk) -> None:
    """Install what a file of requirements locks into the folder `site`, as pip is set up on this host.

    Each wheel has to have one of its hashes. Raises FetchFault (it cannot be had), Mismatch (it is another one),
    MachineFault (no pip).
    """
    if importlib.util.find_spec("pip") is None:
        raise MachineFault(
            "the wheels of an image cannot be fetched",
            f"{sys.executable} has no pip",
            f"{sys.executable} -m ensurepip",
        )
    argv = pip_argv(requirements, platform, python, site)
    talk.command(shlex.join(argv))
    try:
        run(argv, quiet_s=QUIET_S, each=lambda line: _downloading(line, talk))
    except CommandFailed as error:
        raise _fault(requirements, error) from None
    # Scripts start with this host's path of Python: nobody needs them, and they would differ from host to host.
    shutil.rmtree(site / "bin", ignore_errors=True)


def pip_argv(requirements: Path, platform: str, python: str, site: Path) -> list[str]:
    """The command: wheels only, and only those that are locked."""
    return [
        *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"),
        *("--progress-bar", "off", "--no-compile", "--no-deps", "--only-binary=:all:", "--require-hashes"),
        *(word for tag in platform_tags(platform) for word in ("--platform", tag)),
        # The locked versions suit `python`; pip would ask whether they suit the Python that it runs in.
        *("--implementation", "cp", "--python-version", python, "--ignore-requires-python"),
        *("--target", str(site), "--requirement", str(requirements)),
    ]


def _fault(requirements: Path, error: CommandFailed) -> FetchFault | Mismatch:
    lines = [line.strip() for line in error.tail]
    broken = [i for i, line in enumerate(lines) if "DO NOT MATCH THE HASHES" in line]
    if broken:
        return Mismatch(
            "a wheel is not the one that is locked",
            "\n".join(line for line in lines[broken[0] + 1 :] if line)[:600],
            f"do not use it; see which index pip took it from (pip config list), and {requirements}",
        )
    return FetchFault(
        "the wheels of an image could not be fetched",
        f"{error.reason}:\n{error.words(4)}",
        "let pip reach an index that has them (PIP_INDEX_URL, or PIP_FIND_LINKS for a folder of wheels)",
    )


def _downloading(line: str, talk: Talk) -> None:
    """Of pip's lines, those that tell a file."""
    words = line.split()
    if words[:1] in (["Downloading"], ["Processing"]) and len(words) > 1:
        talk.phase(f"wheels: {words[1].rpartition('/')[2]}")
    elif words[:2] == ["Installing", "collected"]:
        talk.phase("wheels: unpacking them")
