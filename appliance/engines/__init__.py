"""The engines by name. Each module is loaded when it is asked for."""

import importlib
from typing import cast, get_args

from appliance.catalog.stack import EngineName
from appliance.core.errors import ConfigFault
from appliance.engines.base import Engine, diagnose

__all__ = ["Engine", "diagnose", "get"]


def get(name: str) -> Engine:
    """The engine of that name. Raises ConfigFault where there is none."""
    if name not in get_args(EngineName):
        raise ConfigFault(
            f"there is no engine {name!r}",
            f"the engines are: {', '.join(get_args(EngineName))}",
            "choose one of them",
        )
    return cast(Engine, importlib.import_module(f"appliance.engines.{name}").ENGINE)
