"""The projects that a pass lists: rules by table, and over drawn streams no listing is older than promised."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at

from costguard.daemon.listings import RHYTHM, EventStreams, FeedWire, ListingReason, Stream, due
from costguard.ledger.projects import ProjectLook
from costguard.model.observation import Unread

NOW = at("12:00")
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
ALIVE = FeedWire(heard_at=NOW - 20 * SECOND)
HEARD = {"lab": Stream(heard_at=NOW - MINUTE)}
REFUSED = Unread("project", "grant the role", "permission")


def look(age: timedelta = MINUTE, project: str = "lab", *unread: Unread, complete: bool = True) -> ProjectLook:
    moment = NOW - age
    return ProjectLook(project, at("08:00"), moment, moment if complete else None, moment, unread, 3)


def why(
    age: timedelta = MINUTE,
    wire: FeedWire | None = ALIVE,
    by_project: Mapping[str, Stream] = HEARD,
    *unread: Unread,
    wanted: Sequence[str] = (),
) -> ListingReason | None:
    return due(["lab"], {"lab": look(age, "lab", *unread)}, EventStreams(wire, by_project), wanted, NOW).get("lab")


def test_project_whose_events_come_waits_for_its_turn() -> None:
    """A turn comes in fourteen minutes, however long ago the last listing was by then."""
    turns = [minute for minute in range(14) if why(minute * MINUTE) is None]
    first_turn = len(turns)
    assert turns == list(range(first_turn))
    assert 0 < first_turn < 14
    assert all(why(minute * MINUTE) is ListingReason.TURN for minute in range(first_turn, 30))


def test_project_that_was_never_read_is_listed() -> None:
    """A project without a look, and one that no look read whole, are listed."""
    assert due(["lab"], {}, EventStreams(ALIVE, HEARD), (), NOW) == {"lab": ListingReason.NEVER_READ}
    looks = {"lab": look(complete=False)}
    assert due(["lab"], looks, EventStreams(ALIVE, HEARD), (), NOW) == {"lab": ListingReason.NEVER_READ}


def test_project_that_was_partly_unread_is_listed_again() -> None:
    """The unread part is read as soon as it can be."""
    assert why(MINUTE, ALIVE, HEARD, REFUSED) is ListingReason.UNREAD


def test_project_in_which_something_is_due_is_listed() -> None:
    """It need not be its turn."""
    assert why(wanted=["lab"]) is ListingReason.WORK


@pytest.mark.parametrize(
    "wire",
    [
        None,
        FeedWire(),
        FeedWire(heard_at=NOW - 91 * SECOND),
        FeedWire(heard_at=NOW + 91 * SECOND),
        FeedWire(sent_at=NOW, pulled_at=NOW, message_at=NOW),
        FeedWire(pulled_at=NOW, can_publish=False),
        FeedWire(pulled_at=NOW - 91 * SECOND, message_at=NOW, can_publish=False),
        FeedWire(pulled_at=NOW, message_at=NOW - 16 * MINUTE, can_publish=False),
    ],
    ids=[
        "no subscription",
        "nothing yet",
        "an old heartbeat",
        "a heartbeat of a time to come",
        "heartbeats go out and do not come back",
        "no heartbeats allowed, and no message",
        "no heartbeats allowed, and no pull",
        "no heartbeats allowed, and the last message is old",
    ],
)
def test_silent_subscription_has_every_project_listed(wire: FeedWire | None) -> None:
    """Nothing is relied on that no heartbeat, nor a message in its place, shows."""
    assert why(wire=wire) is ListingReason.SILENT


def test_without_heartbeats_messages_show_that_the_subscription_is_alive() -> None:
    """A pull was answered just now, and a message came within a quarter of an hour."""
    assert why(wire=FeedWire(pulled_at=NOW - SECOND, message_at=NOW - 14 * MINUTE, can_publish=False)) is None


@pytest.mark.parametrize(
    ("heard_ago", "missed_ago", "expected"),
    [
        (timedelta(minutes=20), timedelta(minutes=1), ListingReason.MISSED),
        (timedelta(seconds=30), timedelta(minutes=1), ListingReason.MISSED),
        (timedelta(minutes=20), timedelta(minutes=16), ListingReason.MISSED),
        (timedelta(minutes=5), timedelta(minutes=16), None),
    ],
    ids=["nothing since", "too soon after", "long ago, and nothing since", "minutes of listings without a gap"],
)
def test_missed_event_has_its_project_listed_until_the_stream_is_confirmed(
    heard_ago: timedelta, missed_ago: timedelta, expected: ListingReason | None
) -> None:
    """It takes another event, and a quarter of an hour without a gap; other projects are not concerned."""
    streams = {"lab": Stream(NOW - heard_ago, NOW - missed_ago), "other": Stream(NOW)}
    assert why(by_project=streams) is expected
    assert due(["other"], {"other": look(project="other")}, EventStreams(ALIVE, streams), (), NOW) == {}


def test_project_without_any_event_is_listed_in_every_pass() -> None:
    """The sink may leave it out, though heartbeats and events of other projects come."""
    assert why(by_project={"other": Stream(NOW)}) is ListingReason.UNPROVEN
    assert why(by_project={"lab": Stream()}) is ListingReason.UNPROVEN


@pytest.mark.parametrize(
    ("since_ago", "heard_ago", "expected"),
    [
        (20 * MINUTE, MINUTE, None),
        (20 * MINUTE, 59 * MINUTE, None),
        (timedelta(days=9), 61 * MINUTE, ListingReason.UNPROVEN),
        (14 * MINUTE, MINUTE, ListingReason.UNPROVEN),
    ],
    ids=["others are heard", "others were heard within the hour", "nobody is heard", "others are heard since now"],
)
def test_quiet_project_waits_for_its_turn_where_others_are_heard(
    since_ago: timedelta, heard_ago: timedelta, expected: ListingReason | None
) -> None:
    """Events of others show that the sink works; its own listings would have shown an operation without its event."""
    streams = EventStreams(ALIVE, {"other": Stream(NOW - heard_ago)}, RHYTHM, NOW - since_ago, NOW - heard_ago)
    assert due(["lab"], {"lab": look(0 * MINUTE)}, streams, (), NOW).get("lab") is expected
    silent = replace(streams, wire=FeedWire())
    assert due(["lab"], {"lab": look(0 * MINUTE)}, silent, (), NOW) == {"lab": ListingReason.SILENT}


@pytest.mark.parametrize("missed_ago", [0 * MINUTE, timedelta(days=3)])
def test_project_that_the_sink_leaves_out_is_listed_in_every_pass(missed_ago: timedelta) -> None:
    """It showed an operation whose event never came; only an event of its own ends that."""
    of_lab = Stream(None, NOW - missed_ago)
    streams = EventStreams(ALIVE, {"lab": of_lab, "other": Stream(NOW)}, RHYTHM, NOW - timedelta(days=4), NOW)
    assert due(["lab"], {"lab": look(0 * MINUTE)}, streams, (), NOW) == {"lab": ListingReason.MISSED}
    back = replace(of_lab, heard_at=NOW - missed_ago + SECOND)
    streams = replace(streams, by_project={"lab": back})
    expected = {"lab": ListingReason.MISSED} if missed_ago < 15 * MINUTE else {}
    assert due(["lab"], {"lab": look(0 * MINUTE)}, streams, (), NOW) == expected


def test_clock_that_was_set_back_has_the_project_listed() -> None:
    """A listing of a time to come says nothing of now."""
    assert why(-timedelta(minutes=5)) is ListingReason.TURN


def test_listing_may_be_as_old_as_its_turn_allows() -> None:
    """The usual limit and a turn, and the usual limit alone while no events come."""
    streams = EventStreams(ALIVE, HEARD)
    assert streams.longest_age("lab", NOW, 5 * MINUTE) == 19 * MINUTE
    assert replace(streams, wire=None).longest_age("lab", NOW, 5 * MINUTE) == 5 * MINUTE


def test_rhythm_of_a_fast_clock_is_as_many_times_as_long() -> None:
    """A pass of a minute is an hour of a clock sixty times as fast: turns are fourteen hours apart."""
    fast = RHYTHM.at_speed(60)
    assert (fast.every, fast.alive_within) == (timedelta(hours=14), timedelta(minutes=90))


def test_turn_of_a_project_is_the_same_in_every_process() -> None:
    """Python orders texts differently in each process; after a restart no project may wait twice as long."""
    code = (
        "from datetime import *; from costguard.daemon.listings import RHYTHM\n"
        "at = datetime(2026, 11, 2, 12, tzinfo=UTC)\n"
        "print([n for n in range(14) if RHYTHM.has_turn('lab', at + n * timedelta(minutes=1), "
        "at + (n + 1) * timedelta(minutes=1))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [n for n in range(14) if RHYTHM.has_turn("lab", NOW + n * MINUTE, NOW + (n + 1) * MINUTE)]
    assert done.stdout.strip() == str(here)
    assert len(here) == 1


def test_listings_of_many_projects_spread_over_the_minutes() -> None:
    """500 projects that were all listed at once: every pass of two hours lists about a fourteenth of them."""
    names = [f"project-{number}" for number in range(500)]
    last = dict.fromkeys(names, NOW)
    listed: Counter[int] = Counter()
    for minute in range(1, 121):
        now = NOW + minute * MINUTE
        streams = EventStreams(FeedWire(heard_at=now), {name: Stream(now) for name in names})
        looks = {name: replace(look(project=name), last_complete_at=moment) for name, moment in last.items()}
        for name in due(names, looks, streams, (), now):
            last[name] = now
            listed[minute] += 1
    assert min(listed.values()) > 20
    assert max(listed.values()) < 55
    assert len(listed) == 120


_STEPS = st.lists(
    st.tuples(
        st.booleans(),  # whether heartbeats come back
        st.sets(st.sampled_from(["a", "b", "c"])),  # projects of which an event comes
        st.sets(st.sampled_from(["a", "b", "c"])),  # projects of which a listing shows a missed one
        st.sets(st.sampled_from(["a", "b", "c"])),  # projects of which something is due
        st.sets(st.sampled_from(["a", "b", "c"])),  # projects whose listing fails
    ),
    min_size=1,
    max_size=90,
)


@given(_STEPS)
def test_no_listing_is_older_than_promised(
    steps: Sequence[tuple[bool, set[str], set[str], set[str], set[str]]],
) -> None:
    """A pass a minute: none is older than 15 minutes while events come, than a pass where they do not.

    Something that is due has its project listed in the same pass; so has a project whose last listing failed.
    """
    names = ["a", "b", "c"]
    listed_at = dict.fromkeys(names, NOW)
    streams = {name: Stream(NOW) for name in names}
    wire, failing, doubted = FeedWire(heard_at=NOW), set[str](), set[str]()
    for number, (is_alive, with_event, with_gap, wanted, fails) in enumerate(steps, start=1):
        now = NOW + number * MINUTE
        wire = replace(wire, heard_at=now) if is_alive else wire
        streams |= {name: replace(streams[name], heard_at=now - SECOND) for name in with_event}
        looks = {
            name: replace(look(0 * SECOND, name, *([REFUSED] if name in failing else [])), last_complete_at=moment)
            for name, moment in listed_at.items()
        }
        event_streams = EventStreams(wire, dict(streams))
        chosen = due(names, looks, event_streams, wanted, now)
        assert wanted | failing <= chosen.keys()
        for name in names:
            age = now - listed_at[name]
            if name not in failing:
                assert age <= (MINUTE if name in doubted else 15 * MINUTE)
            if name not in chosen:
                assert event_streams.doubt(name, now) is None
                assert age < 14 * MINUTE
            elif chosen[name] is ListingReason.TURN:
                assert event_streams.doubt(name, now) is None
        if now - (wire.heard_at or NOW) > RHYTHM.alive_within:
            assert set(chosen) == set(names)
        doubted = {name for name in names if event_streams.doubt(name, now) is not None}
        failing = {name for name in fails if name in chosen} | (failing - chosen.keys())
        for name in chosen.keys() - failing:
            listed_at[name] = now
            if name in with_gap:
                streams[name] = replace(streams[name], missed_at=now)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=20, max_size=120),
    st.booleans(),
)
def test_no_listing_of_a_project_that_was_never_heard_is_older_than_promised(
    steps: Sequence[tuple[bool, bool, bool]], is_left_out: bool
) -> None:
    """Heartbeats, events of another project and operations come as drawn: no listing is older than 15 minutes, and
    one that showed an operation without its event is followed by another in every pass.
    """
    wire, since, heard_at = FeedWire(), None, None
    listed_at, stream, waiting = NOW, Stream(), False
    for number, (beats, other_is_heard, has_operation) in enumerate(steps, start=1):
        now = NOW + number * MINUTE
        wire = replace(wire, heard_at=now) if beats else wire
        if other_is_heard:
            since, heard_at = since or now, now
        if has_operation and not is_left_out:
            since, heard_at, stream = since or now, now, replace(stream, heard_at=now)
        waiting = waiting or (has_operation and is_left_out and since is not None)
        streams = EventStreams(wire, {"lab": stream}, RHYTHM, since, heard_at)
        chosen = due(["lab"], {"lab": replace(look(), last_complete_at=listed_at)}, streams, (), now)
        assert now - listed_at <= 15 * MINUTE
        if stream.missed_at is not None or since is None or now - since < 15 * MINUTE:
            assert chosen or stream.heard_at is not None
        if chosen:
            listed_at = now
            stream = replace(stream, missed_at=now) if waiting else stream
