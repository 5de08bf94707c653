"""A deadline or a ceiling that a job cannot meet is refused with the figures; one that it may miss is a warning."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import HOUR, MINUTE, ON_DEMAND, SPOT, A, B

from costguard.jobs.submit.cost.offers import Chance, Feasibility, HourlyRate, feasibility
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobKind, JobSpec
from costguard.model.money import Money

NOW = at("12:00")
FREE = Money.of(0)
# Ten hours cost $10 or $20 on Spot, $30 or $40 on-demand.
RATES = {
    (zone, model): HourlyRate(Money.of(dollars), FREE, FREE, FREE)
    for zone, model, dollars in ((A, SPOT, 1), (B, SPOT, 2), (A, ON_DEMAND, 3), (B, ON_DEMAND, 4))
}
BOTH = (SPOT, ON_DEMAND)


def result(
    models: tuple[ProvisioningModel, ...] = BOTH, is_resumed: bool = False, rates: Any = RATES, **given: Any
) -> Feasibility:
    spec = JobSpec(JobKind.TRAINING, "t4", "lab", "ana@example.com", **{"work": 10 * HOUR, **given})
    return feasibility(spec, rates, models, is_resumed, NOW)


@pytest.mark.parametrize(
    ("left", "models", "chance"),
    [
        (10 * HOUR + 22 * MINUTE, BOTH, Chance.NO),
        (10 * HOUR + 22 * MINUTE, (ON_DEMAND,), Chance.NO),
        (10 * HOUR + 22 * MINUTE, (SPOT,), Chance.NO),
        (10 * HOUR + 23 * MINUTE, BOTH, Chance.YES),
        (10 * HOUR + 23 * MINUTE, (SPOT,), Chance.AT_RISK),
        (20 * HOUR, (SPOT,), Chance.AT_RISK),
    ],
)
def test_a_deadline_needs_the_work_and_the_longest_start(
    left: timedelta, models: tuple[ProvisioningModel, ...], chance: Chance
) -> None:
    """Up to 20 minutes until an on-demand VM works, and three until its end is known; Spot alone promises nothing."""
    verdict = result(models, deadline=NOW + left)
    assert verdict.meets_deadline is chance
    assert [refusal.where for refusal in verdict.refusals] == (["deadline"] if chance is Chance.NO else [])
    assert len(verdict.warnings) == (chance is Chance.AT_RISK)


def test_a_deadline_that_cannot_be_met_names_the_earliest_that_can() -> None:
    """Given that one, the job is accepted."""
    (refusal,) = result(deadline=at("20:00")).refusals
    assert refusal.message == (
        "It takes 10 h, and a start up to 20 min: begun on demand now, it is certain to end by Mon 2 Nov 22:23 UTC, "
        "after its deadline of Mon 2 Nov 20:00 UTC. Give Mon 2 Nov 22:23 UTC or a later one, or none."
    )
    assert result(deadline=at("22:23")).refusals == ()


@pytest.mark.parametrize(
    ("ceiling", "models", "chance"),
    [
        ("9.99", BOTH, Chance.NO),
        ("10", BOTH, Chance.AT_RISK),
        ("39.99", BOTH, Chance.AT_RISK),
        ("40", BOTH, Chance.YES),
        ("20", (SPOT,), Chance.YES),
        ("29.99", (ON_DEMAND,), Chance.NO),
    ],
)
def test_a_ceiling_is_held_against_the_cheapest_and_the_dearest_place(
    ceiling: str, models: tuple[ProvisioningModel, ...], chance: Chance
) -> None:
    """A job below the cheapest place's cost cannot finish; between the two it depends on where there is room."""
    verdict = result(models, ceiling=Money.of(ceiling))
    assert verdict.within_ceiling is chance
    assert [refusal.where for refusal in verdict.refusals] == (["ceiling"] if chance is Chance.NO else [])
    assert len(verdict.warnings) == (chance is Chance.AT_RISK)


def test_a_ceiling_that_is_too_low_names_the_figures() -> None:
    """Both amounts, and where."""
    (refusal,) = result(ceiling=Money.of(5)).refusals
    assert refusal.message == (
        "$5.00 is less than the $10.00 that 10 h in us-central1-a (Spot, $1.00 an hour) cost, the cheapest. Give more "
        "than that, or none."
    )
    (warning,) = result(ceiling=Money.of(15)).warnings
    assert warning == (
        "Its ceiling of $15.00 does not pay for 10 h in us-central1-b (on-demand, $4.00 an hour), which cost $40.00."
    )


def test_a_job_that_resumes_is_warned_and_not_refused() -> None:
    """A part of its work may be done already."""
    verdict = result(is_resumed=True, deadline=at("20:00"), ceiling=Money.of(5))
    assert verdict.refusals == ()
    assert len(verdict.warnings) == 2
    assert (verdict.meets_deadline, verdict.within_ceiling) == (Chance.NO, Chance.NO)


@pytest.mark.parametrize("given", [{"work": None}, {"work": timedelta()}, {"kind": JobKind.DEV}])
def test_without_a_length_nothing_is_certain(given: dict[str, Any]) -> None:
    """Unknown is neither met nor missed."""
    spec = {"deadline": at("12:30"), "ceiling": Money.of("0.01"), "work": 10 * HOUR, **given}
    kind = spec.pop("kind", JobKind.TRAINING)
    verdict = feasibility(JobSpec(kind, "t4", "lab", "ana@example.com", **spec), RATES, BOTH, False, NOW)
    assert verdict == Feasibility()


def test_without_a_price_a_ceiling_is_unknown() -> None:
    """A cost without a price is unknown, never zero."""
    verdict = result(rates={(A, SPOT): HourlyRate()}, ceiling=Money.of(5))
    assert (verdict.least, verdict.most, verdict.within_ceiling) == (None, None, Chance.UNKNOWN)


@pytest.mark.parametrize(
    ("hours", "nodes", "chance"),
    [
        (9.9, 1, Chance.NO),
        (10, 1, Chance.AT_RISK),
        (10.3, 1, Chance.AT_RISK),
        (10.5, 1, Chance.YES),
        (39.9, 4, Chance.NO),
        (40, 4, Chance.AT_RISK),
        (41.4, 4, Chance.YES),
    ],
)
def test_vm_hours_are_held_against_the_work_of_all_vms(hours: float, nodes: int, chance: Chance) -> None:
    """Ten hours on four VMs are 40 VM hours; without another start's 20 minutes for each it is a risk."""
    verdict = result(max_vm_time=hours * HOUR, nodes=nodes)
    assert verdict.within_vm_hours is chance
    assert [refusal.where for refusal in verdict.refusals] == (["max_vm_hours"] if chance is Chance.NO else [])
    assert len(verdict.warnings) == (chance is Chance.AT_RISK)


def test_vm_hours_that_are_too_few_name_the_figures() -> None:
    """The limit, and what the work takes."""
    (refusal,) = result(max_vm_time=30 * HOUR, nodes=4).refusals
    assert refusal.message == (
        "30 VM hours are less than the 40 VM hours that 10 h of work on 4 VMs takes. Give more than that, or none."
    )
    (warning,) = result(max_vm_time=10 * HOUR + 12 * MINUTE).warnings
    assert warning == (
        "Its limit of 10.2 VM hours leaves 12 min beyond 10 h of work, and a start takes up to 20 min: one preemption "
        "may end it before its work is done."
    )
