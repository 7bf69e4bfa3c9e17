"""Reads what an engine prints: keeps the last lines, finds phases, counts signs of progress.

Standard library only: this file also runs inside every engine image.
"""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence

from appliance.supervise.plan import Phase

TAIL = 50
MAX_LINE = 8192  # bytes; what is longer is cut into pieces
_BREAK = re.compile(rb"[\r\n]+")  # progress bars end their lines with a carriage return


class Splitter:
    """Bytes in, lines out, whatever the bytes: blank lines are dropped, long ones cut, bad UTF-8 replaced."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        *whole, rest = _BREAK.split(self._rest + data)
        if len(rest) >= MAX_LINE:
            whole.append(rest)
            rest = b""
        self._rest = rest
        return [text for line in whole for text in _pieces(line)]

    def close(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return list(_pieces(rest))


def _pieces(line: bytes) -> Sequence[str]:
    return [line[i : i + MAX_LINE].decode("utf-8", "replace") for i in range(0, len(line), MAX_LINE)]


class Output:
    """One engine's standard output and error, read by one thread until it ends.

    `moves` grows with each line that is a sign of progress. A line that names one of `asked` (the paths
    we ask for ourselves) is not: an access log of our own probes would hide any stall.
    """

    def __init__(
        self, fd: int, phases: Sequence[Phase], asked: Sequence[str], copy: Callable[[str], None]
    ) -> None:
        self.moves = 0
        self.phase: str | None = None
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._phases = [(re.compile(phase.pattern), phase.phase) for phase in phases]
        self._asked = tuple(asked)
        self._copy = copy
        self._fd = fd
        self._thread = threading.Thread(target=self._read_all, name="output", daemon=True)
        self._thread.start()

    def tail(self) -> tuple[str, ...]:
        """The last lines."""
        return tuple(self._tail.copy())

    def drain(self, timeout: float) -> None:
        """Wait for the end of what was printed, for at most `timeout` seconds."""
        self._thread.join(timeout)

    def _read_all(self) -> None:
        splitter = Splitter()
        while data := os.read(self._fd, 65536):
            for line in splitter.feed(data):
                self._take(line)
        for line in splitter.close():
            self._take(line)
        os.close(self._fd)

    def _take(self, line: str) -> None:
        self._tail.append(line)
        self._copy(line)
        if not any(path in line for path in self._asked):
            self.moves += 1
        for pattern, phase in self._phases:
            if found := pattern.search(line):
                self.phase = _expand(found, phase)
                break


def _expand(found: re.Match[str], phase: str) -> str:
    try:
        return found.expand(phase)
    except (re.error, IndexError):  # names a group that the pattern lacks: this thread must not end
        return phase
