"""What rendering needs to know of a machine. The reference machine stands for any: variables, no paths."""

import platform as host
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.core.paths import PACKAGE

RuntimeName = Literal["docker", "process"]
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class Variable(str):
    """Text for compose to interpolate: it must not be quoted away."""


@dataclass(frozen=True)
class Machine:
    """A machine to render for.

    `models` is the folder of model files there; `home` the state folder of who runs the stack, None in a
    stack that plain compose runs; `python` and `programs` matter to local processes only.
    """

    runtime: RuntimeName
    models: str
    home: str | None
    python: str = "python3"
    programs: str = ""


REFERENCE = Machine(
    runtime="docker",
    models=Variable("${SPARK_SPEC_PATHS_MODELS:?set it to the folder that `spark-spec models pull` prints}"),
    home=None,
)


def this_machine(runtime: RuntimeName, models: Path, state: Path | None) -> Machine:
    """The machine we are on, with the folders the settings name."""
    return Machine(
        runtime=runtime,
        models=str(models),
        home=str(state) if state else None,
        python=sys.executable,
        programs=str(PACKAGE / "engines"),
    )


def platform() -> str:
    """This machine's container platform, such as linux/arm64."""
    machine = host.machine().lower()
    return f"linux/{_ARCHITECTURES.get(machine, machine)}"
