"""Staged files, held against the tools that will read them."""

import shutil
import subprocess
from pathlib import Path

from appliance.core.errors import ConfigFault
from appliance.supervise import plan

CONFIG_S = 30


def validate(folder: Path) -> None:
    """Read everything back: supervise.json by its schema, compose.yaml by compose where it is installed.

    Raises ConfigFault with compose's own words.
    """
    plan.read(folder / "engine" / "supervise.json")
    compose = folder / "compose.yaml"
    if not compose.exists() or shutil.which("docker") is None:
        return
    done = subprocess.run(
        ["docker", "compose", "-f", str(compose), "config", "-q"],
        capture_output=True, text=True, errors="replace", timeout=CONFIG_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode and "unknown" not in done.stderr:  # a docker without compose says "unknown flag"
        raise ConfigFault("compose refuses the rendered stack", done.stderr.strip()[-500:],
                          "check the settings it names; `spark-spec render` writes the file")  # fmt: skip
