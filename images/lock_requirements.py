"""Lock the wheels of our images: from each requirements.in its requirements.txt, with all hashes.

Run by `make lock-requirements`, on a machine whose pip and uv reach an index. It prints the bytes that belong into
versions.yaml. The wheels of an image have to be the same versions on all its platforms, so that one file locks them.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from appliance.core.paths import data
from appliance.images.versions import versions
from appliance.images.wheels import MACHINES, platform_tags

NO_TORCH = (
    'torch ; python_version < "3"\n'  # where it is the base's own, neither it nor what it needs is locked
)
HEADER = "# Locked from requirements.in by `make lock-requirements`; change that file, not this one.\n"
ENVIRONMENT = {"PIP_FIND_LINKS": "UV_FIND_LINKS", "PIP_INDEX_URL": "UV_DEFAULT_INDEX"}


def compiled(asked: Path, platform: str, python: str, folder: Path) -> str:
    """The locked text of one platform."""
    override = folder / "override.txt"
    override.write_text("" if "\ntorch==" in asked.read_text() else NO_TORCH)
    argv = [
        *(str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--no-build", "--no-header"),
        *("--no-annotate", "--generate-hashes", "--python-version", python, "--override", str(override)),
        *("--python-platform", f"{MACHINES[platform]}-manylinux_2_28", str(asked)),
    ]
    environment = os.environ | {uv: os.environ[pip] for pip, uv in ENVIRONMENT.items() if pip in os.environ}
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def fetched(locked: Path, platform: str, python: str, folder: Path) -> int:
    """The bytes of the wheels of one platform."""
    wheels = folder / platform.replace("/", "-")
    argv = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
        *("--require-hashes", "--implementation", "cp", "--python-version", python),
        *(word for tag in platform_tags(platform) for word in ("--platform", tag)),
        *("--dest", str(wheels), "--requirement", str(locked)),
    ]
    subprocess.run(argv, check=True)
    return sum(path.stat().st_size for path in wheels.iterdir())


def main() -> None:
    for name, image in versions().images.items():
        if not image.fetch:
            continue
        python, asked = versions().bases[image.base].python, data("images") / name / "requirements.in"
        assert python is not None
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            texts = {compiled(asked, platform, python, folder) for platform in image.fetch}
            if len(texts) != 1:
                sys.exit(f"{asked}: its platforms do not get the same versions; pin what differs")
            locked = asked.with_suffix(".txt")
            locked.write_text(HEADER + texts.pop())
            for platform in image.fetch:
                print(f"{name} {platform}: {fetched(locked, platform, python, folder)}", flush=True)


if __name__ == "__main__":
    main()
