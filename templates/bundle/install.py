"""Install the launcher from this bundle, without a network:

    python3 install.py [--prefix FOLDER]

It needs Python 3.11 to 3.13 and nothing else. The launcher gets a folder of its own for its version, and
FOLDER/bin/spark-spec leads to the newest that was installed; an older one stays beside it.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
PREFIX = Path.home() / ".local" / "share" / "spark-spec"


def fail(what: str, why: str, fix: str, code: int) -> NoReturn:
    sys.stderr.write(f"error: {what}\n  why: {why}\n  fix: {fix}\n")
    raise SystemExit(code)


def launcher() -> dict[str, Any]:
    """What the manifest says of the launcher."""
    manifest = HERE / "bundle.json"
    try:
        said: dict[str, Any] | None = json.loads(manifest.read_text(encoding="utf-8"))["launcher"]
    except (OSError, ValueError, KeyError) as error:
        fail(f"{HERE} is no whole bundle", f"{manifest}: {error}", "copy the bundle anew", 5)
    if said is None:
        fail(
            "this bundle brings no launcher", "it was made with --no-launcher", "use the one that is here", 3
        )
    return said


def check(wheels: list[dict[str, Any]]) -> None:
    """Every wheel is the one that the manifest names."""
    for wheel in wheels:
        try:
            found = hashlib.sha256((HERE / wheel["path"]).read_bytes()).hexdigest()
        except OSError as error:
            fail(f"{wheel['path']} cannot be read", str(error), "copy the bundle anew", 5)
        if found != wheel["sha256"]:
            fail(f"{wheel['path']} is damaged", f"its sha256 is {found}", "copy this file anew", 9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prefix", type=Path, default=PREFIX, help=f"where it goes (default: {PREFIX})")
    prefix = parser.parse_args().prefix.expanduser().resolve()
    said = launcher()
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if python not in said["python"]:
        fail(
            f"this is Python {python}",
            f"the bundle has wheels for {', '.join(said['python'])}",
            "run it with one of these: python3.12 install.py",
            4,
        )
    check(said["wheels"])
    folder = prefix / said["version"]
    pip = next(HERE / wheel["path"] for wheel in said["wheels"] if wheel["path"].startswith("wheels/pip-"))
    try:
        venv.create(folder, with_pip=False, clear=True, symlinks=True)
        subprocess.run(
            [
                folder / "bin" / "python",
                pip / "pip",
                "install",
                "--quiet",
                "--no-index",
                "--no-cache-dir",
                "--disable-pip-version-check",
                "--find-links",
                HERE / "wheels",
                f"spark-spec[{','.join(said['extras'])}]",
            ],
            check=True,
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull},
        )
        (prefix / "bin").mkdir(parents=True, exist_ok=True)
        fresh = prefix / "bin" / ".spark-spec.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder / "bin" / "spark-spec")
        fresh.replace(prefix / "bin" / "spark-spec")
    except (OSError, subprocess.CalledProcessError) as error:
        fail(
            f"the launcher could not be installed into {folder}",
            str(error),
            "see to its rights and the disk",
            4,
        )
    command = prefix / "bin" / "spark-spec"
    print(f"{command} is version {said['version']}; next: {command} bundle import {HERE}")


if __name__ == "__main__":
    main()
