"""Durations, money, rates, moments, counts and lists as people read them, by one formatter each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from costguard.model.duration import span_text
from costguard.model.moments import clock_text, moment_text
from costguard.model.money import Money, Priced, exact_text, money_text, priced_text, rate_text
from costguard.model.words import count_text, list_text

TUESDAY = datetime(2026, 11, 3, 9, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (-HOUR, "0 s"),
        (timedelta(seconds=45.9), "45 s"),
        (timedelta(minutes=12), "12 min"),
        (timedelta(minutes=12, seconds=5), "12 min 5 s"),
        (timedelta(hours=3, minutes=5, seconds=9), "3 h 5 min"),
        (timedelta(days=2, minutes=59), "2 d"),
        (timedelta(days=2, hours=4), "2 d 4 h"),
    ],
)
def test_durations_have_their_two_largest_units(span: timedelta, text: str) -> None:
    """Rounded down, and never below zero: a VM may have started a moment ahead of our clock."""
    assert span_text(span) == text


def test_short_durations_may_have_tenths() -> None:
    """Where fractions matter, as between a preemption's notification and the signal; not from ten seconds on."""
    assert span_text(timedelta(seconds=1.34), tenths=True) == "1.3 s"
    assert span_text(timedelta(seconds=2), tenths=True) == "2 s"
    assert span_text(timedelta(seconds=12.7), tenths=True) == "12 s"


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        ("0", "$0.00"),
        ("0.000000001", "<$0.01"),
        ("0.005", "<$0.01"),
        ("0.006", "$0.01"),
        ("-0.004", "<$0.01"),
        ("0.125", "$0.12"),
        ("0.135", "$0.14"),
        ("1234.567", "$1,234.57"),
        ("-1234.5", "-$1,234.50"),
    ],
)
def test_money_is_rounded_to_the_cent_and_never_to_nothing(dollars: str, text: str) -> None:
    """Halves to even; what is too small for a cent says so."""
    assert str(Money.of(dollars)) == text


def test_rates_below_a_dollar_have_three_places() -> None:
    """A price list's differences are in the third one."""
    assert [rate_text(Money.of(rate)) for rate in ("0", "0.0004", "0.534", "0.9996", "1", "2.934")] == [
        "$0.00",
        "<$0.001",
        "$0.534",
        "$1.000",
        "$1.00",
        "$2.93",
    ]
    assert money_text(Money.of("0.00001"), 4) == "<$0.0001"
    assert exact_text(Money.of("0.031611")) == "$0.031611"


def test_an_amount_says_when_something_in_it_has_no_price() -> None:
    """Unknown is never zero."""
    assert priced_text(Priced(Money.of("3"))) == "$3.00"
    assert priced_text(Priced(Money.of("0.3"), whole=False), rate_text) == "at least $0.300"
    assert priced_text(Priced(whole=False)) == "not priced"
    assert priced_text(Priced()) == "$0.00"


def test_moments_have_a_date_where_the_weekday_is_not_enough() -> None:
    """The date is in the reader's zone; a clock time of another day has that day."""
    assert moment_text(TUESDAY, now=TUESDAY - DAY) == "Tue 09:05 UTC"
    assert moment_text(TUESDAY, now=TUESDAY - 3 * DAY) == "Tue 3 Nov 09:05 UTC"
    assert moment_text(TUESDAY, ZoneInfo("Europe/Berlin")) == "Tue 3 Nov 10:05 CET"
    assert moment_text(TUESDAY, now=TUESDAY, with_zone=False) == "Tue 09:05"
    assert clock_text(TUESDAY, TUESDAY + HOUR) == "09:05 UTC"
    assert clock_text(TUESDAY, TUESDAY + DAY) == "Tue 09:05 UTC"


def test_counts_and_lists_are_said_as_people_say_them() -> None:
    """`1 VM`, `1,200 VMs`; `a, b and c`."""
    assert [count_text(number, "VM") for number in (0, 1, 1200)] == ["0 VMs", "1 VM", "1,200 VMs"]
    assert count_text(2, "crash", "crashes") == "2 crashes"
    assert [list_text(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
