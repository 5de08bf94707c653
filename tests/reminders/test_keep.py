"""A keep moves the due moment."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at
from tests.reminders.reminded import DAY, DUE, HOUR, asked, keep

from costguard.model.moments import zone_of
from costguard.model.reminder import ReminderRule, RequestKind
from costguard.reminders.request_rules import kept_until

NOW = at("12:00")
RULE = ReminderRule()


def kept(
    hours: int | None, due: datetime = DUE, times: int = 0, admin: bool = False, zone: str = "UTC", now: datetime = NOW
) -> datetime | str:
    request = asked(RequestKind.KEEP, hours=hours)
    earlier = [keep(DUE)] * times
    return kept_until(request, zone_of(zone), due, RULE, earlier, admin, now, ["root@example.com", "a@example.com"])


def test_hours() -> None:
    """The hours count from now, or from the due moment where that is still to come."""
    assert kept(4) == at("16:00")
    assert kept(4, due=at("13:00")) == at("17:00")


def test_until_tomorrow_morning() -> None:
    """Nine o'clock of the next day where the person is, also where clocks change in the night before."""
    assert kept(None) == at("2026-11-03T09:00")
    assert kept(None, zone="Asia/Tokyo") == at("2026-11-03T00:00")
    assert kept(None, zone="Asia/Tokyo", now=at("16:00")) == at("2026-11-04T00:00")
    assert kept(None, zone="Europe/Berlin", now=at("2026-10-24T12:00"), due=DUE - 30 * DAY) == at("2026-10-25T08:00")


@pytest.mark.parametrize(
    ("hours", "due", "times", "expected"),
    [
        (4, DUE, 3, "It was already kept 3 times; ask an admin: a@example.com, root@example.com."),
        (0, DUE, 0, "It cannot be kept for 0 h. Give a whole number of hours, 1 or more."),
        (73, DUE, 0, "It can be kept for at most 3 d from now."),
        (10**12, DUE, 0, "It can be kept for at most 3 d from now."),
        (72, at("13:00"), 0, "It can be kept for at most 3 d from now."),
        (None, at("2026-11-04T09:00"), 0, "It is not due before Wed 09:00 UTC"),
    ],
)
def test_refusals(hours: int | None, due: datetime, times: int, expected: str) -> None:
    """A request too often, too long, or for nothing is refused with what to do instead."""
    result = kept(hours, due, times)
    assert isinstance(result, str)
    assert result.startswith(expected)


def test_an_admin_keeps_it_once_more() -> None:
    """The count is for owners; the length is for all."""
    assert kept(4, times=3, admin=True) == at("16:00")
    assert isinstance(kept(73, times=3, admin=True), str)


def test_without_admins_the_refusal_says_so() -> None:
    """Nobody is sent to look for someone who does not exist."""
    result = kept_until(asked(RequestKind.KEEP, hours=4), zone_of(""), DUE, RULE, [keep(DUE)] * 3, False, NOW)
    assert result == "It was already kept 3 times; only an admin can keep it again, and [access] names none."


@given(st.none() | st.integers(-5, 200), st.integers(-100, 100), st.integers(0, 5), st.booleans())
def test_a_keep_moves_the_due_moment_forward_within_bounds(
    hours: int | None, due: int, times: int, admin: bool
) -> None:
    """Never back, never further than the rule allows, and never more often without an admin."""
    result = kept(hours, NOW + due * HOUR, times, admin)
    if not isinstance(result, str):
        assert max(NOW, NOW + due * HOUR) < result <= NOW + RULE.longest_keep
        assert admin or times < RULE.keeps
