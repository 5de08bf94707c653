"""The ways to finish a job without a deadline are checked against closed forms and the prices of a day."""

from __future__ import annotations

import math

import pytest

from costguard.deadlines.cheapest import ToFinish, ways_to_finish
from costguard.deadlines.hazards import BINS, ZoneCounts
from costguard.deadlines.situation import FlexOffer, Zone
from costguard.deadlines.waits import SeenWait, counts_of_waits

A100_SPOT, A100_FLEX, A100_ON_DEMAND = 1.92768, 2.02038, 3.67363  # a2-highgpu-1g, 2 August 2026
MANY_HOURS = 1e9  # of history, next to which the prior counts for nothing


def steady(price: float, losses_h: float, recoveries_h: float = 1.0, name: str = "a") -> Zone:
    """A zone whose VMs are as likely to be lost at every age."""
    counts = ZoneCounts(
        (losses_h * MANY_HOURS,) * BINS,
        (MANY_HOURS,) * BINS,
        (recoveries_h * MANY_HOURS,) * BINS,
        (MANY_HOURS,) * BINS,
    )
    return Zone(name, price, True, 1.0, counts)


def by_kind(*ways: object, **options: object) -> dict[str, float | None]:
    return {way.kind: way.expected for way in ways_to_finish(*ways, **options)}  # type: ignore[arg-type]


@pytest.mark.parametrize(("work_h", "losses_h"), [(2.0, 0.5), (5.0, 0.2), (4.0, 0.0)])
def test_job_that_saves_nothing_costs_what_restarts_are_known_to(work_h: float, losses_h: float) -> None:
    """A job that is lost at the rate r and saves nothing takes (exp(r * hours) - 1) / r VM hours in the mean."""
    job = ToFinish(work_h, 0.25, math.inf)
    hours = work_h + job.start_h
    hours_in_all = (math.exp(losses_h * hours) - 1) / losses_h if losses_h else hours
    (spot,) = [way for way in ways_to_finish(job, [steady(2.0, losses_h)]) if way.kind == "spot"]
    assert spot.expected == pytest.approx(2.0 * hours_in_all, rel=0.12)
    assert spot.low <= (spot.expected or 0) <= spot.high
    assert spot.preemptions == pytest.approx(math.exp(losses_h * hours) - 1, rel=0.2)


def test_job_that_saves_loses_a_start_and_half_a_save_at_each_preemption() -> None:
    """Lost every 5 h, with a start of 0.2 h and saves 0.5 h apart: about 0.45 h for each of the preemptions."""
    (spot,) = ways_to_finish(ToFinish(100.0, 0.2, 0.5), [steady(1.0, 0.2)])
    assert spot.expected == pytest.approx(100.2 + spot.preemptions * (0.2 + 0.25), rel=0.02)
    assert spot.preemptions == pytest.approx(0.2 * (spot.expected or 0), rel=0.05)


def test_price_of_the_day_decides_between_spot_and_flex_start() -> None:
    """August 2026 prices of an A100 make flex-start the cheapest in an unknown zone, and on demand the dearest."""
    job = ToFinish(25.0, 0.2, 0.5)
    ways = ways_to_finish(job, [Zone("a", A100_SPOT)], FlexOffer(A100_FLEX), A100_ON_DEMAND)
    assert [way.kind for way in ways] == ["flex", "spot", "on_demand"]
    flex, spot, on_demand = ways
    assert flex.expected == flex.low == flex.high == pytest.approx(A100_FLEX * 25.2)
    assert spot.low < A100_FLEX * 25.2 < (spot.expected or 0) < spot.high < (on_demand.expected or 0)
    calm = ways_to_finish(job, [steady(A100_SPOT, 0.01)], FlexOffer(A100_FLEX), A100_ON_DEMAND)
    assert [way.kind for way in calm] == ["spot", "flex", "on_demand"]


def test_waits_cost_time_and_nothing_else() -> None:
    """Requests that were refused make a job later, at the same cost."""
    job = ToFinish(10.0, 0.1)
    refused = counts_of_waits([SeenWait(2.0, is_refused=True)] * 50)
    granted = counts_of_waits([SeenWait(0.05, is_granted=True)] * 50)
    (late,) = ways_to_finish(job, flex=FlexOffer(2.0, refused))
    (soon,) = ways_to_finish(job, flex=FlexOffer(2.0, granted))
    assert late.expected == soon.expected == pytest.approx(20.2)
    assert late.lasts_h > soon.lasts_h + 5


def test_zone_that_is_out_is_waited_for_at_no_cost() -> None:
    """The only zone has been out for long: the job lasts longer, and costs the same."""
    up, out = steady(1.0, 0.0), steady(1.0, 0.0)._replace(is_up=False, age_h=20.0)
    (now,), (later,) = ways_to_finish(ToFinish(5.0, 0.1), [up]), ways_to_finish(ToFinish(5.0, 0.1), [out])
    assert now.expected == later.expected == pytest.approx(5.1)
    assert later.lasts_h > now.lasts_h + 0.5


def test_work_of_more_than_seven_days_takes_another_flex_start_vm() -> None:
    """Work of 340 h on VMs of 168 h with starts of 0.5 h: three VMs."""
    (flex,) = ways_to_finish(ToFinish(340.0, 0.5), flex=FlexOffer(1.0))
    assert flex.expected == pytest.approx(341.5)


def test_reservation_that_is_paid_for_costs_nothing_more() -> None:
    """It comes first, and of two ways of one price the surer one does."""
    job = ToFinish(10.0, 0.0)
    assert [way.kind for way in ways_to_finish(job, [steady(2.0, 0.0)], None, 2.0, 0.0)] == [
        "reserved",
        "on_demand",
        "spot",
    ]


def test_more_zones_cost_less_than_the_one_that_is_lost() -> None:
    """A zone that is lost often is left for one that lasts."""
    job = ToFinish(30.0, 0.3, 1.0)
    alone = by_kind(job, [steady(1.0, 1.0)])["spot"]
    both = by_kind(job, [steady(1.0, 1.0), steady(1.0, 0.02, 2.0, "b")])["spot"]
    assert both is not None
    assert alone is not None
    assert both < 0.8 * alone


def test_job_that_spot_never_finishes_is_not_sent_there() -> None:
    """VMs that are lost long before its first save: Spot has no expected cost, and comes last however cheap."""
    ways = ways_to_finish(ToFinish(50.0, 0.2, math.inf), [steady(0.01, 1.0)], None, 4.0)
    assert [way.kind for way in ways] == ["on_demand", "spot"]
    assert ways[-1].expected is None


def test_same_job_gets_the_same_figures() -> None:
    """A quote that is asked for twice says the same."""
    job, zones = ToFinish(25.0, 0.2, 0.5), [Zone("a", 1.0), Zone("b", 1.1, False, 0.5)]
    assert ways_to_finish(job, zones) == ways_to_finish(job, zones)
