"""Messages go out in order, no faster than Slack takes them, and none is lost."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from tests.messages.outbox_setup import ADA, Place

from costguard.db.transaction import Database
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.delivery.person import AccountLookup, Person
from costguard.model.reminder import Target
from costguard.reminders import slack_accounts

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def _times(place: Place, channel: str, method: str = "post") -> list[datetime]:
    return [at for called, where, at in place.slack.calls if (called, where) == (method, channel)]


def test_a_channel_gets_a_message_a_second_in_order(sqlite_database: Database) -> None:
    """Two hundred messages to one channel take two hundred seconds."""
    place = Place(sqlite_database)
    keys = [f"m{n:03}" for n in range(200)]
    for key in keys:
        place.intend(key)
    took = place.run(DAY)
    assert place.slack.keys() == keys
    times = _times(place, "#ops")
    assert all(later - earlier >= SECOND for earlier, later in pairwise(times))
    assert timedelta(seconds=199) <= took <= timedelta(seconds=202)


def test_channels_do_not_wait_for_each_other(sqlite_database: Database) -> None:
    """Five hundred messages to fifty channels take ten seconds."""
    place = Place(sqlite_database)
    for n in range(500):
        place.intend(f"m{n:03}", f"#c{n % 50}")
    assert place.run(DAY) <= timedelta(seconds=10)
    assert len(place.slack.posts) == 500


def test_a_message_behind_a_burst_in_another_channel_goes_at_once(database: Database) -> None:
    """The message for another channel is seen, however much waits for one."""
    place = Place(database)
    for n in range(600):
        place.intend(f"m{n:03}")
    place.intend("other", "#other")
    place.outbox.deliver()
    assert place.slack.keys() == ["m000", "other"]


def test_a_limited_channel_waits_as_long_as_slack_says(database: Database) -> None:
    """The others go on meanwhile, and the time to wait is returned."""
    place = Place(database)
    place.slack.limited["C-ops"] = place.clock.now() + timedelta(seconds=40)
    for key, channel in (("a", "#ops"), ("b", "#ops"), ("c", "#other")):
        place.intend(key, channel)
    place.outbox.deliver()
    assert place.slack.keys() == ["c"]
    place.run(DAY)
    assert place.slack.keys() == ["c", "a", "b"]
    assert len(_times(place, "#ops")) == 3


def test_nothing_is_lost_over_a_days_outage(sqlite_database: Database) -> None:
    """Slack is tried every five minutes; then each message comes once, in order."""
    place = Place(sqlite_database)
    keys = [f"m{n:02}" for n in range(20)]
    for key in keys:
        place.intend(key)
    place.slack.down = True
    place.run(DAY)
    assert place.slack.posts == []
    assert len(place.slack.calls) < 320
    assert place.trouble.workspace
    assert place.trouble.waiting == 20
    place.slack.down = False
    place.run(DAY)
    assert sorted(place.slack.keys()) == keys
    assert (place.trouble.workspace, place.trouble.waiting) == ("", 0)


def test_a_revoked_token_is_told_once_and_its_end_too(database: Database) -> None:
    """Everything waits, and one event says so; another that it is over."""
    place = Place(database)
    place.intend("a")
    place.intend("b", "#other")
    place.slack.revoked = True
    place.run(timedelta(hours=1))
    assert len(place.events("SlackTrouble")) == 1
    place.slack.revoked = False
    place.run(timedelta(hours=1))
    assert place.slack.keys() == ["a", "b"]
    assert len(place.events("SlackResumed")) == 1


def test_a_channel_that_refuses_holds_up_its_own_messages_alone(database: Database) -> None:
    """It is named until it takes messages again, though Slack then tells it by its id."""
    place = Place(database)
    place.slack.closed.add("#ops")
    place.intend("a")
    place.intend("b", "#other")
    place.run(timedelta(hours=1))
    assert place.slack.keys() == ["b"]
    assert list(place.trouble.channels) == ["#ops"]
    place.slack.closed.clear()
    place.run(timedelta(hours=1))
    assert place.slack.keys() == ["b", "a"]
    assert place.trouble.channels == {}
    assert len(place.events("SlackResumed")) == 1


def test_a_later_stage_does_not_overtake_in_its_thread(database: Database) -> None:
    """While the answer to a stage is lost, the next one of the same thread waits; others do not."""
    place = Place(database)
    subject = place.subject()
    first, second = place.remind(subject, 0), place.remind(subject, 1)
    place.intend("other")
    place.slack.lose_answers = 1
    place.run(timedelta(seconds=20))
    assert place.slack.keys() == [first, "other"]
    place.run(DAY)
    assert place.slack.keys() == [first, "other", second]
    assert place.slack.posts[2].thread_ts == place.slack.posts[0].ts


def test_a_deleted_thread_is_begun_anew(database: Database) -> None:
    """Someone deleted the first message: the next one is a first message again, and the third replies to it."""
    place = Place(database)
    subject = place.subject()
    first = place.remind(subject, 0)
    place.run(DAY)
    place.slack.delete(first)
    for stage in (1, 2):
        place.remind(subject, stage)
        place.run(DAY)
    assert [post.thread_ts for post in place.slack.posts] == ["", place.slack.posts[0].ts]


def test_what_cannot_be_composed_holds_up_nothing_else(database: Database) -> None:
    """It is tried again later; the rest goes on."""
    place = Place(database)
    whole, broken = place.composed, {"a"}

    def composed(message: StoredMessage) -> Composed | Withdrawn:
        if message.key in broken:
            raise ZeroDivisionError
        return whole(message)

    place.composed = composed
    for key in ("a", "b", "c"):
        place.intend(key)
    place.run(timedelta(seconds=10))
    assert place.slack.keys() == ["b", "c"]
    broken.clear()
    place.run(DAY)
    assert place.slack.keys() == ["b", "c", "a"]


def test_what_is_not_true_any_more_is_not_sent(database: Database) -> None:
    """It is withdrawn, with the reason."""
    place = Place(database)
    place.composed = lambda _message: Withdrawn("it was stopped")
    place.intend("a")
    place.run(DAY)
    assert place.slack.calls == []
    assert (place.stored("a").status, place.stored("a").error) == ("withdrawn", "it was stopped")


def test_what_slack_calls_wrong_is_given_up_after_some_tries(database: Database) -> None:
    """The message has then failed for good; an outage before counts for nothing."""
    place = Place(database)
    place.slack.wrong.add("a")
    place.slack.down = True
    place.intend("a")
    place.run(timedelta(hours=2))
    place.slack.down = False
    before = len(place.slack.calls)
    place.run(DAY)
    assert place.stored("a").status == "failed"
    assert len(place.slack.calls) - before == 5


def test_a_person_is_looked_up_once_and_written_to_directly(database: Database) -> None:
    """The knowledge of people is used for a day."""
    place = Place(database)
    for n in range(3):
        place.intend(f"m{n}", ADA.address)
        place.run(DAY)
    assert place.slack.keys("D-U0ADA") == ["m0", "m1", "m2"]
    assert [method for method, _, _ in place.slack.calls].count("person_of") == 1
    assert [method for method, _, _ in place.slack.calls].count("open_direct") == 1
    place.clock.advance(DAY)
    place.intend("m3", ADA.address)
    place.run(DAY)
    assert [method for method, _, _ in place.slack.calls].count("person_of") == 2
    assert [method for method, _, _ in place.slack.calls].count("open_direct") == 1


def test_who_is_not_known_to_slack_is_told_in_the_channel(database: Database) -> None:
    """An hour later they are looked up again."""
    place = Place(database)
    place.intend("a", "new@lab.example")
    place.run(DAY)
    assert place.slack.keys("#fallback") == ["a"]
    place.slack.people.append(Person("U0NEW", "new@lab.example", "New"))
    place.clock.advance(timedelta(hours=1))
    place.intend("b", "new@lab.example")
    place.run(DAY)
    assert place.slack.keys("D-U0NEW") == ["b"]


def test_limited_look_ups_do_not_keep_channels_waiting(database: Database) -> None:
    """A message to someone who must be looked up waits; one to a channel goes."""
    place = Place(database)
    place.slack.limited["people"] = place.clock.now() + timedelta(seconds=30)
    place.intend("a", ADA.address)
    place.intend("b")
    place.run(timedelta(seconds=5))
    assert place.slack.keys() == ["b"]
    place.run(DAY)
    assert place.slack.keys() == ["b", "a"]


def test_a_message_is_edited_when_what_it_shows_is_over(database: Database) -> None:
    """The edit comes once for each change; after the last one it is left alone."""
    place = Place(database)
    key = place.remind(place.subject(), 0)
    place.run(DAY)
    for state in ("kept", "ended"):
        place.state[key] = state
        place.clock.advance(timedelta(seconds=11))
        place.run(DAY)
        place.run(DAY)
    assert [edited for edited, _ in place.slack.edits] == [key, key]
    assert (place.stored(key).shown, place.stored(key).is_live) == ("ended", False)


def test_edits_keep_to_the_pace_and_let_messages_go_first(database: Database) -> None:
    """The pace is one call a second in a channel, and no edit while a message waits."""
    place = Place(database)
    subject = place.subject()
    keys = [place.remind(subject, 0, target=target) for target in Target]
    place.run(DAY)
    place.state = dict.fromkeys(keys, "ended")
    for n in range(5):
        place.intend(f"m{n}")
    place.clock.advance(timedelta(seconds=11))
    place.run(DAY)
    calls = [(method, at) for method, _, at in place.slack.calls][3:]
    assert [method for method, _ in calls] == ["post"] * 5 + ["update"] * 3
    assert all(later[1] - earlier[1] >= SECOND for earlier, later in pairwise(calls))


def test_a_deleted_message_is_not_edited_for_ever(database: Database) -> None:
    """Slack does not find it: it is not looked at again."""
    place = Place(database)
    key = place.remind(place.subject(), 0)
    place.run(DAY)
    place.slack.delete(key)
    place.state[key] = "ended"
    place.clock.advance(timedelta(seconds=11))
    place.run(DAY)
    assert not place.stored(key).is_live


def test_a_person_known_to_have_left_has_no_direct_messages(database: Database) -> None:
    """The stored account is not used when a new look-up finds nobody."""
    place = Place(database)
    with database.write() as connection:
        left = Person("U0OLD", "old@lab.example", "Old")
        slack_accounts.save(connection, AccountLookup("old@lab.example", left, place.clock.now() - DAY, "D-U0OLD"))
    place.intend("a", "old@lab.example")
    place.run(DAY)
    assert place.slack.keys("#fallback") == ["a"]


def test_a_message_that_may_not_be_edited_any_more_is_left_as_it_is(database: Database) -> None:
    """Once Slack says edit_window_closed it is not tried again, its thread goes on, and other edits are made."""
    place = Place(database)
    subject = place.subject()
    old, young = place.remind(subject, 0), place.remind(place.subject("other"), 0)
    place.run(DAY)
    place.slack.fixed.add(old)
    place.state = {old: "ended", young: "ended"}
    for _ in range(3):
        place.clock.advance(timedelta(seconds=11))
        place.run(DAY)
    assert not place.stored(old).is_live
    assert [edited for edited, _ in place.slack.edits] == [young]
    assert [method for method, *_ in place.slack.calls].count("update") == 2
    later = place.remind(subject, 1)
    place.run(DAY)
    assert place.stored(later).thread_ts == place.stored(old).ts
    assert place.events("SlackTrouble") == []


def test_reading_that_is_limited_holds_up_no_writing(database: Database) -> None:
    """A message in doubt waits until Slack lets it be looked for; those behind it in the channel go on, each once."""
    place = Place(database)
    place.intend("in doubt")
    place.slack.lose_answers = 1
    place.outbox.deliver()
    place.clock.advance(timedelta(seconds=31))
    place.slack.limited["history"] = place.clock.now() + timedelta(minutes=3)
    place.intend("behind")
    began = place.clock.now()
    place.outbox.deliver()
    place.clock.advance(timedelta(seconds=2))
    place.outbox.deliver()
    assert place.stored("behind").status == "accepted"
    assert place.clock.now() - began < timedelta(seconds=10)
    place.run(DAY)
    assert place.stored("in doubt").status == "accepted"
    assert sorted(place.slack.keys()) == ["behind", "in doubt"]
