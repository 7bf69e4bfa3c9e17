"""What the supervisor decides. Pure: it is told facts and the time, and asked what is due.

Times are seconds of a monotonic clock. The way of a life:

    starting --a token came--> ready --> wedged or died --> starting again, or exited
        `--no progress, no token, or died--> exited            (a stop asked for: stopped)

A start that failed before the first token of this supervisor is not repeated: it would fail again, and on a
unified-memory machine each failed load costs minutes and memory that the driver gives back late.

A chat probe asks for a token and the engine counts it: the counters include the probes, one token each. An
idle engine is probed every `probe_every_s`; one with requests in flight only when its counters stand still.
"""

from enum import Enum, auto

from appliance.supervise.counters import Reading
from appliance.supervise.plan import Limits
from appliance.supervise.status import EXITED, READY, STARTING, STOPPED, WEDGED

EXIT_STOPPED, EXIT_DIED, EXIT_WEDGED = 0, 6, 7

EAGER_S = 10.0  # how long after a start health is asked for every EAGER_POLL_S
EAGER_POLL_S = 0.05
POLL_S = 1.0
PROBE_S = 5.0  # how long a health or counter probe may take
LOST_S = 10.0  # a probe that has not reported this long after its limit is taken as lost
LOW_S = 2.0  # how long memory may be below the floor: a load that is about to end gives some back
LOW_STOP_S = 2.0  # an engine that starves the machine gets no more time than this to end
UNDEAD_S = 10.0  # how long a killed engine may hang in the kernel before it is given up


class Do(Enum):
    """What is due. HEALTH, CHAT and COUNT are probes: each is answered by the fact of the same name."""

    START = auto()
    HEALTH = auto()
    CHAT = auto()
    COUNT = auto()
    TERM = auto()
    KILL = auto()


class Lifecycle:
    """One engine's lives. Read `state`, `phase`, `starts`, `moved_at`, `wedged`; `exit_code` ends them."""

    def __init__(self, limits: Limits, now: float, counted: bool) -> None:
        self.state = STARTING
        self.phase = "starting"
        self.starts = 0
        self.moved_at = now
        self.wedged = False
        self.starved = False
        self.exit_code: int | None = None
        self._limits = limits
        self._counted = counted
        self._running = False
        self._start_at = now
        self._ever_ready = False
        self._restarts = 0
        self._stop_asked = False
        self._new_life(now)

    def _new_life(self, now: float) -> None:
        self._started_at = self._ready_at = self._token_at = self.moved_at = now
        self._owed_since: float | None = None  # since when a token is owed to us
        self._why = "no answer yet"  # what the last chat probe that brought no token met
        self._busy = False
        self._mark: tuple[int | None, int | None] | None = None
        self._kill_at: float | None = None
        self._killed = False
        self._term_due = False
        self._low_since: float | None = None
        self._again: dict[Do, float] = {}  # when each probe may be sent again
        self.wedged = False

    # Facts

    def started(self, now: float) -> None:
        """The engine process exists."""
        self._running = True
        self.starts += 1
        self._new_life(now)
        self.state, self.phase = STARTING, "starting"

    def moved(self, now: float) -> None:
        """It printed something, or read a good piece of a file."""
        self.moved_at = now

    def phase_seen(self, phase: str) -> None:
        """Its log names what it does now."""
        if self.state == STARTING and self._running:
            self.phase = phase

    def health(self, now: float, good: bool) -> None:
        """The health probe reported. Once good, a token is owed, and only chat is asked."""
        eager = now - self._started_at < EAGER_S
        self._again[Do.HEALTH] = now + (EAGER_POLL_S if eager else POLL_S)
        if good and self._running and self.state == STARTING and self._owed_since is None:
            self._owed_since = self.moved_at = now
            self.phase = "waiting for the first token"

    def chat(self, now: float, token: bool, why: str = "") -> None:
        """The chat probe reported: a token, or why there is none."""
        self._again[Do.CHAT] = now + POLL_S
        if not self._running or self._kill_at is not None:
            return
        if not token:
            self._why = why
            return
        self._token_moved(now)
        if self.state == STARTING:
            self.state, self.phase = READY, "serving"
            self._ready_at, self._ever_ready = now, True

    def counted(self, now: float, reading: Reading | None) -> None:
        """The counters were read, or could not be: an engine that hides them is taken to be busy."""
        self._again[Do.COUNT] = now + POLL_S
        if self.state != READY:
            return
        self._busy = reading is None or (reading.active or 0) > 0
        if reading is None:
            return
        mark = (reading.progress, reading.generated)
        if self._mark is not None and mark != self._mark:
            self._token_moved(now)
        self._mark = mark

    def memory(self, now: float, available: int) -> None:
        """The bytes that the machine can still give. Below the floor the engine has to go, for good: on unified
        memory the machine would stand still before anything is killed, and a restart would end alike."""
        floor = self._limits.memory_floor
        if available >= floor:
            self._low_since = None
        elif self._low_since is None:
            self._low_since = now
        elif now - self._low_since >= LOW_S and self._running and self._kill_at is None:
            self.starved = True
            self.state = EXITED
            self.phase = (
                f"stopped to save the machine: {available / 2**30:.1f} GiB of memory were left, "
                f"the floor is {floor / 2**30:.1f} GiB"
            )
            self._kill_at = now + min(LOW_STOP_S, self._limits.stop_s)
            self._term_due = True

    def stop(self, now: float) -> None:
        """A signal asked for the end; the second one does not wait."""
        if self._stop_asked:
            self._kill_at = now
            return
        self._stop_asked = True
        self.state, self.phase = STOPPED, "stopping"
        if self._running:
            self._end(now)
        else:
            self._finish(STOPPED, "stopped on request", EXIT_STOPPED)

    def ended(self, now: float, how: str) -> None:
        """The engine and all that it left behind are gone."""
        self._running = False
        limits = self._limits
        if self._stop_asked:
            self._finish(STOPPED, "stopped on request", EXIT_STOPPED)
        elif self.starved:
            self._finish(EXITED, self.phase, EXIT_DIED)
        elif self._ever_ready and self._restarts < limits.restarts:
            wait = limits.backoff_s * 2**self._restarts
            self._restarts += 1
            self._start_at = now + wait
            self.state = STARTING
            self.phase = f"restart {self._restarts} of {limits.restarts} in {wait:g} s"
        else:
            reason = self.phase if self.wedged else how
            self._finish(EXITED, reason, EXIT_WEDGED if self.wedged else EXIT_DIED)

    # Decisions

    def due(self, now: float) -> list[Do]:
        """What to do now. A probe is handed out once, and again only after it reported or got lost."""
        if self.exit_code is not None:
            return []
        if not self._running:
            return [Do.START] if now >= self._start_at else []
        if self._kill_at is None:
            self._judge(now)
        if self._kill_at is not None:
            return self._ending(now, self._kill_at)
        return [do for do in self._wanted(now) if self._take(do, now)]

    def _judge(self, now: float) -> None:
        limits = self._limits
        if self._owed_since is not None:
            if now - self._owed_since >= limits.wedge_s:
                when = "while starting, although health is good" if self.state == STARTING else "while ready"
                self._wedge(now, f"no token for {limits.wedge_s:g} s {when} ({self._why})")
        elif self.state == STARTING and now - self.moved_at >= limits.stall_s:
            self._wedge(now, f"no progress for {limits.stall_s:g} s while {self.phase}")
        elif self.state == READY and now - self._ready_at >= limits.stable_s:
            self._restarts = 0

    def _wanted(self, now: float) -> list[Do]:
        if self.state == STARTING:
            return [Do.HEALTH if self._owed_since is None else Do.CHAT]
        quiet = self._limits.wedge_s if self._busy else self._limits.probe_every_s
        if (
            self._owed_since is None
            and now - self._token_at >= quiet
            and now >= self._again.get(Do.CHAT, now)
        ):
            self._owed_since = now
        wanted = [Do.COUNT] if self._counted else []
        return wanted if self._owed_since is None else [*wanted, Do.CHAT]

    def _take(self, do: Do, now: float) -> bool:
        if now < self._again.get(do, now):
            return False
        self._again[do] = now + (self._limits.wedge_s if do is Do.CHAT else PROBE_S) + LOST_S
        return True

    def _token_moved(self, now: float) -> None:
        self._token_at = self.moved_at = now
        self._owed_since = None

    def _wedge(self, now: float, reason: str) -> None:
        self.state, self.phase, self.wedged = WEDGED, reason, True
        self._end(now)

    def _end(self, now: float) -> None:
        if self._kill_at is None:
            self._kill_at = now + self._limits.stop_s
            self._term_due = True

    def _ending(self, now: float, kill_at: float) -> list[Do]:
        if self._killed:
            if now - kill_at >= UNDEAD_S:
                self._finish(EXITED, "the engine hangs in the kernel and cannot be killed", EXIT_DIED)
            return []
        if now >= kill_at:
            self._killed = True
            return [Do.KILL]
        due = [Do.TERM] if self._term_due else []
        self._term_due = False
        return due

    def _finish(self, state: str, phase: str, code: int) -> None:
        self.state, self.phase, self.exit_code = state, phase, code
