"""Work that an interrupt must not cut in two."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def shielded(told: Callable[[], None]) -> Iterator[None]:
    """Ignore interrupts for a short while; `told` is called at each, to say why nothing happens. Main thread only."""

    def tell(number: int, frame: FrameType | None) -> None:
        del number, frame
        told()

    before = {number: signal.signal(number, tell) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds, for calls that know no bound. Main thread only."""

    def over(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
