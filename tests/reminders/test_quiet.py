"""Quiet hours disturb nobody."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.model.moments import moment_text, zone_of
from costguard.model.money import Money
from costguard.model.reminder import QuietRule
from costguard.reminders.context import quiet_until

RULE = QuietRule()
MINUTE = timedelta(minutes=1)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo"]
moments = st.integers(0, 2 * 365 * 1440).map(lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + minutes * MINUTE)
hours = st.integers(0, 47).map(lambda half: time(half // 2, 30 * (half % 2)))
rules = st.builds(QuietRule, hours, hours, st.frozensets(st.integers(0, 6), max_size=6))


def until(text: str, zone: str = "UTC", rule: QuietRule = RULE, rate: Money | None = None) -> str:
    result = quiet_until(rule, zone, rate, datetime.fromisoformat(text).replace(tzinfo=UTC))
    return f"{result:%Y-%m-%dT%H:%M}" if result is not None else ""


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-11-02T07:59", "2026-11-02T08:00"),
        ("2026-11-02T08:00", ""),
        ("2026-11-02T19:59", ""),
        ("2026-11-02T20:00", "2026-11-03T08:00"),
        ("2026-11-06T21:00", "2026-11-09T08:00"),  # from Friday night to Monday morning is one
        ("2026-11-08T12:00", "2026-11-09T08:00"),
    ],
)
def test_nights_and_weekends(now: str, expected: str) -> None:
    """The quiet is from eight to eight, and all Saturday and Sunday; the end of the whole span is returned."""
    assert until(now) == expected


def test_hours_are_the_recipients() -> None:
    """Noon here is night there; a zone that this machine does not know counts as UTC."""
    assert until("2026-11-02T12:00", "Asia/Tokyo") == "2026-11-02T23:00"
    assert until("2026-11-02T12:00", "Mars/Olympus") == ""


def test_some_vms_are_worth_waking_somebody_for() -> None:
    """The VM costs more than the amount; one of unknown price never wakes anyone."""
    rule = QuietRule(unless_above=Money.of(30))
    night = "2026-11-02T23:00"
    assert until(night, rule=rule, rate=Money.of(31)) == ""
    assert until(night, rule=rule, rate=Money.of(30)) == until(night, rule=rule) == "2026-11-03T08:00"
    assert until(night, rate=Money.of(1000)) == "2026-11-03T08:00"


def test_hours_within_a_day_and_none() -> None:
    """Equal times mean never; the quiet may also lie within one day."""
    assert until("2026-11-02T12:30", rule=QuietRule(time(12), time(13), frozenset())) == "2026-11-02T13:00"
    assert until("2026-11-02T13:30", rule=QuietRule(time(12), time(13), frozenset())) == ""
    assert until("2026-11-02T23:00", rule=QuietRule(time(8), time(8), frozenset())) == ""
    assert until("2026-11-02T23:00", rule=QuietRule(days=frozenset(range(7)))) > "2026-11-09"


def test_a_night_in_which_clocks_change() -> None:
    """Quiet ends at eight by the new clock, however long that night was."""
    rule = QuietRule(days=frozenset())
    assert until("2026-03-28T21:00", "Europe/Berlin", rule) == "2026-03-29T06:00"
    assert until("2026-10-24T21:00", "Europe/Berlin", rule) == "2026-10-25T07:00"


@given(rules, st.sampled_from(ZONES), moments)
def test_all_of_it_is_quiet_up_to_its_end(rule: QuietRule, zone: str, now: datetime) -> None:
    """The quiet holds through any change of clocks: at every moment before the end with the same end, and not at the
    end.
    """
    end = quiet_until(rule, zone, None, now)
    if end is None:
        return
    assert end > now
    if end - now < timedelta(days=8):
        assert quiet_until(rule, zone, None, end) is None
        for tenth in range(10):
            assert quiet_until(rule, zone, None, now + (end - now) * tenth / 10) == end


def test_moments_are_told_shortly() -> None:
    """A day of the week while that says it, and the date where it does not."""
    now = datetime(2026, 11, 2, 10, tzinfo=UTC)
    assert moment_text(now + timedelta(days=1), zone_of("UTC"), now) == "Tue 10:00 UTC"
    assert moment_text(now + timedelta(days=8), zone_of("Europe/Berlin"), now) == "Tue 10 Nov 11:00 CET"
    assert zone_of("Mars/Olympus", "Asia/Tokyo").key == "Asia/Tokyo"
