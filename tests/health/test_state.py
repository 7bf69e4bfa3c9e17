"""Health: what an observation means."""

from dataclasses import replace

import pytest

from appliance.health.state import Health, classify
from appliance.runtime.base import ABSENT, Observed
from appliance.supervise.status import Exit, Status

NOW = 1000.0
STATUS = Status("demo", "d", 1, 1, 2, "starting", "loading", 990.0, 990.0, 999.0, 1)
ALIVE = Observed(exists=True, alive=True, digest="d", status=STATUS)
DIED = Exit(1, None, "the engine ended with code 1", ("boom",))


@pytest.mark.parametrize(
    ("observed", "state"),
    [
        (ABSENT, "absent"),
        (replace(ALIVE, status=None), "starting"),
        (ALIVE, "starting"),
        (replace(ALIVE, status=replace(STATUS, state="ready")), "ready"),
        (replace(ALIVE, status=replace(STATUS, state="wedged")), "wedged"),
        (replace(ALIVE, status=replace(STATUS, state="exited", exit=DIED)), "exited"),
        (replace(ALIVE, alive=False), "exited"),
        (replace(ALIVE, alive=False, status=replace(STATUS, state="ready")), "exited"),
        (replace(ALIVE, alive=False, status=replace(STATUS, state="stopped")), "stopped"),
        (replace(ALIVE, alive=False, status=None, exit_code=137), "exited"),
    ],
)
def test_each_observation_has_one_state(observed: Observed, state: str) -> None:
    assert classify(observed, NOW).state == state


def test_a_supervisor_that_stopped_reporting_is_wedged() -> None:
    ready = replace(ALIVE, status=replace(STATUS, state="ready", updated=NOW - 60))
    silent = "its supervisor has not reported for 60 s; see that its disk is not full"
    assert classify(ready, NOW) == Health("wedged", "loading", silent)


def test_a_death_says_why() -> None:
    died = replace(ALIVE, status=replace(STATUS, state="exited", exit=DIED))
    assert classify(died, NOW).reason == "the engine ended with code 1"
    assert "137" in classify(replace(ALIVE, alive=False, status=None, exit_code=137), NOW).reason
