"""Where a budget stands in its period, and which thresholds are to be announced."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from costguard.model.budget import Budget, Period, Scope
from costguard.model.money import ZERO, Money
from costguard.spend.budget import On, Outlook, bounds, due, key, standing
from costguard.spend.forecast import Forecast

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday
BUDGET = Budget("lab", Scope(), Money.of(1000), Period.MONTH, (50, 80, 100), (100, 120))


def outlook(spent: str, expected: str, *, is_grounded: bool = True) -> Outlook:
    starts_at, ends_at = bounds(Period.MONTH, NOW)
    amount = Money.of(expected)
    made = Forecast(amount, amount, amount, "as a test likes it", 28, is_grounded)
    return Outlook(Scope(), Period.MONTH, starts_at, ends_at, Money.of(spent), ZERO, made, 0)


@pytest.mark.parametrize(
    ("period", "now", "start", "end"),
    [
        (Period.DAY, "2026-11-20T12:00", "2026-11-20", "2026-11-21"),
        (Period.DAY, "2026-12-31T23:59", "2026-12-31", "2027-01-01"),
        (Period.WEEK, "2026-11-20T12:00", "2026-11-16", "2026-11-23"),
        (Period.WEEK, "2026-11-16T00:00", "2026-11-16", "2026-11-23"),
        (Period.WEEK, "2027-01-03T23:00", "2026-12-28", "2027-01-04"),
        (Period.MONTH, "2026-11-20T12:00", "2026-11-01", "2026-12-01"),
        (Period.MONTH, "2028-02-29T12:00", "2028-02-01", "2028-03-01"),
        (Period.MONTH, "2026-12-31T23:59", "2026-12-01", "2027-01-01"),
    ],
)
def test_periods_begin_and_end_at_midnight_utc(period: Period, now: str, start: str, end: str) -> None:
    """A day, a week from Monday, a calendar month; a moment on the edge belongs to what begins there."""
    moments = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (start, end)]
    assert list(bounds(period, datetime.fromisoformat(now).replace(tzinfo=UTC))) == moments


def test_a_threshold_is_crossed_at_its_exact_amount() -> None:
    """80% of $1,000 is crossed at $800, and not a nano-dollar before."""
    crossed = standing(BUDGET, outlook("800", "900"), {})
    just_below = standing(BUDGET, outlook("799.999999999", "900"), {})
    assert [(threshold.percent, threshold.is_crossed) for threshold in crossed.thresholds] == [
        (50, True),
        (80, True),
        (100, False),
        (100, False),
        (120, False),
    ]
    assert not just_below.thresholds[1].is_crossed
    assert (crossed.percent, just_below.percent) == (80, 79)


def test_what_was_told_in_the_period_is_not_due_again() -> None:
    """A crossing is known by budget, period, threshold and kind, and a new period begins again."""
    outlined = outlook("800", "1250")
    first = standing(BUDGET, outlined, {})
    assert [(threshold.on, threshold.percent) for threshold in due(first)] == [
        (On.SPENT, 50),
        (On.SPENT, 80),
        (On.FORECAST, 100),
        (On.FORECAST, 120),
    ]
    announced = {key(BUDGET, outlined.starts_at, threshold.on, threshold.percent): NOW for threshold in due(first)}
    again = standing(BUDGET, outlined, announced)
    assert due(again) == []
    assert again.thresholds[0].first_at == NOW
    last_month = datetime(2026, 10, 1, tzinfo=UTC)
    assert key(BUDGET, last_month, On.SPENT, 50) not in announced


def test_a_forecast_that_fell_keeps_when_it_was_told() -> None:
    """It is no longer crossed, and rising again tells nobody twice."""
    announced = {key(BUDGET, outlook("1", "1").starts_at, On.FORECAST, 100): NOW}
    fell = standing(BUDGET, outlook("100", "900"), announced)
    forecast = next(threshold for threshold in fell.thresholds if threshold.on is On.FORECAST)
    assert (forecast.is_crossed, forecast.first_at) == (False, NOW)
    assert due(standing(BUDGET, outlook("100", "1100"), announced)) == []


def test_a_forecast_from_almost_nothing_tells_nobody() -> None:
    """It is shown; what is spent is announced all the same."""
    thresholds = due(standing(BUDGET, outlook("500", "9000", is_grounded=False), {}))
    assert [(threshold.on, threshold.percent) for threshold in thresholds] == [(On.SPENT, 50)]


def test_too_early_to_say_is_what_messages_say_too() -> None:
    """The words replace the figure under the condition by which no threshold on the forecast counts as crossed."""
    early = standing(BUDGET, outlook("100", "9000", is_grounded=False), {})
    assert early.forecast_text == "too early to say"
    assert not any(threshold.is_crossed for threshold in early.thresholds if threshold.on is On.FORECAST)
    assert standing(BUDGET, outlook("100", "900"), {}).forecast_text == "about $900.00 (90%)"
