"""The arithmetic of speculation."""

import pytest

from appliance.supervise.status import Counters
from appliance.verify.acceptance import (
    Acceptance,
    acceptance_length,
    between,
    draft_acceptance_rate,
    position_rates,
)


def counters(starts: int = 1, **counts: int | tuple[int, ...] | None) -> Counters:
    return Counters(at=0.0, engine_starts=starts, **counts)  # type: ignore[arg-type]


def test_the_definitions() -> None:
    assert acceptance_length(accepted=136, steps=100) == pytest.approx(2.36)
    assert draft_acceptance_rate(accepted=30, drafted=120) == 0.25
    assert position_rates((60, 30, 12), steps=100) == (0.6, 0.3, 0.12)


def test_nothing_accepted_is_length_one_not_unknown() -> None:
    assert acceptance_length(accepted=0, steps=10) == 1.0
    assert draft_acceptance_rate(accepted=0, drafted=30) == 0.0


@pytest.mark.parametrize(("accepted", "steps"), [(None, 5), (5, None), (None, None), (0, 0)])
def test_what_is_not_counted_is_unknown_never_zero(accepted: int | None, steps: int | None) -> None:
    assert acceptance_length(accepted, steps) is None
    assert draft_acceptance_rate(accepted, steps) is None
    assert position_rates(None, steps) is None


def test_two_readings_are_subtracted() -> None:
    before = counters(generated=100, steps=10, drafted=30, accepted=9, accepted_per_position=(5, 4))
    after = counters(generated=160, steps=30, drafted=90, accepted=39, accepted_per_position=(20, 15, 4))
    made = between(before, after)
    assert made == Acceptance(
        generated=60, steps=20, drafted=60, accepted=30, accepted_per_position=(15, 11, 4)
    )
    assert made.acceptance_length == 2.5 and made.draft_acceptance_rate == 0.5
    assert made.model_dump()["position_rates"] == (0.75, 0.55, 0.2)


def test_a_series_that_first_appears_with_its_first_count_began_at_zero() -> None:
    made = between(counters(), counters(steps=4, drafted=8, accepted=2, accepted_per_position=(2, 0)))
    assert made == Acceptance(steps=4, drafted=8, accepted=2, accepted_per_position=(2, 0))


def test_readings_around_a_restart_are_not_subtracted() -> None:
    assert between(counters(1, steps=5), counters(2, steps=50)) is None
    assert between(counters(1, steps=50), counters(1, steps=5)) is None


def test_whether_it_speculated_is_yes_no_or_unknown() -> None:
    assert Acceptance(steps=3, drafted=9, accepted=0).speculated is True
    assert Acceptance(steps=0, drafted=0, accepted=0).speculated is False
    assert Acceptance(generated=10).speculated is None
