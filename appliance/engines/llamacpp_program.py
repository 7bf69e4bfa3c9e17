"""The embedded engine's own program: llama.cpp's server in this process. Run by path, with llamacpp.json.

The file maps parameters of xllamacpp's CommonParams, by dotted name, to values. This program only sets them
and handles signals. It needs xllamacpp and the standard library, not the appliance.
"""

import http.client
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import urlsplit

NAME = "llamacpp_program"
METHODS = "speculative.types"
SLOTS_S = 60.0
THREADS = ("cpuparams", "speculative.draft.cpuparams")


def main(arguments: list[str]) -> NoReturn:
    # The load holds Python's lock, so no handler could run: until then the default action ends us at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if len(arguments) != 1:
        sys.exit(f"usage: {NAME}.py llamacpp.json")
    try:
        settings = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        import xllamacpp

        params = xllamacpp.CommonParams()
        for name, value in settings.items():
            set_parameter(xllamacpp, params, name, value)
        for group in THREADS:
            if parameter(params, group).n_threads < 1:
                parameter(params, group).n_threads = len(os.sched_getaffinity(0))
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"{NAME}: {error}")
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        sys.exit(f"{NAME}: the engine did not start: {error} Its own lines above say why.")
    # Destroying the server with a stream in flight hangs for ever, so nothing is torn down: the process goes.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if settings.get(METHODS) and not speculates(server.listening_address):
        say("the draft cannot be used with this target: the engine would serve without speculation")
        os._exit(1)
    say(f"listening on {server.listening_address}")
    while True:
        signal.pause()


def set_parameter(xllamacpp: Any, params: Any, name: str, value: Any) -> None:
    """Set one parameter by its dotted name. Raises ValueError for an unknown name or an impossible value."""
    group, _, last = name.rpartition(".")
    try:
        if name == METHODS:
            kinds = xllamacpp.common_speculative_type
            value = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{method}") for method in value]
        owner = parameter(params, group) if group else params
        getattr(owner, last)  # some groups would take any name
        setattr(owner, last, value)
    except AttributeError as error:
        raise ValueError(f"unknown parameter {name}: {error}") from error
    except (TypeError, OverflowError) as error:
        raise ValueError(f"parameter {name} cannot be {value!r}: {error}") from error


def parameter(params: Any, name: str) -> Any:
    """The parameter, or group of them, of a dotted name. Raises AttributeError."""
    for part in name.split("."):
        params = getattr(params, part)
    return params


def speculates(address: str) -> bool:
    """Whether the engine uses its draft. Where it cannot, it only logs an error and serves on without."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SLOTS_S)
    try:
        connection.request("GET", "/slots")
        slots = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        say(f"the engine did not answer /slots: {error}")
        return False
    finally:
        connection.close()
    return all(slot["speculative"] for slot in slots)


def say(text: str) -> None:
    print(f"{NAME}: {text}", flush=True)  # noqa: T201


def end(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
