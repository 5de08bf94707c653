"""A stop is one line, and one view has one time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from costguard.events.audit_log import StoredEvent
from costguard.model.event import Event
from costguard.model.moments import moment_text, zone_of
from costguard.pages.folding import folded
from costguard.pages.show import marked, with_local_times

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)  # a Sunday
MINUTE = timedelta(minutes=1)


def stored(number: int, kind: str, minutes_ago: int, vm: str = "4711", **data: object) -> StoredEvent:
    at = NOW - minutes_ago * MINUTE
    event = Event(key=str(number), kind=kind, occurred_at=at, text=kind, project="lab", gce_id=vm, name="a", data=data)
    return StoredEvent(number, at, event)


def shape(events: list[StoredEvent]) -> list[tuple[int, list[int]]]:
    return [(line.id, [step.id for step in line.steps]) for line in folded(events)]


def test_the_steps_of_a_stop_are_under_its_outcome() -> None:
    """The steps requested, ordered and done are one line. Another VM's events between them are lines of their own."""
    assert shape(
        [
            stored(5, "LifetimeEnded", 1),
            stored(4, "LifetimeStarted", 2, vm="other"),
            stored(3, "InstanceStopOrdered", 3),
            stored(2, "RequestMade", 4, asked="stop"),
            stored(1, "LifetimeStarted", 90),
        ]
    ) == [(5, [3, 2]), (4, []), (1, [])]


@pytest.mark.parametrize("kind", ["InstanceStopFailed", "InstanceStopNotNeeded", "LifetimeEnded", "RequestRefused"])
def test_every_outcome_has_its_steps(kind: str) -> None:
    """The steps are shown also of a stop that failed, was no longer needed, or was refused."""
    assert shape([stored(2, kind, 1), stored(1, "InstanceStopOrdered", 2)]) == [(2, [1])]


def test_a_stop_under_way_is_a_line_with_its_request() -> None:
    """Nothing has come of it yet."""
    events = [stored(2, "InstanceStopOrdered", 1), stored(1, "RequestMade", 2, asked="stop")]
    assert shape(events) == [(2, [1])]


@pytest.mark.parametrize(
    "older",
    [
        stored(1, "RequestMade", 2, asked="keep"),
        stored(1, "ReminderSent", 2),
        stored(1, "InstanceStopOrdered", 90),
        stored(1, "InstanceStopOrdered", 2, vm="other"),
    ],
    ids=["keep", "reminder", "long ago", "another VM"],
)
def test_what_is_no_step_stands_alone(older: StoredEvent) -> None:
    """Other wishes, other events, a step of long ago, and steps of another VM."""
    assert shape([stored(2, "LifetimeEnded", 1), older]) == [(2, []), (1, [])]


def test_two_stops_of_one_vm_are_two_lines() -> None:
    """A request is where a stop begins: what is older belongs to the one before."""
    events = [
        stored(4, "LifetimeEnded", 1),
        stored(3, "RequestMade", 2, asked="stop"),
        stored(2, "InstanceStopOrdered", 10),
        stored(1, "RequestMade", 11, asked="stop"),
    ]
    assert shape(events) == [(4, [3]), (2, [1])]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("since Sun 06:25 UTC", "2026-11-22T06:25:00Z"),
        ("until Mon 09:00 UTC", "2026-11-23T09:00:00Z"),
        ("since Fri 23:10 UTC", "2026-11-20T23:10:00Z"),
        ("until Tue 24 Nov 08:00 UTC", "2026-11-24T08:00:00Z"),
        ("on Fri 1 Jan 00:30 UTC", "2027-01-01T00:30:00Z"),
        ("passed 2026-11-01 23:59 UTC", "2026-11-01T23:59:00Z"),
        ("goes on at 11:58:30 UTC.", "2026-11-22T11:58:30Z"),
        ("at 23:59 UTC", "2026-11-22T23:59:00Z"),
        ("at 23:59 UTC on 21 Nov after 12 h", "2026-11-21T23:59:00Z"),
    ],
)
def test_a_moment_in_a_sentence_is_an_element(text: str, moment: str) -> None:
    """The page's script shows it in the viewer's zone; UTC is in the title and in the attribute for programs."""
    shown = with_local_times(text, NOW)
    assert f'datetime="{moment}"' in shown
    assert f'title="{moment[:10]} {moment[11:19]} UTC"' in shown


@pytest.mark.parametrize("text", ["at 25:00 UTC", "Sun 31 Feb 10:00 UTC", "10:00", "UTC", "10:00 CET", "v10:00 UTCX"])
def test_what_is_no_moment_stays_text(text: str) -> None:
    """Neither a time that cannot be nor one of another zone is changed."""
    assert with_local_times(text, NOW) == text


def test_a_sentence_cannot_bring_markup() -> None:
    """It is escaped around the moments as everything else on a page."""
    shown = with_local_times("<b> until Mon 09:00 UTC & <script>", NOW)
    assert shown.startswith("&lt;b&gt; until <time ")
    assert shown.endswith("</time> &amp; &lt;script&gt;")


def test_every_moment_that_sentences_say_is_understood() -> None:
    """A moment that model/moments.py writes within a year is read back as that minute."""
    zone = zone_of("UTC")
    for hours in range(-24 * 170, 24 * 170, 7):
        moment = NOW + timedelta(hours=hours)
        assert f'datetime="{moment:%Y-%m-%dT%H:%M}:00Z"' in with_local_times(moment_text(moment, zone, NOW), NOW), (
            moment
        )


def test_names_between_backticks_are_code_and_nothing_else_is_markup() -> None:
    """The text is as settings and commands are written in messages; text from outside is escaped."""
    assert marked("Leave `enabled` on, <b>") == "Leave <code>enabled</code> on, &lt;b&gt;"
    assert marked("`a` and `<i>`") == "<code>a</code> and <code>&lt;i&gt;</code>"
    assert marked("none") == "none"
