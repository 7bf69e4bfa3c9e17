"""What an image offers for dumping and training: the versions in it, and the processors torch sees."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

PARTS = ("torch", "transformers", "nvidia-modelopt", "tensorrt_llm", "accelerate", "datasets", "safetensors")


def environment() -> dict[str, object]:
    """Python, its platform, the version of each part that is installed (else None), and the GPUs by name."""
    return {
        "python": platform.python_version(),
        "platform": f"{sys.platform}/{platform.machine()}",
        "versions": {name: _version(name) for name in PARTS},
        "gpus": _gpus(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """The GPUs that torch can use; none where it is not installed or was built for a CPU."""
    if find_spec("torch") is None:
        return []
    import torch

    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
