"""One message to a key, wherever the process ends."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.engine.outbox_setup import ADA, Crash, CrashingNotifier, Fuse, Place, crashing
from tests.fakes import HandClock

from costguard.errors import LeaseLost
from costguard.model.message import Content, Posted
from costguard.model.reminder import Target
from costguard.store import lease
from costguard.store.transaction import Database

LONG = timedelta(minutes=10)
STEPS = 31  # one more than the three messages take


@pytest.mark.parametrize("steps", range(STEPS))
def test_a_crash_at_any_step_neither_loses_nor_repeats_a_message(
    steps: int, database: Database, database_url: str
) -> None:
    """To a channel, to a person and in a thread: what another process finds, it sends or recognises."""
    fuse = Fuse()
    slack = CrashingNotifier(HandClock(NOW), [ADA])
    slack.fuse = fuse
    place = Place(database, slack)
    keys = _three(place)
    with crashing(database_url, fuse) as fragile:
        fuse.left = steps
        with suppress(Crash):
            place.run(LONG, place.made(fragile))
    fuse.left = None
    place.run(LONG, place.made())
    assert sorted(slack.keys()) == sorted(keys)
    assert {place.stored(key).status for key in keys} == {"accepted"}
    threads = {post.key: post.thread_ts for post in slack.posts}
    assert threads[keys[2]] == place.stored(keys[0]).ts


def test_every_step_of_a_delivery_was_crashed_at(database: Database, database_url: str) -> None:
    """With as many steps as the test above tries, all is delivered without a crash."""
    fuse = Fuse(STEPS)
    slack = CrashingNotifier(HandClock(NOW), [ADA])
    slack.fuse = fuse
    place = Place(database, slack)
    keys = _three(place)
    with crashing(database_url, fuse) as fragile:
        place.run(LONG, place.made(fragile))
    assert sorted(slack.keys()) == sorted(keys)


def _three(place: Place) -> list[str]:
    subject = place.subject()
    to_ada = place.remind(subject, 0, ADA.address, Target.CONTACT)
    return [place.remind(subject, 0), to_ada, place.remind(subject, 1)]


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
    """Of two outboxes the one with the later lease sends; the other is told."""
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


def test_a_whisper_goes_out_once_at_most(database: Database) -> None:
    """Nobody can find out whether it arrived, so one that is in doubt counts as sent."""
    place = Place(database)
    place.slack.lose_answers = 1
    place.intend("w", ADA.user_id, kind="whisper", data={"channel": "C-ops"})
    place.run(LONG)
    assert place.slack.whispers == [("C-ops", ADA.user_id)]
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
