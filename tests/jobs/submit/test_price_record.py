"""A quote next to Google's own record of Spot's prices."""

from __future__ import annotations

import pytest
from tests.jobs.jobbed import ON_DEMAND, SPOT, A

from costguard.jobs.submit.cost.offers import HourlyRate
from costguard.jobs.submit.cost.price_record import price_warnings
from costguard.model.instance import region_of
from costguard.model.money import Money

REGION = region_of(A)
RATE = HourlyRate(Money.of("0.6"), Money.of("0.4"), disk=Money.of(5), address=Money.of(7))


def warned(listed: str, rate: HourlyRate = RATE) -> list[str]:
    dear = HourlyRate(Money.of(9), Money.of(9), Money.of(9), Money.of(9))
    return list(price_warnings({(A, ON_DEMAND): dear, (A, SPOT): rate}, {REGION: Money.of(listed)}))


@pytest.mark.parametrize("listed", ["0.99", "1", "1.02"])
def test_prices_that_agree_are_not_spoken_of(listed: str) -> None:
    """Disks and addresses are no part of Google's record, and on-demand is none of Spot's."""
    assert warned(listed) == []


@pytest.mark.parametrize("listed", ["0.97", "1.03", "2"])
def test_prices_that_differ_are_both_named(listed: str) -> None:
    """It warns of over 2 %, in either direction."""
    (said,) = warned(listed)
    assert said.startswith(f"Google's own record has such a Spot VM in {REGION} at {Money.of(listed)} an hour")
    assert "make it $1.00" in said


def test_unknown_prices_are_compared_with_nothing() -> None:
    """Neither a VM without a price here, nor a region that Google has no record of, is a difference."""
    assert warned("2", HourlyRate(Money.of(1), gpu=None)) == []
    assert list(price_warnings({(A, SPOT): RATE}, {"mars-north1": Money.of(2)})) == []
