"""The user's lock: the digests of base images, and what the engines in them take, each as read from its source.

`images.lock.json` beside the config file, written by `spark-spec images lock`; without it nothing is locked. It wins
over what the package brings.
"""

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from appliance.catalog.stack import Strict
from appliance.core.errors import ConfigFault
from appliance.core.paths import default_config, read_small, write_atomic

NAME = "images.lock.json"
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class LockedBase(Strict):
    """A base by its digest, and the platforms it is there for, such as linux/arm64."""

    digest: Digest
    platforms: tuple[str, ...]


class LockedEngine(Strict):
    """The engine in an image: its own version, and a JSON Schema of what it takes, as in engines/known."""

    version: str
    image: str
    options: dict[str, Any]


class Lock(Strict):
    """All of the file. `bases` by the image's name and tag, `engines` by ENGINE:VERSION as a stack names them."""

    schema_version: Literal[1] = 1
    bases: dict[str, LockedBase] = Field(default_factory=dict)
    engines: dict[str, LockedEngine] = Field(default_factory=dict)


def lock_path() -> Path | None:
    """Where the lock is; None where there is no home for it."""
    config = default_config()
    return config and config.parent / NAME


def locked() -> Lock:
    """What is locked. Raises ConfigFault where the file is not as it must be."""
    path = lock_path()
    return _read(path) if path else Lock()


@cache
def _read(path: Path) -> Lock:
    text = read_small(path)
    if text is None:
        return Lock()
    try:
        return Lock.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigFault(
            f"{path} cannot be used", f"{where}: {first['msg']}",
            "write it anew: remove it, then spark-spec images lock",
        ) from None  # fmt: skip


def write(lock: Lock) -> Path:
    """Replace the lock. Returns its path. Raises ConfigFault where there is no home for it."""
    path = lock_path()
    if path is None:
        raise ConfigFault("there is no place for the lock", "HOME is not set", "set it, or XDG_CONFIG_HOME")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(lock.model_dump(mode="json"), sort_keys=True, separators=(",", ":")) + "\n")
    _read.cache_clear()
    return path


def engine_key(engine: str, version: str) -> str:
    """How an engine is named in the lock."""
    return f"{engine}:{version}"
