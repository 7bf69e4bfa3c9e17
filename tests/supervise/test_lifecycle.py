"""The supervisor's decisions as tables of events: facts with their times in, what is due out."""

from dataclasses import replace

import pytest

from appliance.supervise.counters import Reading
from appliance.supervise.lifecycle import (
    EXIT_DIED,
    EXIT_STOPPED,
    EXIT_WEDGED,
    LOST_S,
    LOW_S,
    LOW_STOP_S,
    PROBE_S,
    UNDEAD_S,
    Do,
    Lifecycle,
)
from appliance.supervise.plan import Limits
from appliance.supervise.status import EXITED, READY, STARTING, STOPPED, WEDGED

LIMITS = Limits(restarts=2, backoff_s=1, stall_s=300, wedge_s=60, probe_every_s=100, stop_s=20, stable_s=600)


def begun(limits: Limits = LIMITS, counted: bool = True) -> Lifecycle:
    """Started at 0, nothing asked yet."""
    life = Lifecycle(limits, 0, counted)
    assert life.due(0) == [Do.START]
    life.started(0)
    return life


def ready(limits: Limits = LIMITS, counted: bool = True) -> Lifecycle:
    """Ready at 10, its counters read and idle."""
    life = begun(limits, counted)
    life.health(10, True)
    assert life.due(10) == [Do.CHAT]
    life.chat(10, True)
    assert life.state == READY
    if counted:
        assert life.due(10) == [Do.COUNT]
        life.counted(10, Reading(progress=1, generated=1, active=0))
    return life


def die(life: Lifecycle, now: float) -> None:
    life.ended(now, "exited with code 1")


def revive(life: Lifecycle, now: float) -> None:
    assert life.due(now) == [Do.START]
    life.started(now)
    life.health(now, True)
    life.chat(now, True)
    assert life.state == READY


# Starting


def test_ready_takes_health_and_then_a_token() -> None:
    life = begun()
    assert life.due(0) == [Do.HEALTH]
    life.health(0, False)
    assert (life.state, life.due(1)) == (STARTING, [Do.HEALTH])
    life.health(1, True)
    assert life.moved_at == 1
    assert (life.state, life.due(1)) == (STARTING, [Do.CHAT])
    life.chat(1, False, "HTTP 400")
    assert (life.state, life.due(1), life.due(2)) == (STARTING, [], [Do.CHAT])
    life.chat(3, True)
    assert (life.state, life.phase) == (READY, "serving")


def test_a_probe_is_out_once_and_sent_again_when_lost() -> None:
    life = begun()
    assert life.due(0) == [Do.HEALTH]
    assert life.due(PROBE_S + LOST_S - 1) == []
    assert life.due(PROBE_S + LOST_S) == [Do.HEALTH]


def test_health_is_asked_eagerly_at_first_and_then_every_second() -> None:
    life = begun()
    life.health(1, False)
    assert life.due(1.1) == [Do.HEALTH]
    life.health(50, False)
    assert life.due(50.5) == []
    assert life.due(51) == [Do.HEALTH]


def test_progress_puts_the_end_off_however_long_it_takes() -> None:
    life = begun()
    for minute in range(1, 120):
        life.moved(minute * 60)
        assert Do.TERM not in life.due(minute * 60 + 59)
    assert life.state == STARTING


def test_no_progress_is_wedged_with_the_phase_named_and_final() -> None:
    life = begun()
    life.phase_seen("loading weights 3/8")
    life.moved(100)
    assert Do.TERM not in life.due(399)
    assert life.due(400) == [Do.TERM]
    assert (life.state, life.phase) == (WEDGED, "no progress for 300 s while loading weights 3/8")
    life.ended(401, "killed by SIGTERM")
    assert (life.state, life.exit_code) == (EXITED, EXIT_WEDGED)
    assert life.phase == "no progress for 300 s while loading weights 3/8"


def test_failing_health_alone_is_not_progress() -> None:
    life = begun()
    for second in range(300):
        life.health(second, False)
    assert life.due(300) == [Do.TERM]


def test_health_without_a_token_is_wedged() -> None:
    """Case 27."""
    life = begun()
    life.health(10, True)
    assert life.due(10) == [Do.CHAT]
    life.moved(69)  # whatever it prints: a token is owed
    assert life.due(69) == []
    assert life.due(70) == [Do.TERM]
    assert life.state == WEDGED
    assert "no token for 60 s while starting, although health is good" in life.phase


def test_the_reason_tells_what_chat_answered() -> None:
    life = begun()
    life.health(10, True)
    life.due(10)
    life.chat(11, False, "HTTP 400, no token in: bad template")
    life.due(70)
    assert "bad template" in life.phase


def test_a_death_before_the_first_token_is_final() -> None:
    """Case 26."""
    life = begun()
    die(life, 2)
    assert (life.state, life.phase, life.exit_code) == (EXITED, "exited with code 1", EXIT_DIED)
    assert life.due(1000) == []


def test_phases_are_shown_while_starting_only() -> None:
    life = begun()
    life.phase_seen("loading")
    assert life.phase == "loading"
    life = ready()
    life.phase_seen("loading")
    assert life.phase == "serving"


# Ready


def test_counters_are_read_every_second() -> None:
    life = ready()
    assert life.due(10.9) == []
    assert life.due(11) == [Do.COUNT]


def test_an_engine_without_counters_is_only_asked_for_tokens() -> None:
    life = ready(counted=False)
    assert life.due(109) == []
    assert life.due(110) == [Do.CHAT]


def test_an_idle_engine_is_probed_now_and_then_unless_tokens_moved() -> None:
    life = ready()
    life.counted(60, Reading(progress=9, generated=9, active=0))
    assert Do.CHAT not in life.due(159)
    assert Do.CHAT in life.due(160)
    life.chat(161, True)
    assert Do.CHAT not in life.due(260)
    assert Do.CHAT in life.due(261)


def test_a_busy_engine_that_moves_is_left_alone() -> None:
    life = ready()
    for second in range(11, 2000):
        life.counted(second, Reading(progress=second, generated=1, active=3))  # one long answer
        assert life.due(second + 0.5) == []


@pytest.mark.parametrize("reading", [Reading(progress=1, generated=1, active=2), None])
def test_a_busy_engine_that_stands_still_is_probed_and_then_wedged(reading: Reading | None) -> None:
    life = ready()
    life.counted(11, reading)
    assert Do.CHAT not in life.due(69)
    assert Do.CHAT in life.due(70)
    life.counted(71, reading)
    assert Do.TERM not in life.due(129)
    assert life.due(130) == [Do.TERM]
    assert life.state == WEDGED
    assert life.phase == "no token for 60 s while ready (no answer yet)"


def test_a_probe_that_waits_behind_moving_requests_is_no_wedge() -> None:
    life = ready()
    assert Do.CHAT in life.due(110)
    life.counted(150, Reading(progress=2, generated=1, active=1))
    life.chat(170, False, "no answer within 60 s")
    assert Do.TERM not in life.due(200)
    assert life.state == READY


def test_a_probe_that_fails_at_once_is_repeated_for_as_long_as_a_token_may_be_owed() -> None:
    life = ready(counted=False)
    for second in range(110, 170):
        assert life.due(second) == [Do.CHAT]
        life.chat(second, False, "HTTP 500")
    assert life.due(170) == [Do.TERM]


# Restarts


def test_after_a_token_came_it_is_restarted_with_growing_pauses_then_given_up() -> None:
    """Case 28."""
    life = ready()
    die(life, 20)
    assert (life.state, life.phase) == (STARTING, "restart 1 of 2 in 1 s")
    assert life.due(20.9) == []
    revive(life, 21)
    die(life, 30)
    assert life.phase == "restart 2 of 2 in 2 s"
    assert life.due(31.9) == []
    revive(life, 32)
    die(life, 33)
    assert (life.state, life.exit_code, life.starts) == (EXITED, EXIT_DIED, 3)
    assert life.due(1000) == []


def test_a_good_while_of_running_forgives() -> None:
    life = ready()
    for start in (1000, 2000, 3000, 4000):
        life.due(start + 700)
        die(life, start + 700)
        assert life.phase == "restart 1 of 2 in 1 s"
        revive(life, start + 701)


def test_a_restart_that_dies_while_loading_uses_up_a_restart() -> None:
    life = ready()
    for now in (20, 30):
        die(life, now)
        assert life.due(now + 5) == [Do.START]
        life.started(now + 5)
    die(life, 40)
    assert life.state == EXITED


def test_no_restarts_allowed_means_none() -> None:
    life = ready(replace(LIMITS, restarts=0))
    die(life, 20)
    assert (life.state, life.exit_code) == (EXITED, EXIT_DIED)


def test_a_wedged_engine_is_restarted_too_and_its_last_end_decides_the_code() -> None:
    life = ready(replace(LIMITS, restarts=1))
    assert Do.CHAT in life.due(110)
    assert life.due(170) == [Do.TERM]
    life.ended(171, "killed by SIGTERM")
    assert (life.state, life.exit_code) == (STARTING, None)
    revive(life, 172)
    die(life, 200)
    assert (life.phase, life.exit_code) == ("exited with code 1", EXIT_DIED)


def test_a_new_life_starts_with_clean_accounts() -> None:
    life = ready()
    life.counted(11, Reading(progress=1, generated=1, active=2))
    die(life, 20)
    revive(life, 21)
    life.counted(22, Reading(progress=1, generated=1, active=0))
    assert Do.CHAT not in life.due(120)
    assert Do.CHAT in life.due(121)


def test_an_answer_that_comes_late_does_not_revive_the_dead() -> None:
    life = ready()
    die(life, 20)
    life.health(20.1, True)
    life.chat(20.2, True)
    assert (life.state, life.phase) == (STARTING, "restart 1 of 2 in 1 s")


def test_a_new_life_does_not_wait_for_probes_of_the_old_one() -> None:
    life = ready()
    assert Do.CHAT in life.due(110)
    die(life, 111)
    assert life.due(112) == [Do.START]
    life.started(112)
    assert life.due(112) == [Do.HEALTH]
    life.health(112, True)
    assert life.due(112) == [Do.CHAT]


# Stopping


def test_a_stop_is_term_then_kill() -> None:
    life = ready()
    life.stop(50)
    assert (life.state, life.due(50), life.due(69.9)) == (STOPPED, [Do.TERM], [])
    assert (life.due(70), life.due(71)) == ([Do.KILL], [])
    life.ended(71, "killed by SIGKILL")
    assert (life.state, life.exit_code) == (STOPPED, EXIT_STOPPED)


def test_a_second_stop_kills_at_once() -> None:
    life = begun()
    life.stop(5)
    life.stop(6)
    assert life.due(6) == [Do.KILL]


def test_a_stop_between_two_starts_ends_at_once() -> None:
    life = ready()
    die(life, 20)
    life.stop(20.5)
    assert (life.state, life.exit_code, life.due(30)) == (STOPPED, EXIT_STOPPED, [])


def test_an_answer_that_comes_while_stopping_changes_nothing() -> None:
    life = begun()
    life.health(1, True)
    life.due(1)
    life.stop(2)
    life.chat(3, True)
    assert life.state == STOPPED


def test_an_engine_that_cannot_be_killed_is_given_up() -> None:
    life = begun()
    life.stop(0)
    life.due(0)
    assert life.due(20) == [Do.KILL]
    assert life.due(20 + UNDEAD_S - 1) == []
    life.due(20 + UNDEAD_S)
    assert (life.state, life.exit_code) == (EXITED, EXIT_DIED)


# Memory


FLOOR = replace(LIMITS, memory_floor=4 * 2**30)


@pytest.mark.parametrize("life", [begun(FLOOR), ready(FLOOR)], ids=["loading", "ready"])
def test_memory_below_the_floor_ends_the_engine_for_good(life: Lifecycle) -> None:
    life.memory(20, 3 * 2**30)
    assert life.exit_code is None and Do.TERM not in life.due(20)
    life.memory(20 + LOW_S, 3 * 2**30)
    assert life.due(20 + LOW_S) == [Do.TERM]
    assert life.due(20 + LOW_S + LOW_STOP_S) == [Do.KILL]
    die(life, 30)
    assert (life.state, life.exit_code) == (EXITED, EXIT_DIED)
    assert life.phase == "stopped to save the machine: 3.0 GiB of memory were left, the floor is 4.0 GiB"


def test_memory_that_is_low_for_a_moment_only_costs_nothing() -> None:
    life = ready(FLOOR)
    life.memory(20, 3 * 2**30)
    life.memory(21, 4 * 2**30)
    life.memory(22, 3 * 2**30)
    life.memory(22 + LOW_S / 2, 3 * 2**30)
    assert life.state == READY and Do.TERM not in life.due(23)


def test_without_a_floor_memory_is_no_matter() -> None:
    life = ready()
    for now in range(20, 40):
        life.memory(now, 0)
    assert life.state == READY
