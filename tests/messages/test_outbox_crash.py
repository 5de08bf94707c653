"""A key has one message, wherever the process ends."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.crashing import CrashPoint, Killed, fragile_database, steps_of
from tests.fakes import HandClock
from tests.messages.outbox_setup import ADA, CrashingNotifier, Place

from costguard.db import lease
from costguard.db.transaction import Database
from costguard.errors import LeaseLost
from costguard.model.delivery.message import Content, Posted
from costguard.model.delivery.person import Person
from costguard.model.reminder import Target

LONG = timedelta(minutes=10)
STEPS = 30  # that three messages take


def test_a_crash_at_any_step_neither_loses_nor_repeats_a_message(database: Database, database_url: str) -> None:
    """The message goes to a channel, to a person and in a thread: another process sends or recognises what it finds."""
    people = [Person(f"U0{step}", f"p{step}@lab.example", f"P{step}", "Europe/Madrid") for step in range(STEPS + 2)]
    slack = CrashingNotifier(HandClock(NOW), people)
    place = Place(database, slack)
    for step in steps_of(database_url, STEPS + 1):
        keys = _three(place, people[step])
        fuse = slack.fuse = CrashPoint(step)
        with fragile_database(database_url, fuse) as fragile:
            try:
                place.run(LONG, place.made(fragile))
                assert step == STEPS + 1
            except Killed:
                assert step <= STEPS
        slack.fuse = CrashPoint()
        place.run(LONG, place.made())
        assert sorted(slack.keys()) == sorted(keys), step
        assert {place.stored(key).status for key in keys} == {"accepted"}, step
        threads = {post.key: post.thread_ts for post in slack.posts}
        assert threads[keys[2]] == place.stored(keys[0]).ts, step
        slack.posts.clear()


def _three(place: Place, person: Person) -> list[str]:
    subject = place.subject(person.name)
    to_person = place.remind(subject, 0, person.address, Target.CONTACT)
    return [place.remind(subject, 0), to_person, place.remind(subject, 1)]


def test_an_answer_that_is_lost_is_looked_for_and_not_asked_for_again(database: Database) -> None:
    """Slack took it and the answer was lost: half a minute later it is found by its key."""
    place = Place(database)
    place.slack.lose_answers = 1
    place.intend("a")
    place.outbox.deliver()
    assert place.stored("a").status == "sending"
    place.run(LONG)
    assert place.slack.keys() == ["a"]
    assert place.stored("a").status == "accepted"
    assert [method for method, _, _ in place.slack.calls] == ["post", "find"]


def test_a_claim_that_got_old_is_left_to_be_settled(database: Database) -> None:
    """A process that froze between its claim and its call does not call: another may have taken over."""
    place = Place(database)
    seconds = iter([0.0, 6.0])
    place.intend("a")
    place.made(monotonic=lambda: next(seconds)).deliver()
    assert place.slack.calls == []
    place.run(LONG)
    assert place.slack.keys() == ["a"]


def test_who_lost_the_lease_sends_nothing_more(database: Database) -> None:
    """The outbox with the later lease sends; the other loses its lease."""
    place = Place(database)
    for key in ("a", "b", "c"):
        place.intend(key, f"#{key}")
    first = lease.acquire(database, "daemon", "one", timedelta(seconds=30))
    second = lease.acquire(database, "daemon", "one", timedelta(seconds=30))
    with pytest.raises(LeaseLost):
        place.made().deliver(first)
    assert place.slack.calls == []
    place.outbox.deliver(second)
    assert place.slack.keys() == ["a", "b", "c"]


def test_what_breaks_after_the_call_is_settled_and_not_sent_again(database: Database) -> None:
    """An adapter that fails in a way nobody foresaw may have posted: Slack is asked before it is tried again."""
    slack = BrokenAfterwards(HandClock(NOW), [ADA])
    place = Place(database, slack)
    place.intend("a")
    place.run(LONG)
    assert slack.keys() == ["a"]


def test_an_ephemeral_message_goes_out_once_at_most(database: Database) -> None:
    """Nobody can find out whether it arrived, so one that is in doubt counts as sent."""
    place = Place(database)
    place.slack.lose_answers = 1
    place.intend("w", ADA.user_id, kind="ephemeral", data={"channel": "C-ops"})
    place.run(LONG)
    assert place.slack.ephemerals == [("C-ops", ADA.user_id)]
    assert place.stored("w").status == "accepted"


class BrokenAfterwards(CrashingNotifier):
    """Posts, and then fails once."""

    is_broken = True

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        posted = super().post(channel, content, key, thread_ts)
        if self.is_broken:
            self.is_broken = False
            raise KeyError("ts")
        return posted
