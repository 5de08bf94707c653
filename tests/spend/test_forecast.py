"""Forecasts on ledgers whose ends are known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.model.money import ZERO, Money
from costguard.spend.forecast import METHOD, METHOD_WITHOUT_HISTORY, Burn, Forecast, forecast

DAY = timedelta(days=1)
FIRST = datetime(2026, 11, 1, tzinfo=UTC)  # a Sunday
END = datetime(2026, 12, 1, tzinfo=UTC)
NANOS = 1_000_000_000

Rates = Callable[[datetime], int]  # dollars an hour


def spent_between(rates: Rates, start: datetime, end: datetime) -> Money:
    hours = (end - start) // timedelta(hours=1)
    return Money(sum(rates(start + hour * timedelta(hours=1)) for hour in range(hours)) * NANOS)


def forecast_at(
    rates: Rates, now: datetime, history: int = 28, until: datetime | None = None
) -> tuple[Forecast, Money]:
    """The forecast of November at a full hour, and what November really costs."""
    today = now.replace(hour=0)
    days = {
        (today - n * DAY).date(): spent_between(rates, today - n * DAY, today - (n - 1) * DAY)
        for n in range(1, history + 1)
    }
    burns = [Burn(Money(rates(now) * NANOS), until)] if rates(now) else []
    return forecast(spent_between(rates, FIRST, now), burns, days, now, END), spent_between(rates, FIRST, END)


def error_of(made: Forecast, truth: Money) -> Fraction:
    """Returns the error in percent of the truth; positive: too high."""
    return Fraction(100 * (made.expected - truth).nanos, truth.nanos)


def constant(_: datetime) -> int:
    return 5


def office(moment: datetime) -> int:
    """Weekdays from 8 to 20."""
    return 12 if moment.weekday() < 5 and 8 <= moment.hour < 20 else 0


@pytest.mark.parametrize("day", [1, 10, 20, 30])
def test_constant_use_is_forecast_exactly(day: int) -> None:
    """The range of constant use is narrow, a tenth of a day's spend for each day left, and no point."""
    now = FIRST + (day - 1) * DAY + timedelta(hours=7)
    made, truth = forecast_at(constant, now)
    assert made.expected == truth
    assert made.low < truth < made.high
    days_left = Fraction((END - now) // timedelta(hours=1), 24)
    assert (made.high - truth).nanos <= Fraction(24 * 5 * NANOS, 10) * max(days_left, Fraction(1))


@pytest.mark.parametrize(("day", "hour"), [(2, 3), (2, 12), (6, 22), (11, 0), (11, 14), (21, 9), (28, 12)])
def test_a_weekday_pattern_is_forecast_closely(day: int, hour: int) -> None:
    """Weekends are not taken for weekdays; only what runs at this hour can mislead, by less than a day's spend."""
    made, truth = forecast_at(office, FIRST + (day - 1) * DAY + timedelta(hours=hour))
    assert abs(error_of(made, truth)) < 6
    # Hours of a day are not told apart: at 3 in the morning, all of Monday is still to come.
    slack = Money(truth.nanos // 100)
    assert made.low - slack <= truth <= made.high + slack


def test_a_fleet_that_ends_tomorrow_is_not_taken_for_a_month() -> None:
    """The forecast of a large fleet where there never was one is a day more, and not the rest of the month."""
    now = FIRST + 9 * DAY + timedelta(hours=12)

    def burst(moment: datetime) -> int:
        return 40 if FIRST + 9 * DAY <= moment < FIRST + 11 * DAY else 0

    made, truth = forecast_at(burst, now)
    assert truth == Money.of(40 * 48)
    assert made.expected == Money.of(40 * 36)
    assert made.low == Money.of(40 * 12)
    assert made.high >= truth


def test_an_end_that_is_known_ends_what_runs() -> None:
    """Google's own run-time limit on a VM cuts what it is thought to cost."""
    now = FIRST + 9 * DAY + timedelta(hours=12)
    burst = {date(2026, 10, 14) + n * DAY: ZERO for n in range(27)}
    until = forecast(ZERO, [Burn(Money.of(40), now + timedelta(hours=12))], burst, now, END)
    assert until.expected == Money.of("420")  # 12 h, of which an eighth fades
    assert until.high == Money.of("480")
    assert forecast(ZERO, [Burn(Money.of(40), now)], burst, now, END).high == ZERO


def test_a_first_day_without_history_says_so() -> None:
    """The forecast lies halfway between fading and running on; it is too early to say which."""
    now = FIRST + timedelta(hours=6)
    made, truth = forecast_at(constant, now, history=0)
    assert made.method == METHOD_WITHOUT_HISTORY
    assert made.high == truth
    assert made.low == Money.of(5 * 6 + 5 * 24)
    assert made.expected - made.low == made.high - made.expected
    assert not made.is_grounded
    assert forecast(ZERO, [], {}, END - DAY, END).is_grounded


def test_one_odd_day_changes_nothing() -> None:
    """A day at twenty times the usual stays in what was spent, and out of what is expected."""

    def odd(moment: datetime) -> int:
        return 100 if moment.date() == date(2026, 11, 5) else 5

    for day in (7, 13, 25):
        made, truth = forecast_at(odd, FIRST + (day - 1) * DAY)
        assert made.expected == truth
        assert made.method == METHOD


def test_a_new_level_counts_after_four_days() -> None:
    """Use that doubles for good is believed when most of a week has it."""

    def doubled(moment: datetime) -> int:
        return 10 if moment >= FIRST + 7 * DAY else 5

    early, truth = forecast_at(doubled, FIRST + 8 * DAY)
    late, _ = forecast_at(doubled, FIRST + 11 * DAY)
    assert -50 < error_of(early, truth) < -20
    assert late.expected == truth


def test_the_range_holds_what_comes_when_days_vary() -> None:
    """The range holds nine ends in ten of months whose days vary by half."""
    held = 0
    for seed in range(40):

        def varied(moment: datetime, seed: int = seed) -> int:
            return 5 + (moment.toordinal() * 7919 + seed * 104_729) % 97 % 11

        made, truth = forecast_at(varied, FIRST + 14 * DAY + timedelta(hours=12))
        held += made.low <= truth <= made.high
    assert held >= 36


amounts = st.integers(0, 10**15).map(Money)
moments = st.integers(0, 30 * 86_400 - 1).map(lambda second: FIRST + timedelta(seconds=second))
burning = st.lists(st.builds(Burn, amounts, st.none() | moments), max_size=4)


@given(amounts, burning, st.dictionaries(st.integers(1, 40), amounts), moments)
def test_a_forecast_is_never_below_what_was_spent(
    spent: Money, burns: list[Burn], back: dict[int, Money], now: datetime
) -> None:
    """The range is not below it either, and holds what is expected."""
    days = {now.date() - n * DAY: amount for n, amount in back.items()}
    made = forecast(spent, burns, days, now, END)
    assert spent <= made.low <= made.expected <= made.high


@given(amounts, st.integers(1, 28), moments)
def test_equal_days_are_enough_however_few(a_day: Money, count: int, now: datetime) -> None:
    """The forecast of one whole day or four weeks of equal ones is the same: it goes on so."""
    days = {now.date() - n * DAY: a_day for n in range(1, count + 1)}
    burn = Burn(Money(a_day.nanos // 24))
    made = forecast(ZERO, [burn], days, now, END)
    left = Fraction((END - now) // timedelta(seconds=1), 86_400) * a_day.nanos
    assert abs(made.expected.nanos - left) <= 25  # the burn rate is cut to whole nanos
    widest = Fraction(2 * a_day.nanos, count + 1) * 6  # the square root of 30 days is less
    assert made.high.nanos - made.expected.nanos <= widest + 25


@given(amounts, burning, st.dictionaries(st.integers(1, 28), amounts), moments)
def test_a_forecast_is_below_its_own_upper_bound(
    spent: Money, burns: list[Burn], back: dict[int, Money], now: datetime
) -> None:
    """Whenever more is expected by a cent: that nothing comes on top is never certain."""
    made = forecast(spent, burns, {now.date() - n * DAY: amount for n, amount in back.items()}, now, END)
    if made.expected - spent >= Money.of("0.01"):
        assert made.expected < made.high


@given(st.integers(0, 28), moments)
def test_nothing_stays_nothing(count: int, now: datetime) -> None:
    """Where nothing was used and nothing runs, nothing is expected."""
    made = forecast(ZERO, [], {now.date() - n * DAY: ZERO for n in range(1, count + 1)}, now, END)
    assert made.expected == made.low == made.high == ZERO
