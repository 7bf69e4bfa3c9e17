"""The loop to ready: as long as something moves it waits; when nothing moves, or all is over, it says so."""

import time
from collections.abc import Callable

from appliance.core.errors import EngineDied, NoProgress, SparkSpecError
from appliance.engines import diagnose
from appliance.engines.base import Death
from appliance.health.state import ABSENT, Health, classify
from appliance.runtime.base import Observed
from appliance.supervise import status

FAST_S, SLOW_S = 0.1, 1.0
FAST_FOR_S = 20.0
SPEAK_FIRST_S = 30.0


def wait_ready(
    observe: Callable[[], Observed],
    answers: Callable[[], bool],
    deaths: tuple[Death, ...],
    *,
    stall_s: float,
    wedge_s: float,
    say: Callable[[Health], None],
) -> Observed:
    """Wait until the engine is ready and a token came back through the published port.

    `answers` asks for one and is True when it came. Raises EngineDied with a diagnosis and the last lines, or
    NoProgress when nothing moved for `stall_s`, or when a ready engine owes us a token for `wedge_s`. The
    supervisor watches the same bounds from inside and knows more, so it is given time to speak first.
    """
    begun = moved = time.monotonic()
    last: tuple[object, ...] = ()
    while True:
        observed = observe()
        health = classify(observed, time.time())
        marks = (health, observed.status.progress if observed.status else None)
        if marks != last:
            last, moved = marks, time.monotonic()
        say(health)
        if health.state == status.READY and answers():
            return observed
        ended = verdict(observed, health, deaths)
        if ended:
            raise ended
        silence = time.monotonic() - moved
        patience = wedge_s if health.state == status.READY else stall_s
        if silence > SPEAK_FIRST_S + (patience if observed.status else 0.0):
            raise NoProgress(
                "the engine is not ready", f"nothing moved for {silence:.0f} s while {health.phase or health.state}",
                "`spark-spec logs` shows where it stands; health.stall_s sets the patience",
            )  # fmt: skip
        time.sleep(FAST_S if time.monotonic() - begun < FAST_FOR_S else SLOW_S)


def verdict(observed: Observed, health: Health, deaths: tuple[Death, ...]) -> SparkSpecError | None:
    """The error for a start that is over, or None where it may yet succeed. Pure."""
    tail = observed.status.exit.tail if observed.status and observed.status.exit else ()
    if health.state == status.WEDGED:
        return NoProgress("the engine is wedged", health.reason, _lines(tail, "`spark-spec logs` shows more"))
    if health.state in (status.EXITED, status.STOPPED, ABSENT):
        known = diagnose(tail, deaths)
        why = known.why if known else health.reason or "it is gone"
        fix = known.fix if known else "read the last lines"
        stalled = bool(observed.status and observed.status.exit and observed.exit_code == NoProgress.code)
        kind = NoProgress if stalled else EngineDied
        return kind(
            "the engine did not become ready" if stalled else "the engine died", why, _lines(tail, fix)
        )
    return None


def _lines(tail: tuple[str, ...], fix: str) -> str:
    last = "\n".join(f"    {line}" for line in tail[-10:])
    return f"{fix}\n  last lines:\n{last}" if last else fix
