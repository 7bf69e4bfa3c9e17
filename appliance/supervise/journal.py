"""Where the engine's lines and the supervisor's own go: standard output, or a file that is rotated.

Writing happens in a thread of its own, behind a bounded buffer: a slow, full or closed sink costs lines,
never the engine. Standard library only.
"""

import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Protocol

MAX_PENDING = 8 << 20  # bytes that may wait for a slow sink
MAX_FILE = 10_000_000
FILES = 3  # the log and its older parts, NAME.1 the younger


class Sink(Protocol):
    """Takes whole lines. Raises OSError where it cannot."""

    def write(self, data: bytes) -> None: ...


class Stdout:
    """The supervisor's own standard output."""

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]


class RotatedFile:
    """Appends to a file; a write that would pass `max_bytes` turns it into NAME.1 first."""

    def __init__(self, path: Path, max_bytes: int = MAX_FILE) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def write(self, data: bytes) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size + len(data) > self._max_bytes:
                self._rotate()
        with self._path.open("ab") as file:
            file.write(data)

    def _rotate(self) -> None:
        names = [self._path, *(Path(f"{self._path}.{i}") for i in range(1, FILES))]
        for older, younger in zip(reversed(names), reversed(names[:-1]), strict=False):
            with suppress(FileNotFoundError):
                younger.replace(older)


class Journal:
    """Never blocks the caller and never raises; says how many lines were lost once it can write again."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def line(self, text: str) -> None:
        """Take one line, or lose it where too much waits already."""
        data = text.encode("utf-8", "replace") + b"\n"
        with self._changed:
            if self._bytes + len(data) > MAX_PENDING:
                self._lost += 1
                return
            self._waiting.append(data)
            self._bytes += len(data)
            self._changed.notify()

    def close(self, timeout: float) -> None:
        """Write what waits, for at most `timeout` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout)

    def _write_all(self) -> None:
        while batch := self._take():
            with self._changed:
                lost, self._lost = self._lost, 0
            note = f"supervise: {lost} lines of log were lost\n".encode() if lost else b""
            try:
                self._sink.write(b"".join(batch) + note)
            except OSError:  # closed, full: the next batch tries again
                with self._changed:
                    self._lost += lost + len(batch)

    def _take(self) -> list[bytes]:
        """The next lines, at most 1 MiB of them; none once closed and empty."""
        batch: list[bytes] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            while self._waiting and size < 1 << 20:
                batch.append(self._waiting.popleft())
                size += len(batch[-1])
            self._bytes -= size
        return batch
