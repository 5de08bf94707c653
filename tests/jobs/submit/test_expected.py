"""The quote of a job with a deadline: its expected cost, the range, and the chance of needing on-demand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from tests.jobs.jobbed import HOUR, MINUTE, NOW, ON_DEMAND, RECIPE, SPOT, A, B

from costguard.deadlines.hazards import SeenPeriod, counts_of
from costguard.deadlines.waits import NO_WAITS, WaitCounts
from costguard.jobs.decide.measures.work_left import START
from costguard.jobs.submit.cost.expected import (
    ExpectedJobCost,
    SeenPlaces,
    expected_job_cost,
    unusual_beginning,
)
from costguard.jobs.submit.cost.offers import HourlyRate
from costguard.jobs.submit.quote import expected_in_turn
from costguard.model.instance import ProvisioningModel
from costguard.model.job import CheckpointPlan, JobKind, JobSpec, Terms
from costguard.model.money import Money

FREE = Money.of(0)
FALLS_BACK = replace(RECIPE, falls_back_to_on_demand=True)
RATES = {
    (zone, model): HourlyRate(Money.of(dollars), FREE, FREE, FREE)
    for zone, model, dollars in ((A, SPOT, "1"), (B, SPOT, "1.2"), (A, ON_DEMAND, "3"), (B, ON_DEMAND, "3.1"))
}


def result(
    hours: float = 24,
    work: float = 16,
    recipe: Any = FALLS_BACK,
    rates: Any = RATES,
    plan: CheckpointPlan | None = CheckpointPlan("gs://runs/one", "--from {checkpoint}"),
    find: Callable[..., ExpectedJobCost | None] = expected_job_cost,
    seen: Mapping[str, Any] = MappingProxyType({}),
    **measured: Any,
) -> ExpectedJobCost | None:
    spec = JobSpec(
        JobKind.TRAINING, "t4", "lab", "ana@example.com", work=work * HOUR, deadline=NOW + hours * HOUR, checkpoint=plan
    )
    return find(spec, recipe, SeenPlaces(rates, **seen), NOW, **measured)


def test_the_cost_lies_between_all_on_spot_and_all_on_demand() -> None:
    """The estimate has its range; a part of the runs needs on-demand."""
    expected = result()
    assert expected is not None
    assert Money.of(16) < expected.low <= expected.mean <= expected.high < Money.of(16 * 3 + 6)
    assert 0 < expected.on_demand_percent < 100
    assert result() == expected


def test_save_that_fits_in_the_notice_makes_preemptions_cheaper() -> None:
    """A preemption then costs the save instead of what was done since the last one. A disk's checkpoints stay there."""
    usual, noticed = result(), result(lost=MINUTE)
    assert usual is not None
    assert noticed is not None
    assert noticed.mean < usual.mean
    assert noticed.preemptions > 0
    on_disk = CheckpointPlan("/data/checkpoints", "--resume")
    assert result(plan=on_disk, hours=60, lost=MINUTE) == result(plan=on_disk, hours=60)


def test_more_time_costs_less_and_needs_on_demand_less_often() -> None:
    """The more there is to spare, the longer Spot can be waited for."""
    tight, loose = result(hours=17.5), result(hours=36)
    assert tight is not None
    assert loose is not None
    assert loose.mean < tight.mean
    assert loose.on_demand_percent < tight.on_demand_percent


def test_a_year_of_slack_costs_bounded_memory_however_many_ask() -> None:
    """Four at once, each with tables of several hundred megabytes if all of them were kept."""
    find = partial(expected_in_turn, start=START, waiting_saves=Terms().waiting_saves)
    tracemalloc.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda number: result(8700 + number, 24, find=find), range(4)))
        assert None not in results
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_nothing_is_said_where_nothing_is_known() -> None:
    """No estimate is made without prices, without on-demand, or where the deadline cannot be met."""
    assert result(rates={(A, SPOT): HourlyRate()}) is None
    assert result(recipe=RECIPE) is None
    assert result(hours=16) is None


def test_what_was_measured_changes_what_is_expected() -> None:
    """Zones in which VMs have lasted cost less than those in which they did not; and so do shorter starts."""
    stormy = counts_of([SeenPeriod(True, 0, life) for life in (0.1, 0.3, 0.6, 1.0, 2.0) for _ in range(40)], 48)
    calm = counts_of([SeenPeriod(True, 0, 48, is_cut=True)] * 10, 48)
    costs = [result(12, 8, seen={"counts": {A: counts, B: counts}}) for counts in (calm, stormy)]
    starts = [result(12, 8, start=minutes * MINUTE) for minutes in (4, 60)]
    for less, more in (costs, starts):
        assert less is not None
        assert more is not None
        assert less.mean < more.mean
    assert result(17, start=30 * MINUTE) is not None
    assert result(17, start=60 * MINUTE) is None


def test_a_job_without_checkpoints_costs_its_work_again_only_where_a_vm_is_lost() -> None:
    """The work is done once on demand, after one start; on Spot, all that a lost VM did is done again."""
    tight = result(hours=5.6, work=5, plan=None)
    assert tight is not None
    assert Money.of(15) <= tight.high <= Money.of(16)  # 5 h and a start of 20 min, at $3
    saved, unsaved = result(hours=60), result(hours=60, plan=None)
    assert saved is not None
    assert unsaved is not None
    assert saved.mean < unsaved.mean


def begins(hours: float, plan: CheckpointPlan | None = None) -> str | None:
    """Returns the beginning of a job of one hour, which saves nothing without a plan."""
    deadline = NOW + hours * HOUR
    spec = JobSpec(JobKind.TRAINING, "t4", "lab", "ana@example.com", work=HOUR, deadline=deadline, checkpoint=plan)
    return unusual_beginning(spec, FALLS_BACK, SeenPlaces(RATES), NOW)


def test_quote_says_why_a_plan_does_not_begin_on_spot() -> None:
    """A job with two hours to spare begins on Spot, also without checkpoints; with one, Spot could lose all its work
    too late.
    """
    assert begins(3) is None
    assert begins(2, CheckpointPlan("gs://runs/one", "--from {checkpoint}")) is None
    said = begins(2)
    assert said is not None
    assert said.startswith("Its plan begins with on demand")
    assert "57 min to spare, and a start can cost 1.3 h, so Spot could miss the deadline" in said


def test_waits_of_flex_start_that_were_seen_change_what_is_expected() -> None:
    """A job with a deadline costs less if requests were granted within minutes than if none ever was."""
    flex = {(A, ProvisioningModel.FLEX_START): HourlyRate(Money.of("1.4"), FREE, FREE, FREE)}
    recipe = replace(FALLS_BACK, buys_cheapest=True, machine_type="g2-standard-4")
    quick, never = NO_WAITS._replace(granted=(99.0, 0.0, 0.0, 0.0)), WaitCounts(never=1.0)
    costs = [result(20, 16, recipe, {**RATES, **flex}, seen={"waits": waits}) for waits in (quick, never)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0].mean < costs[1].mean
