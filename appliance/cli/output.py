"""Standard output is the result, standard error is talk. Bars and colour only on a terminal."""

import contextlib
import json
import os
import shutil
import sys
import threading
import time
import unicodedata
from typing import Any

import click

BAR_EVERY_S = 0.1
TICK_S = 0.25
LINE_EVERY_S = 10.0


class Terminal:
    """The Talk of the command line. On a terminal the last line is rewritten, and a clock runs in it while
    something long stands still; elsewhere lines are added."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._phase = ""
        self._label = ""
        self._begun = self._drawn = time.monotonic()
        self._over = threading.Event()
        self._clock: threading.Thread | None = None

    def say(self, line: str) -> None:
        self.close()
        _talk(f"{line}\n")

    def command(self, line: str) -> None:
        self.say(f"$ {line}")

    def phase(self, text: str) -> None:
        if text == self._phase:
            return
        self._phase = text
        if not self._live:
            self.say(f"{text} ...")
            return
        with self._lock:
            self._begun = time.monotonic()
        if self._clock is None:
            self._over.clear()
            self._clock = threading.Thread(target=self._tick, daemon=True)
            self._clock.start()

    def progress(self, label: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if label != self._label:
            self.close()
            self._label, self._begun, self._drawn = label, now, 0.0 if self._live else now
        finished = done == total
        if not finished and now - self._drawn < (BAR_EVERY_S if self._live else LINE_EVERY_S):
            return
        self._drawn = now
        text = f"{label}: {_transfer(done, total, now - self._begun)}"
        if self._live and not finished:
            self._draw(text)
        else:
            self.say(text)
        if finished:
            self._label = ""

    def close(self) -> None:
        """End the line that is being rewritten, if one is."""
        if self._clock is not None:
            self._over.set()
            self._clock.join()
            self._clock = None
        if self._live:
            _talk("\r\033[K")

    def _tick(self) -> None:
        while True:
            with self._lock:
                self._draw(f"{self._phase} ... {time.monotonic() - self._begun:.0f} s")
            if self._over.wait(TICK_S):
                return

    @staticmethod
    def _draw(text: str) -> None:
        width = shutil.get_terminal_size().columns
        _talk(f"\r\033[K{text[: width - 1]}")


def _talk(text: str) -> None:
    """To standard error. Where nobody listens any more, or nobody ever did, the work goes on all the same."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, nl=False, err=True)


def plain(text: str) -> str:
    """Text of others for standard output. A terminal obeys control characters, and a model, or an engine's log,
    must not command it; elsewhere the text is left as it is."""
    if not sys.stdout.isatty():
        return text
    return "".join(char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")


def _transfer(done: int, total: int | None, elapsed: float) -> str:
    rate = done / elapsed if elapsed > 0 else 0.0
    text = f"{size(done)}" + (f" of {size(total)}" if total else "")
    if rate > 0 and elapsed > 1:
        text += f", {size(int(rate))}/s"
        if total and done < total:
            text += f", {(total - done) / rate:.0f} s left"
    return text


def size(count: int) -> str:
    """Bytes for a person: 98 MB, 65.2 GB (powers of ten)."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def result(text: str) -> None:
    """A line of the result."""
    click.echo(text)


def result_json(data: Any) -> None:
    """The result as JSON, indented, in the order it was built."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def table(rows: list[tuple[str, ...]], head: tuple[str, ...] | None = None) -> None:
    """Columns as wide as they need to be."""
    shown = ([head] if head else []) + rows
    if not shown:
        return
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    for row in shown:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
