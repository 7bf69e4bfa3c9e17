"""The loop at the edge: carries facts to the lifecycle, does what is due, and writes status.json.

Everything that may block happens in threads (output, journal, probes) that report through one queue.
Standard library only: this file also runs inside every engine image.
"""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from appliance.supervise import counters, memory, needs, probes, status
from appliance.supervise.counters import Reading
from appliance.supervise.journal import Journal
from appliance.supervise.lifecycle import PROBE_S, Do, Lifecycle
from appliance.supervise.output import Output
from appliance.supervise.plan import Plan
from appliance.supervise.process import Engine, Guard
from appliance.supervise.status import READY, STOPPED, WEDGED, Counters, Exit, Status

TICK_S = 0.1  # how long the loop may sleep; a signal, a death or a probe's answer wakes it
HEARTBEAT_S = 1.0
READ_STEP = 1 << 20  # bytes that count as progress: an idle engine's wake-ups read a few now and then
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Supervisor:
    """One supervised engine. Create and run it in the main thread, once a process."""

    def __init__(self, plan: Plan, folder: Path, state: Path, journal: Journal, guard: Guard) -> None:
        self._plan, self._folder, self._state = plan, folder, state
        self._journal, self._guard = journal, guard
        self._pid = os.getpid()
        self._pid_start = status.start_ticks(self._pid) or 0
        self._life = Lifecycle(plan.limits, time.monotonic(), plan.counters is not None)
        self._events: SimpleQueue[tuple[Any, int, Any]] = SimpleQueue()  # (what, of which life, result)
        self._engine: Engine | None = None
        self._output: Output | None = None
        self._moves_seen = 0
        self._read_mark = 0
        self._read_again = 0.0
        self._memory_again = 0.0
        self._exit: Exit | None = None
        self._counters: Counters | None = None
        self._total: Reading | None = None
        self._since = time.time()
        self._shown: Status | None = None
        self._write_failed = False

    def run(self) -> int:
        """Supervise until the engine is stopped or given up: the exit code of the program."""
        for number in STOP_SIGNALS:
            signal.signal(number, lambda number, _: self._events.put(("stop", 0, number)))
        signal.signal(signal.SIGCHLD, lambda *_: self._events.put(("child", 0, None)))
        try:
            self._publish()
            while self._life.exit_code is None:
                self._hear()
                self._observe()
                for do in self._life.due(time.monotonic()):
                    self._do(do)
                self._publish()
            return self._life.exit_code
        finally:
            if self._engine:  # it could not be killed, or a defect of ours ended the loop
                self._engine.sweep()

    # Facts in

    def _hear(self) -> None:
        """Wait for an event for one tick at most, then take all that came."""
        try:
            self._take(*self._events.get(timeout=TICK_S))
            while True:
                self._take(*self._events.get_nowait())
        except Empty:
            return

    def _take(self, what: Any, life: int, result: Any) -> None:
        now = time.monotonic()
        if what == "stop":
            self._say(f"{signal.Signals(result).name}: stopping the engine")
            self._life.stop(now)
        elif what == "child":
            if self._engine:
                self._engine.reap_orphans()
            if lost := self._guard.revive():
                self._say(lost)
        elif life != self._life.starts:
            return  # a late answer of an engine that is gone
        elif what is Do.HEALTH:
            self._life.health(now, result)
        elif what is Do.CHAT:
            self._life.chat(now, *result)
        elif what is Do.COUNT:
            begun, reading = result
            reading = self._summed(reading)
            self._life.counted(now, reading)
            self._keep(begun, reading)

    def _summed(self, reading: Reading | None) -> Reading | None:
        """The total since the engine's start; some engines tell only what is new since they were last asked."""
        table = self._plan.counters
        if reading is None or table is None or table.format not in counters.EMPTIED:
            return reading
        self._total = counters.add(self._total, reading) if self._total else reading
        return self._total

    def _keep(self, begun: float, reading: Reading | None) -> None:
        if reading:
            self._counters = Counters(
                at=begun,
                engine_starts=self._life.starts,
                generated=reading.generated,
                steps=reading.steps,
                drafted=reading.drafted,
                accepted=reading.accepted,
                accepted_per_position=reading.accepted_per_position,
            )

    def _observe(self) -> None:
        """Look at what the engine printed and read, and whether it still lives."""
        engine, output, now = self._engine, self._output, time.monotonic()
        if not engine or not output:
            return
        if output.moves != self._moves_seen:
            self._moves_seen = output.moves
            self._life.moved(now)
        if output.phase:
            self._life.phase_seen(output.phase)
        if self._life.state != READY and now >= self._read_again:
            self._read_again = now + 1.0
            read = engine.bytes_read()
            if read >= self._read_mark + READ_STEP:
                self._life.moved(now)
            if not self._read_mark <= read < self._read_mark + READ_STEP:  # less: a worker process ended
                self._read_mark = read
        if self._plan.limits.memory_floor and now >= self._memory_again:
            self._memory_again = now + 1.0
            if (available := memory.available()) is not None:
                self._life.memory(now, available)
        if engine.ended():
            self._bury(engine, output)

    # What is due

    def _do(self, do: Do) -> None:
        if do is Do.START:
            self._start()
        elif self._engine and do is Do.TERM:
            self._engine.terminate()
        elif self._engine and do is Do.KILL:
            self._say("the engine did not stop: killing it")
            self._engine.kill()
        else:
            self._probe(do)

    def _start(self) -> None:
        plan = self._plan
        self._life.started(time.monotonic())
        self._total = None
        try:
            needs.lay_out(plan.snapshots, self._state)
            needs.check(plan.files)
            self._engine = Engine(plan, self._folder, self._guard)
        except (OSError, ValueError) as error:
            self._record(None, f"could not be started: {error}", ())
            return
        asked = [plan.health_path, plan.chat_path, *([plan.counters.path] if plan.counters else [])]
        self._output = Output(self._engine.output, plan.phases, asked, self._journal.line)
        self._moves_seen = self._read_mark = 0
        self._say(f"started {plan.engine} as process {self._engine.pid}, start {self._life.starts}")

    def _probe(self, do: Do) -> None:
        """Ask in a thread of its own; the answer comes through the queue."""
        life = self._life.starts

        def ask() -> None:
            self._events.put((do, life, self._answer(do)))

        try:
            threading.Thread(target=ask, name=do.name.lower(), daemon=True).start()
        except RuntimeError as error:  # no more threads: the lifecycle takes the probe as lost
            self._say(f"cannot probe: {error}")

    def _answer(self, do: Do) -> Any:
        plan = self._plan
        if do is Do.CHAT:
            return probes.chat(plan.base_url, plan.chat_path, plan.chat_body, plan.limits.wedge_s)
        if do is Do.COUNT and plan.counters:
            return time.time(), probes.count(plan.base_url, plan.counters, PROBE_S)
        return probes.health(plan.base_url, plan.health_path, PROBE_S)

    def _bury(self, engine: Engine, output: Output) -> None:
        """The engine ended: kill what it left, keep its last lines, and let the lifecycle decide."""
        engine.sweep()
        output.drain(1.0)
        code = engine.reap()
        self._engine = self._output = None
        doing = "while ready" if self._life.state == READY else f"while {self._life.phase}"
        if code is not None and code < 0:
            how = f"killed by {_signal_name(-code)} {doing}"
        else:
            how = f"exited with code {code} {doing}"
        self._record(code, how, output.tail())

    def _record(self, code: int | None, how: str, tail: tuple[str, ...]) -> None:
        life = self._life
        reason = (
            life.phase
            if life.wedged or life.starved
            else "stopped on request"
            if life.state == STOPPED
            else how
        )
        signalled = code is not None and code < 0
        self._exit = Exit(
            code=None if signalled else code,
            signal=-code if signalled and code is not None else None,
            reason=reason,
            tail=tail,
            wedged=life.wedged,
        )
        life.ended(time.monotonic(), how)
        self._say(f"the engine ended: {reason}")
        if life.exit_code:
            self._say(f"GIVING UP on {self._plan.stack} after {life.starts} start(s): {reason}")
        elif life.exit_code is None:
            self._say(life.phase)

    # Status out

    def _publish(self) -> None:
        """Write status.json at a change and as a heartbeat. Failing to must not cost a serving engine."""
        fresh, shown = self._snapshot(), self._shown
        if shown and fresh.state != shown.state:
            self._since = fresh.updated
            fresh = replace(fresh, since=self._since)
            if fresh.state in (READY, WEDGED):
                self._say(f"{fresh.state}: {fresh.phase}")
        if shown and fresh.updated - shown.updated < HEARTBEAT_S and _gist(fresh) == _gist(shown):
            return
        self._shown = fresh
        try:
            status.write(self._state, fresh)
        except OSError as error:
            if not self._write_failed:
                self._say(f"cannot write {self._state / status.FILE}, will keep trying: {error}")
            self._write_failed = True
        else:
            self._write_failed = False

    def _snapshot(self) -> Status:
        life, wall = self._life, time.time()
        return Status(
            stack=self._plan.stack,
            digest=self._plan.digest,
            pid=self._pid,
            pid_start=self._pid_start,
            engine_pid=self._engine.pid if self._engine else None,
            state=life.state,
            phase=life.phase,
            since=self._since,
            progress=round(wall - (time.monotonic() - life.moved_at), 3),
            updated=wall,
            starts=life.starts,
            exit=self._exit,
            counters=self._counters,
        )

    def _say(self, text: str) -> None:
        self._journal.line(f"supervise: {text}")


def _gist(shown: Status) -> tuple[object, ...]:
    """What makes a status worth writing before the next heartbeat."""
    return (shown.state, shown.phase, shown.engine_pid, shown.starts, shown.exit)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
