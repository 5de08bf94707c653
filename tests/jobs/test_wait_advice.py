"""Google's capacity advice as the prior of flex-start requests: weighed against one's own, and never needed."""

from __future__ import annotations

import pytest

from costguard.deadlines.waits import NEVER_GRANTED, NO_WAITS, WaitCounts, grant_hazards


def test_the_stated_prior_is_kept_without_advice() -> None:
    assert NO_WAITS.never == NEVER_GRANTED
    assert grant_hazards(NO_WAITS) == grant_hazards(WaitCounts(never=NEVER_GRANTED))


@pytest.mark.parametrize("never", [0.0, 1.0])
def test_certain_advice_has_finite_chances(never: float) -> None:
    hazards = grant_hazards(WaitCounts(never=never))
    assert all(0 <= hazard < 20 for hazard in hazards)
    assert (sum(hazards) == 0) == (never == 1)


def test_requests_of_ones_own_outweigh_the_advice() -> None:
    seen = WaitCounts(granted=(400.0,) * 4, outlasted=(400.0,) * 4)
    doubtful, sure = (grant_hazards(seen._replace(never=never)) for never in (0.9, 0.1))
    assert doubtful == pytest.approx(sure, rel=0.02)
    assert grant_hazards(WaitCounts(never=0.9))[1] < grant_hazards(WaitCounts(never=0.1))[1] / 2
