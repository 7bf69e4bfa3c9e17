"""The same work for several things at once, in threads that do not outlive an interrupt."""

import queue
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
JOIN_S = 5.0  # for a thread that was told to stop; what is left of it ends with the process
POLL_S = 0.2


class Stopped(Exception):
    """Work was told to end."""


def each(
    items: Iterable[Item], work: Callable[[Item], None], count: int, stop: threading.Event
) -> BaseException | None:
    """Do the work for each item, `count` at a time. The first fault ends all of it, and is returned.

    `stop` is set then, and at an interrupt: long work looks at it, and raises Stopped. The threads are daemons: one
    that waits for somebody must not hold back the end of the process.
    """
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    faults: list[BaseException] = []

    def loop() -> None:
        while not stop.is_set():
            try:
                work(waiting.get_nowait())
            except queue.Empty:
                return
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the threads
                faults.append(error)
                stop.set()

    threads = [threading.Thread(target=loop, daemon=True) for _ in range(min(count, waiting.qsize()))]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not stop.is_set():
            for thread in threads:
                thread.join(POLL_S)
    finally:
        if any(thread.is_alive() for thread in threads):
            stop.set()
            for thread in threads:
                thread.join(JOIN_S)
    return faults[0] if faults else None
