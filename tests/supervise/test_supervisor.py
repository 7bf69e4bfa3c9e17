"""The supervisor as a program, over the fake engine: real processes, signals and files."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.supervise import memory, status
from appliance.supervise.plan import CounterTable, File, Snapshot
from appliance.supervise.process import GUARDS
from appliance.supervise.status import EXITED, READY, STARTING, STOPPED, WEDGED, Status
from tests.fakes import hub_cache

Make = Callable[..., Any]


def ask(one: Any, tokens: int = 8, timeout: float = 10.0) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=timeout)
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": tokens}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def grandchild(one: Any) -> int:
    found = one.eventually(lambda: re.search(r"^grandchild (\d+)$", one.said(), re.MULTILINE), "a grandchild")
    return int(found[1])


def guard_of(one: Any) -> int:
    """The supervisor's child that runs guard.py."""

    def found() -> int:
        for child in Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split():
            if b"guard.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        return 0

    return int(one.eventually(found, "a guard"))


# Starting


def test_ready_after_a_slow_load_that_tells_its_phases(supervised: Make) -> None:
    one = supervised("--load-lines", "5", "--load-every", "0.2").start()
    loading = one.until(lambda shown: re.fullmatch(r"loading weights [1-4]/5", shown.phase))
    assert (loading.state, loading.starts, loading.exit) == (STARTING, 1, None)
    shown = one.ready()
    assert (shown.pid, shown.pid_start) == (one.pid, status.start_ticks(one.pid))
    assert one.alive(shown.engine_pid)
    one.eventually(lambda: "supervise: ready" in one.said(), "a word about it")


def test_refused_reset_eof_and_503_all_mean_starting(supervised: Make) -> None:
    load = ("--load-lines", "5", "--load-every", "0.2", "--while-loading")
    for one in [supervised(*load, how).start() for how in ("refuse", "reset", "eof", "503")]:
        assert one.until(lambda shown: shown.state != STARTING).state == READY
        assert one.status().starts == 1


def test_the_first_status_names_the_process_before_the_engine_answers(supervised: Make) -> None:
    one = supervised("--load-silent", "60").start()
    shown = one.until(lambda shown: shown.engine_pid)
    assert (shown.stack, shown.digest, shown.pid, shown.state) == ("demo", "0" * 64, one.pid, STARTING)


def test_the_engine_runs_beside_its_plan_with_its_environment(supervised: Make) -> None:
    one = supervised("--say-env", "TOKEN", "--say-env", "INHERITED", env={"TOKEN": "hf_x$oauthtoken"})
    one.start(env={**os.environ, "INHERITED": "yes"})
    shown = one.ready()
    assert Path(f"/proc/{shown.engine_pid}/cwd").readlink() == one.release
    assert "\nTOKEN=hf_x$oauthtoken\nINHERITED=yes\n" in one.said()


def test_silence_is_no_stall_while_much_is_read(supervised: Make) -> None:
    one = supervised("--load-reads", "2.2", stall_s=1.3).start()
    assert one.ready().starts == 1


def test_an_access_log_of_our_own_probes_hides_no_stall(supervised: Make) -> None:
    one = supervised("--while-loading", "503", "--access-log", "--load-silent", "60", stall_s=1.5).start()
    assert one.code() == 7
    shown = one.end()
    assert (shown.state, shown.phase) == (EXITED, "no progress for 1.5 s while starting")
    assert shown.exit and shown.exit.wedged and "/health" in shown.exit.tail[-1]


def test_health_without_tokens_is_wedged(supervised: Make) -> None:
    """Case 27: no answer at all, and answers without content."""
    mute = ("--mute-after", "0", "--ignore-sigterm", "--mute")
    for one in [supervised(*mute, how, wedge_s=1.2, stop_s=1.0).start() for how in ("hang", "empty")]:
        wedged = one.until(lambda shown: shown.state in (WEDGED, EXITED))
        assert "no token for 1.2 s" in wedged.phase
        assert one.code() == 7
        shown = one.end()
        assert (shown.state, shown.engine_pid, shown.starts) == (EXITED, None, 1)
        assert shown.exit and shown.exit.wedged and "no token for 1.2 s" in shown.exit.reason


def test_a_refused_chat_is_not_ready_and_its_text_is_kept(supervised: Make) -> None:
    one = supervised("--chat-status", "400", wedge_s=1.0).start()
    assert one.code() == 7
    assert "HTTP 400" in one.end().phase and "as asked for" in one.end().phase


def test_an_early_death_keeps_its_last_lines(supervised: Make) -> None:
    """Case 26."""
    words = "RuntimeError: CUDA error: out of memory"
    one = supervised("--say", "hello", "--load-silent", "60", "--die-after", "0.3", "--die-message", words)
    assert one.start().code() == 6
    shown = one.end()
    assert (shown.state, shown.starts, shown.engine_pid) == (EXITED, 1, None)
    assert shown.exit == status.Exit(1, None, "exited with code 1 while starting", ("hello", words))
    assert f"{words}\n" in one.said() and "GIVING UP on demo after 1 start(s)" in one.said()


def test_a_death_by_signal_is_named(supervised: Make) -> None:
    one = supervised(restarts=0).start()
    os.kill(one.ready().engine_pid, signal.SIGSEGV)
    assert one.code() == 6
    ended = one.end().exit
    assert ended and (ended.code, ended.signal) == (None, signal.SIGSEGV)
    assert ended.reason == "killed by SIGSEGV while ready"


def test_a_program_that_is_not_there_is_an_early_death(supervised: Make) -> None:
    one = supervised()
    object.__setattr__(one.plan, "argv", ("no-such-engine", "--port"))
    assert one.start().code() == 6
    ended = one.end().exit
    assert ended and ended.code == 127
    assert ended.tail == ("cannot start no-such-engine: No such file or directory",)


@pytest.mark.parametrize("what", ["a snapshot", "refs", "a vocabulary", "another vocabulary"])
def test_what_an_engine_needs_and_is_not_there_ends_the_start_with_that_reason(
    supervised: Make, what: str
) -> None:
    one = supervised("--say", "up", restarts=2)
    cache, file = one.folder / "models--a--b", one.folder / "o200k_base.tiktoken"
    revision = None if what == "refs" else "0" * 40
    snapshots = (Snapshot("a/b", str(cache), revision),) if what in ("a snapshot", "refs") else ()
    files = (File(str(file), "1" * 64, "a vocabulary of the harmony format"),) if not snapshots else ()
    if what == "another vocabulary":
        file.write_text("other")
    one.plan = replace(one.plan, snapshots=snapshots, files=files)
    assert one.start().code() == 6
    reason = {
        "a snapshot": f"{cache} has no snapshot {revision}",
        "refs": f"{cache} has no refs/main that names a commit: no whole download is in it",
        "a vocabulary": f"{file} is not there: a vocabulary of the harmony format",
        "another vocabulary": f"{file} is not a vocabulary of the harmony format: its sha256 is ",
    }[what]
    shown = one.end()
    assert (shown.state, shown.starts, shown.engine_pid) == (EXITED, 1, None)
    assert shown.exit and shown.exit.reason.startswith(f"could not be started: {reason}")
    assert (
        "up\n" not in one.said() and f"GIVING UP on demo after 1 start(s): {shown.exit.reason}" in one.said()
    )


def test_models_are_laid_out_before_the_engine_starts(supervised: Make) -> None:
    one = supervised()
    hub_cache.make(one.folder / "hub", "a/b", config={})
    one.plan = replace(one.plan, snapshots=(Snapshot("a/b", str(one.folder / "hub" / "models--a--b"), None),))
    one.start().ready()
    assert (one.state / "models" / "a" / "b" / "config.json").is_file()
    assert (one.state / "hub" / "models--a--b" / "refs" / "main").read_text() == hub_cache.REVISION


# Ready


def test_counters_are_in_the_status(supervised: Make) -> None:
    one = supervised("--k", "3", "--accepted", "2").start()
    one.ready()
    assert ask(one, tokens=9)["usage"]["completion_tokens"] == 9
    counters = one.until(lambda shown: shown.counters and shown.counters.generated == 10).counters
    assert counters.engine_starts == 1
    # 1 + 9 tokens: one step for the probe, three steps of three tokens for the question
    assert (counters.steps, counters.drafted, counters.accepted) == (4, 12, 8)
    assert counters.accepted_per_position == (4, 4, 0)


DRAINING = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("engine", sys.argv.pop(1))
engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine)
told = 0

def metrics(self):
    global told
    with self.lock:
        fresh, told = self.steps - told, self.steps
        row = {"numActiveRequests": self.active, "spec": {"steps": 1, "drafted": 3, "accepted": 2}}
        return json.dumps([row] * fresh)

engine.Engine.metrics = metrics
engine.main()
"""


def test_counters_that_a_reading_empties_are_summed_over_the_readings(supervised: Make) -> None:
    one = supervised("--k", "3", "--accepted", "2")
    program = one.folder / "draining.py"
    program.write_text(DRAINING)
    python, *isolated, fake = one.plan.argv[:4]
    names = {name: f"spec.{name}" for name in ("steps", "drafted", "accepted")}
    one.plan = replace(
        one.plan,
        argv=(python, *isolated, str(program), fake, *one.plan.argv[4:]),
        counters=CounterTable("/metrics", "iterations", names | {"active": "numActiveRequests"}),
    )
    one.start().ready()
    for asked in (1, 2, 3):  # one step for the probe, three for each question
        ask(one, tokens=9)
        steps = 1 + 3 * asked
        counters = one.until(lambda shown, n=steps: shown.counters and shown.counters.steps == n).counters
        assert (counters.drafted, counters.accepted) == (3 * steps, 2 * steps)
    before = one.status().counters.at
    still = one.until(lambda shown: shown.counters.at > before).counters
    assert (still.steps, still.generated) == (10, None)
    os.kill(one.status().engine_pid, signal.SIGKILL)
    anew = one.until(lambda shown: shown.counters and shown.counters.engine_starts == 2).counters
    assert anew.steps is None or anew.steps == 1  # a new engine counts from nought


def test_a_reading_is_stamped_with_when_it_was_begun(supervised: Make) -> None:
    """All that ended before the stamp is in it: whoever asked something need not wait for a second reading."""
    one = supervised("--tokens", "10").start()
    one.ready()
    ask(one, tokens=10)
    ended = time.time()
    counters = one.until(lambda shown: shown.counters and shown.counters.at > ended).counters
    assert counters.generated >= 10


def test_without_speculation_its_counters_are_unknown(supervised: Make) -> None:
    one = supervised().start()
    counters = one.until(lambda shown: shown.counters).counters
    assert (counters.generated, counters.steps, counters.accepted) == (1, None, None)


def test_status_stays_fresh_and_counts_no_restart_for_a_long_answer(supervised: Make) -> None:
    """One answer of several times wedge_s: the decode counter moves, the token total only at its end."""
    one = supervised("--token-every", "0.2", wedge_s=1.5, probe_every_s=1.5).start()
    before = one.ready()
    assert ask(one, tokens=12)["usage"]["completion_tokens"] == 12
    after = one.until(lambda shown: shown.updated > before.updated + 2)
    assert (after.state, after.starts) == (READY, 1)


def test_an_engine_that_stops_giving_tokens_is_wedged_and_restarted(supervised: Make) -> None:
    one = supervised("--mute-after", "1", restarts=1, wedge_s=1.2, probe_every_s=0.3).start()
    first = one.ready()
    wedged = one.until(lambda shown: shown.exit)
    assert wedged.exit.wedged and "no token for 1.2 s while ready" in wedged.exit.reason
    second = one.until(lambda shown: shown.state == READY and shown.starts == 2)
    assert second.engine_pid != first.engine_pid
    assert one.code() == 7
    assert one.end().starts == 2


def test_a_crash_loop_ends_loudly(supervised: Make) -> None:
    """Case 28."""
    one = supervised("--die-after-ready", "0.2", "--die-message", "boom", restarts=2).start()
    assert one.code() == 6
    shown = one.end()
    assert (shown.state, shown.starts) == (EXITED, 3)
    assert shown.exit and shown.exit.tail[-1] == "boom"
    assert "GIVING UP on demo after 3 start(s): exited with code 1 while ready" in one.said()
    assert one.said().count("boom\n") == 3


def test_an_engine_that_was_killed_comes_back(supervised: Make) -> None:
    one = supervised().start()
    first = one.ready()
    os.kill(first.engine_pid, signal.SIGKILL)
    second = one.until(lambda shown: shown.state == READY and shown.starts == 2)
    assert second.exit and second.exit.signal == signal.SIGKILL
    assert second.counters is None or second.counters.engine_starts in (1, 2)
    assert one.until(lambda shown: shown.counters and shown.counters.engine_starts == 2).state == READY


# Stopping


def test_a_signal_is_forwarded_and_ends_with_zero(supervised: Make) -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for one, number in [(supervised().start(), number) for number in numbers]:
        engine = one.ready().engine_pid
        os.kill(one.pid, number)
        assert one.code() == 0
        shown = one.end()
        assert (shown.state, shown.engine_pid) == (STOPPED, None)
        assert shown.exit == status.Exit(0, None, "stopped on request", shown.exit.tail)
        assert not one.alive(engine)


def test_a_stop_while_loading_ends_with_zero(supervised: Make) -> None:
    one = supervised("--say", "up", "--load-silent", "60").start()
    one.eventually(lambda: "up\n" in one.said())
    os.kill(one.pid, signal.SIGTERM)
    assert one.code() == 0
    assert one.end().state == STOPPED


def test_an_engine_that_ignores_the_signal_is_killed(supervised: Make) -> None:
    one = supervised("--ignore-sigterm", stop_s=0.5).start()
    engine = one.ready().engine_pid
    os.kill(one.pid, signal.SIGTERM)
    assert one.code() == 0
    assert one.end().exit.signal == signal.SIGKILL
    assert not one.alive(engine)


def test_a_second_signal_does_not_wait(supervised: Make) -> None:
    one = supervised("--ignore-sigterm", stop_s=600).start()
    one.ready()
    os.kill(one.pid, signal.SIGTERM)
    one.until(lambda shown: shown.state == STOPPED)
    os.kill(one.pid, signal.SIGTERM)
    assert one.code() == 0


def test_what_the_engine_leaves_behind_goes_with_it(supervised: Make) -> None:
    """Whether it stayed in the engine's group or left it."""
    for one in [supervised("--grandchild", where).start() for where in ("group", "session")]:
        shown = one.ready()
        left = grandchild(one)
        os.kill(shown.engine_pid, signal.SIGKILL)
        one.until(lambda shown: shown.starts == 2 and shown.state == READY)
        assert not one.alive(left)
        os.kill(one.pid, signal.SIGTERM)
        assert one.code() == 0
        pids = re.findall(r"^grandchild (\d+)$", one.said(), re.MULTILINE)
        assert len(pids) == 2 and not any(one.alive(int(pid)) for pid in pids)


def test_a_killed_supervisor_takes_engine_and_grandchild_along(supervised: Make) -> None:
    one = supervised("--grandchild", "group", "--ignore-sigterm").start()
    engine, left = one.ready().engine_pid, grandchild(one)
    os.kill(one.pid, signal.SIGKILL)
    assert one.code() == -signal.SIGKILL
    one.eventually(lambda: not one.alive(engine) and not one.alive(left), "the end of engine and grandchild")
    again = supervised(
        beside=one
    ).start()  # in the same folders: neither the lock nor the status is in its way
    assert again.until(lambda shown: shown.pid == again.pid and shown.state == READY)


def test_a_guard_that_was_killed_is_noticed_and_replaced(supervised: Make) -> None:
    one = supervised("--grandchild", "group", "--ignore-sigterm").start()
    engine, left = one.ready().engine_pid, grandchild(one)
    for count in (1, 2):
        os.kill(guard_of(one), signal.SIGKILL)
        one.eventually(lambda n=count: one.said().count("started another") == n, "a word about it")
    assert one.status().starts == 1 and one.alive(engine)
    os.kill(one.pid, signal.SIGKILL)
    one.eventually(lambda: not one.alive(engine) and not one.alive(left), "the end of engine and grandchild")


def test_a_guard_that_is_killed_over_and_over_is_given_up(supervised: Make) -> None:
    one = supervised().start()
    one.ready()
    for count in range(1, GUARDS + 1):
        os.kill(guard_of(one), signal.SIGKILL)
        one.eventually(lambda n=count: one.said().count("started another") == n, "a word about it")
    os.kill(guard_of(one), signal.SIGKILL)
    one.eventually(lambda: "going on without one" in one.said(), "a word about it")
    assert one.status().state == READY
    os.kill(one.pid, signal.SIGTERM)
    assert one.code() == 0


# The state folder


def test_half_a_status_of_a_killed_writer_goes_at_the_next_start(supervised: Make) -> None:
    one = supervised()
    one.state.mkdir(exist_ok=True)
    (one.state / ".status.json.4194300").write_text("{")
    one.start().ready()
    assert [path.name for path in one.state.glob(".status*") if path.name.endswith("4194300")] == []


def test_a_second_supervisor_is_refused(supervised: Make) -> None:
    one = supervised().start()
    before = one.ready()
    second = supervised(beside=one).start()
    assert second.code() == 4
    assert f"another supervisor is running on {one.state}" in one.said()
    after = one.status()
    assert (after.pid, after.state, after.engine_pid) == (one.pid, READY, before.engine_pid)


def test_losing_the_state_folder_does_not_cost_the_engine(supervised: Make) -> None:
    one = supervised().start()
    before = one.ready()
    away = one.state.rename(one.state.with_name("away"))
    one.eventually(lambda: "cannot write" in one.said(), "a word about it")
    assert ask(one)["choices"][0]["message"]["content"]
    away.rename(one.state)
    after = one.until(lambda shown: shown.updated > before.updated + 1)
    assert (after.state, after.starts, after.engine_pid) == (READY, 1, before.engine_pid)
    assert one.said().count("cannot write") == 1


def test_a_state_folder_that_cannot_be_one_is_refused(supervised: Make) -> None:
    one = supervised()
    one.state.write_text("a file")
    assert one.start().code() == 4
    assert "cannot use the state folder" in one.said()
    one.state.unlink()


@pytest.mark.parametrize("text", ["{}", "not json", '{"schema": 1}'])
def test_a_plan_that_is_none_is_refused(supervised: Make, text: str) -> None:
    one = supervised()
    plan: Status = one.plan

    class Text:
        def to_json(self) -> str:
            return text

    one.plan = Text()
    assert one.start().code() == 3
    assert "cannot use the plan" in one.said() and not one.state.exists()
    one.plan = plan


# Waiting for the launcher


def test_nothing_starts_before_go(supervised: Make) -> None:
    one = supervised("--say", "up").start("--wait-go", stdin=subprocess.PIPE)
    assert one.process.stdin
    one.eventually((one.state / "supervisor.lock").exists, "the lock")
    assert one.status() is None
    one.process.stdin.write(b"go\n")
    one.process.stdin.flush()
    assert one.ready()
    one.process.stdin.close()  # the launcher may go: the engine stays
    before = one.status().updated
    assert one.until(lambda shown: shown.updated > before).state == READY


@pytest.mark.parametrize("said", [b"", b"go", b"no\n"])
def test_without_go_nothing_is_started(supervised: Make, said: bytes) -> None:
    one = supervised("--say", "up").start("--wait-go", stdin=subprocess.PIPE)
    one.process.stdin.write(said)
    one.process.stdin.close()
    assert one.code() == 0
    assert one.status() is None and one.said() == ""


def test_a_stop_before_go_ends_with_zero(supervised: Make) -> None:
    one = supervised().start("--wait-go", stdin=subprocess.PIPE)

    def caught() -> bool:
        masks = Path(f"/proc/{one.pid}/status").read_text(encoding="ascii")
        return bool(int(re.findall(r"SigCgt:\s+(\w+)", masks)[0], 16) >> (signal.SIGTERM - 1) & 1)

    one.eventually(caught, "a handler")
    os.kill(one.pid, signal.SIGTERM)
    assert one.code() == 0
    assert one.status() is None
    one.process.stdin.close()


# Output


def test_a_flood_does_not_block_the_engine_even_if_nobody_reads(supervised: Make) -> None:
    one = supervised("--flood", "10", "--endless-line", "2", "--non-utf8")
    read, write = os.pipe()
    try:
        one.start(stdout=write)  # a pipe holds 64 KiB, and this one is never read
        assert one.ready().starts == 1
        os.kill(one.pid, signal.SIGTERM)
        assert one.code() == 0
    finally:
        os.close(read)
        os.close(write)
    tail = one.end().exit.tail
    assert len(tail) == 50 and tail[-1].startswith("listening on")


def test_a_closed_output_does_not_cost_the_engine(supervised: Make) -> None:
    one = supervised("--access-log")
    read, write = os.pipe()
    one.start(stdout=write)
    os.close(write)
    one.ready()
    os.close(read)
    for _ in range(3):
        ask(one)
    after = one.until(lambda shown: shown.counters and shown.counters.generated == 1 + 3 * 8)
    assert (after.state, after.starts) == (READY, 1)


def test_bytes_that_are_not_text_are_shown_as_such(supervised: Make) -> None:
    one = supervised("--non-utf8", "--die-after", "0.2", "--load-silent", "60").start()
    assert one.code() == 6
    assert one.end().exit.tail == ("caf\ufffd \ufffd\ufffd\ufffd",)


def test_with_a_log_file_the_output_goes_there(supervised: Make) -> None:
    one = supervised("--say", "hello")
    log = one.release / "engine.log"
    one.start("--log", str(log))
    one.ready()
    one.eventually(lambda: "supervise: ready" in log.read_text(encoding="utf-8"))
    assert "hello\n" in log.read_text(encoding="utf-8") and one.said() == ""


def test_one_that_was_given_up_just_now_is_not_begun_anew(supervised: Make) -> None:
    """Docker restarts a container that failed: the reason must stay, and the restarts must not begin again."""
    one = supervised("--die-after", "0.1", "--load-silent", "5", "--die-message", "boom").start()
    assert one.code() == 6
    before = one.status()
    again = one.start()
    assert again.code() == 6
    assert one.status() == before


# Memory

HOG = """
import sys, time
kept = bytearray()
while len(kept) < int(sys.argv[1]) * 2**20:
    kept += bytes([1]) * 2**24
    time.sleep(0.02)
time.sleep(600)
"""


def available() -> int:
    found = memory.available()
    assert found is not None
    return found


def test_an_engine_that_eats_the_machine_s_memory_is_stopped_before_it_is_gone(supervised: Make) -> None:
    """The hog is the engine itself, and bounded: it takes 1.5 GiB and no more, the floor is 0.75 GiB below what is
    there now."""
    before = available()
    if before < 4 * 2**30:
        pytest.skip("less than 4 GiB are available here")
    one = supervised(memory_floor=before - 3 * 2**28)
    one.plan = replace(one.plan, argv=(sys.executable, "-c", HOG, "1536"))
    pid = one.start().until(lambda shown: shown.engine_pid).engine_pid
    shown = one.end()
    assert one.code() == 6
    assert (shown.state, shown.starts) == (EXITED, 1)
    assert "stopped to save the machine" in shown.exit.reason
    assert not one.alive(pid)


def test_a_floor_far_away_is_never_met(supervised: Make) -> None:
    supervised(memory_floor=1).start().ready()
