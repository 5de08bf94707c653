"""Expensive launches need a confirmation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.jobs.job_service import SPEC, T4

from costguard.jobs.submit.cost.expected import ExpectedJobCost
from costguard.jobs.submit.cost.offers import PlaceOffer
from costguard.jobs.submit.cost.question import question_of
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobSpec
from costguard.model.money import Money

HOUR = timedelta(hours=1)
RECIPE = replace(T4, max_run=6 * HOUR)
OFFER = PlaceOffer("us-central1-a", ProvisioningModel.SPOT, Money.of("19.50"), None)
EXPECTED = ExpectedJobCost(Money.of(120), Money.of(90), Money.of(180), 28, 1.5, 100)
BARE = replace(SPEC, ceiling=None, work=None)


@pytest.mark.parametrize(
    ("spec", "offer", "expected", "question"),
    [
        (BARE, OFFER, None, "It may cost $117.00: 6 h at $19.50 an hour."),
        (replace(BARE, work=16 * HOUR), OFFER, None, "It may cost $312.00: 16 h at $19.50 an hour."),
        (replace(BARE, work=5 * HOUR), OFFER, None, ""),
        (replace(BARE, work=16 * HOUR), OFFER, EXPECTED, "It may cost about $120.00 by its deadline."),
        (replace(BARE, ceiling=Money.of(110)), OFFER, None, "It may cost up to its ceiling of $110.00."),
        (replace(BARE, ceiling=Money.of(60)), OFFER, None, ""),
        (replace(BARE, max_vm_time=5 * HOUR), OFFER, None, ""),
        (replace(BARE, max_vm_time=5.5 * HOUR), OFFER, None, "It may cost $107.25: 5 h 30 min at $19.50 an hour."),
        (BARE, replace(OFFER, rate=None), None, "What it may cost is not known: it has no price."),
        (replace(BARE, ceiling=Money.of(60)), None, None, ""),
    ],
)
def test_a_launch_is_confirmed_where_it_may_cost_more_than_the_settings_say(
    spec: JobSpec, offer: PlaceOffer | None, expected: ExpectedJobCost | None, question: str
) -> None:
    """The cost follows the length of its work, else the longest that one VM runs; a ceiling bounds both, and the
    unknown too.
    """
    assert question_of(spec, RECIPE, offer, expected, Money.of(100)) == question


def test_nothing_is_asked_where_the_settings_say_never() -> None:
    """No question is asked either about a preset that cannot be launched, which is refused anyway."""
    assert question_of(BARE, RECIPE, OFFER, None, None) == ""
    assert question_of(BARE, None, OFFER, None, Money.of(1)) == ""
