"""The loop to ready: as long as something moves it waits; when nothing moves, or all is over, it says so."""

import time
from collections.abc import Callable, Sequence

from appliance.core.errors import EngineDied, NoProgress, SparkSpecError
from appliance.engines.base import Death, diagnose
from appliance.health.state import ABSENT, Health, classify
from appliance.runtime.base import Observed
from appliance.supervise import status

LOOK_S, SLOW_S = 0.5, 1.0  # looking costs the daemon some work, which a loading engine misses
LOOK_FOR_S = 20.0
KNOCK_S = 0.1  # a knock at the port costs next to nothing
SPEAK_FIRST_S = 30.0
SHOWN_LINES = 10


def wait_ready(
    observe: Callable[[], Observed],
    hears: Callable[[], bool],
    answers: Callable[[], bool],
    last_lines: Callable[[], Sequence[str]],
    deaths: tuple[Death, ...],
    *,
    stall_s: float,
    wedge_s: float,
    say: Callable[[Health], None],
) -> Observed:
    """Wait until the engine is ready and a token came back through the published port.

    `answers` asks for one and is True when it came; `hears` does so too, from long before: it costs next to
    nothing while nobody listens, and never raises. `last_lines` is the log, for a death that left no word.
    Raises EngineDied with a diagnosis and the last lines, or NoProgress when nothing moved for `stall_s`, or
    when a ready engine owes us a token for `wedge_s`. The supervisor watches the same bounds from inside and
    knows more, so it is given time to speak first.
    """
    begun = moved = time.monotonic()
    last: tuple[object, ...] = ()
    heard = False
    while True:
        observed = observe()
        health = classify(observed, time.time())
        marks = (health, observed.status.progress if observed.status else None)
        if marks != last:
            last, moved = marks, time.monotonic()
        say(health)
        if health.state == status.READY and (heard or answers()):
            return observed
        if is_over(observed, health):
            raise verdict(observed, health, last_lines(), deaths)
        silence = time.monotonic() - moved
        patience = wedge_s if health.state == status.READY else stall_s
        if silence > SPEAK_FIRST_S + (patience if observed.status else 0.0):
            raise NoProgress(
                "the engine is not ready",
                f"nothing moved for {silence:.0f} s while {health.phase or health.state}",
                with_lines("health.stall_s sets the patience; `spark-spec logs` shows more", last_lines()),
            )
        heard = _rest(LOOK_S if time.monotonic() - begun < LOOK_FOR_S else SLOW_S, hears)


def _rest(most_s: float, hears: Callable[[], bool]) -> bool:
    """Rest until a token comes, or for `most_s`. Whether one came."""
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        time.sleep(KNOCK_S)
        if hears():
            return True
    return False


def is_over(observed: Observed, health: Health) -> bool:
    """Whether this start failed. One that the runtime repeats is over too: it would fail alike."""
    return (
        health.state in (status.WEDGED, status.EXITED, status.STOPPED, ABSENT)
        or (observed.restarts > 0 and health.state == status.STARTING)
    )  # fmt: skip


def verdict(
    observed: Observed, health: Health, lines: Sequence[str], deaths: tuple[Death, ...]
) -> SparkSpecError:
    """The error for a start that is over. Pure."""
    ended = observed.status.exit if observed.status else None
    tail = ended.tail if ended and ended.tail else tuple(lines)
    if health.state == status.WEDGED or (ended and ended.wedged):
        return NoProgress(
            "the engine does not get ready",
            (ended.reason if ended else "") or health.reason,
            with_lines("read the last lines; health.stall_s and health.wedge_s set the patience", tail),
        )
    reason = (ended.reason if ended else "") or health.reason
    known = diagnose((*tail, reason), deaths)
    why = known.why if known else reason or "it is gone"
    fix = known.fix if known else "read the last lines"
    return EngineDied("the engine died", why, with_lines(fix, tail))


def with_lines(fix: str, tail: Sequence[str]) -> str:
    """A remedy, and the last lines of the log below it."""
    shown = "\n".join(f"    {line}" for line in tail[-SHOWN_LINES:])
    return f"{fix}\n  last lines:\n{shown}" if shown else fix
