"""What rendering needs to know of a machine. The reference machine stands for any: variables, no paths."""

import platform as host
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.catalog.stack import GpuAccess, RuntimeName
from appliance.core.paths import PACKAGE
from appliance.core.template import Variable

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Machine:
    """A machine to render for.

    `models`, `hub` and `harmony` are the folders of model files, of the hub's cache and of the harmony
    vocabulary there; `gpu` is how containers get at its GPU; `revisions` are those of the hub's models that are
    here, by repository, for models whose revision the catalog does not know; `home` is the state folder of who
    runs the stack, None in a stack that plain compose runs; `python` and `programs` matter to local processes only.
    """

    runtime: RuntimeName
    models: str
    hub: str
    harmony: str
    home: str | None
    gpu: GpuAccess = "devices"
    revisions: Mapping[str, str] = field(default_factory=dict)
    python: str = "python3"
    programs: str = ""

    @property
    def folders(self) -> dict[str, str]:
        """The folders with what an engine reads."""
        return {"models": self.models, "hub": self.hub, "harmony": self.harmony}


REFERENCE = Machine(
    runtime="docker",
    models=Variable("${SPARK_SPEC_PATHS_MODELS:?set it to the folder that `spark-spec models pull` prints}"),
    hub=Variable("${HF_HOME:?set it to the Hugging Face home, such as ~/.cache/huggingface}/hub"),
    harmony=Variable(
        "${SPARK_SPEC_PATHS_HARMONY:?set it to the folder with o200k_base.tiktoken and cl100k_base.tiktoken}"
    ),
    home=None,
)


def this_machine(
    runtime: RuntimeName,
    folders: Mapping[str, str],
    home: Path | None,
    gpu: GpuAccess,
    revisions: Mapping[str, str],
) -> Machine:
    """The machine we are on. `folders` are those of `Machine.folders`."""
    return Machine(
        runtime=runtime,
        **folders,
        gpu=gpu,
        revisions=revisions,
        home=str(home) if home else None,
        python=sys.executable,
        programs=str(PACKAGE / "engines"),
    )


def platform() -> str:
    """This machine's container platform, such as linux/arm64."""
    machine = host.machine().lower()
    return f"linux/{_ARCHITECTURES.get(machine, machine)}"
