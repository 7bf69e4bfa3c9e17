"""The loop to ready: what ends it, and in which words."""

from dataclasses import replace

import pytest

from appliance.core.errors import EngineDied, NoProgress
from appliance.engines.base import Death
from appliance.health import wait
from appliance.health.state import Health, classify
from appliance.runtime.base import ABSENT, Observed
from appliance.supervise.status import Exit
from tests.health.test_state import ALIVE, NOW, STATUS

READY = replace(ALIVE, status=replace(STATUS, state="ready", updated=10**12))
DEATHS = (Death("out of memory", "there is not enough memory", "end other programs"),)


def ended(exit_: Exit) -> Observed:
    return replace(ALIVE, status=replace(STATUS, state="exited", exit=exit_, updated=10**12))


def waited(*seen: Observed, answers: bool = True, hears: bool = False) -> Observed:
    """The loop over a row of observations; the last one stays."""
    row = iter(seen)
    last = seen[-1]
    return wait.wait_ready(
        lambda: next(row, last), lambda: hears, lambda: answers, lambda: ["from the log"], DEATHS,
        stall_s=0.1, wedge_s=0.1, say=lambda _: None,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "SPEAK_FIRST_S", 0.1)
    monkeypatch.setattr(wait, "LOOK_S", 0.01)
    monkeypatch.setattr(wait, "KNOCK_S", 0.005)


def test_ready_needs_the_supervisor_s_word_and_a_token_of_our_own() -> None:
    starting = replace(ALIVE, status=replace(STATUS, updated=10**12))
    assert waited(replace(ALIVE, status=None), starting, READY) == READY
    with pytest.raises(NoProgress, match="not ready"):
        waited(READY, answers=False)


def test_a_token_heard_early_is_not_asked_for_again_but_the_supervisor_s_word_is_waited_for() -> None:
    starting = replace(ALIVE, status=replace(STATUS, updated=10**12))
    assert waited(starting, READY, hears=True, answers=False) == READY
    with pytest.raises(NoProgress, match="not ready"):
        waited(starting, hears=True)


def test_what_stands_still_is_given_up_with_the_phase() -> None:
    with pytest.raises(NoProgress) as caught:
        waited(replace(ALIVE, status=replace(STATUS, updated=10**12)))
    assert "while loading" in caught.value.why


def test_what_moves_is_waited_for() -> None:
    moving = [replace(ALIVE, status=replace(STATUS, progress=float(i), updated=10**12)) for i in range(50)]
    assert waited(*moving, READY) == READY


def test_a_known_death_is_explained() -> None:
    with pytest.raises(EngineDied) as caught:
        waited(ended(Exit(1, None, "exited with code 1", ("loading", "fatal: out of memory"))))
    assert (caught.value.why, caught.value.fix.splitlines()[0]) == (
        "there is not enough memory",
        "end other programs",
    )
    assert "fatal: out of memory" in caught.value.fix


def test_a_death_known_by_its_reason_alone_is_explained() -> None:
    with pytest.raises(EngineDied, match="died") as caught:
        waited(ended(Exit(None, 9, "out of memory", ())))
    assert caught.value.why == "there is not enough memory"


def test_a_wedge_is_no_progress() -> None:
    with pytest.raises(NoProgress) as caught:
        waited(ended(Exit(0, None, "no token within 60 s", ("x",), wedged=True)))
    assert caught.value.why == "no token within 60 s"


@pytest.mark.parametrize("seen", [ABSENT, replace(ALIVE, alive=False, exit_code=137, status=None)])
def test_what_is_gone_is_told_with_the_log_s_last_lines(seen: Observed) -> None:
    with pytest.raises(EngineDied) as caught:
        waited(seen)
    assert "from the log" in caught.value.fix


def test_a_start_that_the_runtime_repeats_is_over() -> None:
    again = replace(ALIVE, status=replace(STATUS, updated=NOW), restarts=1)
    assert wait.is_over(again, classify(again, NOW))
    assert not wait.is_over(replace(again, restarts=0), classify(again, NOW))
    assert not wait.is_over(again, Health("ready"))
