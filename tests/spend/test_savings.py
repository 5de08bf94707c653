"""Savings of stops are estimates that never claim more than they can."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at, lifetime

from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import EndReason
from costguard.model.money import Money, Priced
from costguard.model.price import Price, PriceKey, Unit
from costguard.spend.savings import MOST, Bound, of_shadow, of_stop

HOUR = timedelta(hours=1)
NOW = at("2026-11-05T10:00")
RATES = {"a2:core": "0.02", "a2:ram": "0.005", "gpu:nvidia-tesla-a100": "2"}  # 12 x 0.02 + 85 x 0.005 + 2
UNITS = {"a2:ram": Unit.GIB_HOUR}
BOOK = PriceBook(
    [
        Price(
            PriceKey(resource, "us-central1", ProvisioningModel.STANDARD),
            UNITS.get(resource, Unit.HOUR),
            Money.of(rate).nanos,
            at("2026-01-01T00:00"),
            "test",
            id=number,
        )
        for number, (resource, rate) in enumerate(RATES.items(), 1)
    ]
)
HOURLY = Money.of("2.665")


@pytest.mark.parametrize(
    ("ran_again", "now", "hours", "bound"),
    [
        (None, "13:00", 3, Bound.NOW),
        ("12:00", "13:00", 2, Bound.RAN_AGAIN),
        (None, "2026-11-09T10:00", 24, Bound.LONGEST),
        ("2026-11-08T10:00", "2026-11-09T10:00", 24, Bound.LONGEST),
        (None, "10:00", 0, Bound.NOW),
    ],
)
def test_a_stop_saves_until_the_machine_runs_again(ran_again: str | None, now: str, hours: int, bound: Bound) -> None:
    """The saving is its rate times that time, or until now, and never for more than a day."""
    saving = of_stop(Money.of("2.50"), at("10:00"), at(ran_again) if ran_again else None, at(now))
    assert (saving.amount, saving.bound) == (Priced(Money.of("2.50").over(hours * HOUR)), bound)
    assert "estimate" in saving.method


def test_a_machine_without_a_price_saved_an_amount_that_is_not_known() -> None:
    """It is not zero: it is not whole."""
    assert of_stop(None, at("10:00"), None, NOW).amount == Priced(whole=False)


def test_a_shadow_stop_would_have_saved_what_the_run_went_on_to_cost() -> None:
    """The cost is to the second, from the ledger's prices."""
    run = lifetime("08:00", "12:30", EndReason.STOPPED)
    saving = of_shadow(run, at("10:00"), None, BOOK, NOW)
    assert saving.amount == saving.in_all == Priced(HOURLY.over(2.5 * HOUR))
    assert (saving.until, saving.bound) == (at("12:30"), Bound.ENDED)


def test_both_figures_of_a_long_one_are_known() -> None:
    """The cost of a day of it counts as saved, and all of it is shown next to it."""
    saving = of_shadow(lifetime("08:00"), at("10:00"), None, BOOK, NOW)
    assert (saving.amount, saving.bound) == (Priced(HOURLY.over(24 * HOUR)), Bound.LONGEST)
    assert saving.in_all == Priced(HOURLY.over(72 * HOUR))


def test_two_shadow_stops_of_one_run_count_no_hour_twice() -> None:
    """The earlier ends where the later begins."""
    run = lifetime("08:00", "20:00", EndReason.STOPPED)
    first, second = at("10:00"), at("15:00")
    one, two = of_shadow(run, first, second, BOOK, NOW), of_shadow(run, second, None, BOOK, NOW)
    assert one.bound is Bound.DECIDED_AGAIN
    assert one.amount + two.amount == Priced(HOURLY.over(10 * HOUR))


def test_what_has_no_price_is_not_nothing() -> None:
    """Both figures say that they are not whole."""
    saving = of_shadow(lifetime("08:00"), at("10:00"), None, PriceBook([]), NOW)
    assert saving.amount == saving.in_all == Priced(whole=False)


@given(st.integers(0, 10**10), st.timedeltas(timedelta(), timedelta(days=9)), st.none() | st.integers(0, 200))
def test_no_stop_saves_more_than_a_day_of_its_rate(nanos: int, ago: timedelta, again: int | None) -> None:
    """The saving is not less than nothing, whenever it was and however soon it ran again."""
    stopped_at: datetime = NOW - ago
    ran_again_at = None if again is None else min(NOW, stopped_at + again * HOUR)
    saving = of_stop(Money(nanos), stopped_at, ran_again_at, NOW)
    assert Money() <= saving.amount.amount <= Money(24 * nanos)
    assert stopped_at <= saving.until <= min(NOW, stopped_at + MOST)
