"""How a stand-in starts: what `standin.json` says, its log, its socket, and its end."""

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from standin.mood import MOODS

SECRET_WORDS = {"TOKEN", "SECRET", "SECRETS", "PASSWORD"}


@dataclass(frozen=True)
class Plan:
    """How it starts. Times are in seconds; the phases follow each other in this order."""

    mood: str = "well"
    refused_s: float = 0.5  # bound, but not listening, while it loads
    reset_s: float = 0.0  # connections are accepted and reset
    starting_s: float = 0.5  # 503
    die_while_loading: dict[str, Any] | None = None  # {"line": its last words, "code": its exit code}
    stall_while_loading: bool = False  # nothing moves any more, for ever
    hide_spec_counters: bool = False  # it speculates, but its counters of it stay at zero or away


def read_plan(folder: Path) -> Plan:
    """`standin.json` in a model's folder, or the defaults. An unknown key is a ValueError."""
    path = folder / "standin.json"
    given = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    unknown = set(given) - {field.name for field in fields(Plan)}
    if unknown:
        raise ValueError(f"standin.json: unknown keys {sorted(unknown)}")
    plan = Plan(**given)
    if plan.mood not in MOODS:
        raise ValueError(f"standin.json: moods are {MOODS}")
    return plan


def say(line: str) -> None:
    print(line, flush=True)


def complain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def traceback(program: str, text: str) -> None:
    """The end of a Python traceback, as the engine's own would be."""
    complain(
        "Traceback (most recent call last):\n"
        f'  File "{program}", line 8, in <module>\n    sys.exit(main())\n             ^^^^^^\n{text}'
    )


def look_at_environment() -> None:
    """An engine needs no secret: one that it got is noted in its log."""
    for name in sorted(os.environ):
        if "API_KEY" in name.upper() or SECRET_WORDS & set(name.upper().split("_")):
            say(f"standin: SECRET IN ENVIRONMENT {name}")


def set_twice(keys: Iterable[str]) -> None:
    for key in keys:
        say(f"standin: SET TWICE {key}")


def end_on_signals(code: int, clean: Callable[[], None]) -> None:
    """SIGTERM and SIGINT end it at once with this exit code."""

    def end(_number: int, _frame: FrameType | None) -> NoReturn:
        clean()
        os._exit(code)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound but does not listen: connections are refused. Raises OSError."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    return bound


def pace(lines: Iterable[str], seconds: float) -> Iterator[str]:
    """Lines, spread evenly over so many seconds."""
    listed = list(lines)
    for line in listed:
        yield line
        time.sleep(seconds / len(listed))


def reset_for(listening: socket.socket, seconds: float) -> None:
    """Accept connections and reset them."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        listening.settimeout(left)
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    listening.settimeout(None)
