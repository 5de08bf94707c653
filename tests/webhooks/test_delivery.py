"""Events reach their receivers: each at least once, in order, and none is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from tests.crashing import CrashPoint, Killed, fragile_database
from tests.webhooks.receiver import Receiver
from tests.webhooks.webhook_setup import T0, FakePoster, WebhookSetup, ended, webhook

from costguard.db.transaction import Database
from costguard.errors import LeaseLost, Missing, WebhookError
from costguard.webhooks.client import HttpPoster


@pytest.fixture
def poster() -> Iterator[HttpPoster]:
    with closing(HttpPoster("1.2")) as made:
        yield made


@pytest.fixture
def office(sqlite_database: Database, receiver: Receiver, poster: HttpPoster) -> WebhookSetup:
    return WebhookSetup(sqlite_database, poster, webhook(receiver.url))


def test_a_event_arrives_whole_and_signed(office: WebhookSetup, receiver: Receiver) -> None:
    """The event is one POST, with an id that stays the same and the time of the try."""
    office.record("a")
    office.clock.advance(timedelta(seconds=90))
    office.delivery().run()
    [got] = receiver.got
    assert got.path == "/in?team=a"
    assert got.event == {
        "id": 1,
        "kind": "LifetimeStarted",
        "occurred_at": "2026-11-20T12:00:00Z",
        "recorded_at": "2026-11-20T12:00:00Z",
        "project": "lab",
        "gce_id": "77",
        "name": "a",
        "actor": "",
        "text": "a started.",
        "data": {"zone": "z"},
        "key": "LifetimeStarted:lab:a",
    }
    assert (got.headers["content-type"], got.headers["user-agent"]) == ("application/json", "Costguard/1.2")
    assert got.headers["webhook-timestamp"] == str(int(T0.timestamp()) + 90)
    assert office.stored().accepted_at == office.clock.now()


def test_events_come_in_order_and_only_those_asked_for(office: WebhookSetup, receiver: Receiver) -> None:
    """A new receiver begins with what comes, kinds and projects narrow, and a restart goes on where it stopped."""
    office.record("a", "b", "c")
    late = webhook(receiver.url, "late", kinds=frozenset({"JobFailed"}), projects=frozenset({"lab"}))
    office = WebhookSetup(office.database, office.poster, *office.receivers, late)
    office.delivery().run()
    office.delivery("late").run()
    assert receiver.names == ["a", "b", "c"]
    office.record("d")
    office.record("e", kind="JobFailed", project="other")
    office.record("f", kind="JobFailed")
    office.delivery("late").run()
    assert receiver.names[3:] == ["f"]
    office.delivery().run()
    office.delivery().run()
    assert receiver.names[4:] == ["d", "e", "f"]


def test_what_waits_is_counted_from_the_first_that_was_refused(sqlite_database: Database) -> None:
    """A receiver of few kinds has no long way to look back to it, and no more is counted than is of use."""
    poster = FakePoster()
    office = WebhookSetup(sqlite_database, poster, webhook(kinds=frozenset({"JobFailed"})))
    office.record("a", "b", "c")
    office.record("x", "y", kind="JobFailed")
    office.record("d")
    poster.trouble = WebhookError("No connection.")
    office.delivery().run()
    assert (office.stored().event_id, office.stored().tries) == (3, 1)
    [state] = office.troubled()
    assert (state.waiting, state.since, state.accepted_at) == (2, T0, None)
    poster.trouble = None
    office.delivery().run()
    assert (len(poster.ids), office.stored().event_id) == (2, 6)


def test_what_is_refused_is_sent_again_before_anything_else(office: WebhookSetup, receiver: Receiver) -> None:
    """Waits grow and obey Retry-After, what came after waits too, and the trouble is shown until it is over."""
    office.record("a", "b", "c")
    moved = {"Location": receiver.url}
    receiver.answers = [
        (204, {}, b""),
        (302, moved, b""),
        (500, {}, b"<h1>out\nof\x07 order</h1>"),
        (429, {"Retry-After": "120"}, b""),
        (503, {"Retry-After": "Fri, 20 Nov 2026 15:00:00 GMT", "Date": "Fri, 20 Nov 2026 14:55:00 GMT"}, b""),
    ]
    lease, hooks = office.lease(), office.webhooks()
    waits = []
    for expected in ("Redirects are not followed", '500 ("<h1>out of order</h1>").', "429", "503"):
        began = office.clock.now()
        hooks.deliver(lease)
        assert expected in office.stored().error
        hooks.deliver(lease)  # too early
        waits.append((office.stored().try_after - began).total_seconds())
        [trouble] = office.troubled()
        assert (trouble.name, trouble.since, trouble.waiting) == ("pager", T0, 2)
        office.clock.advance(timedelta(seconds=waits[-1]))
    assert waits == [1, 2, 120, 300]
    hooks.deliver(lease)
    assert receiver.names == ["a", "b", "b", "b", "b", "b", "c"]
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 3
    assert len({got.headers["webhook-timestamp"] for got in receiver.got[1:6]}) == 5
    assert office.troubled() == []
    assert (office.stored().tries, office.stored().error) == (0, "")


def test_a_receiver_that_is_gone_is_asked_once_a_start(office: WebhookSetup, receiver: Receiver) -> None:
    """After a 410 nothing is sent until a restart, which may have brought other settings; nothing is lost."""
    office.record("a")
    receiver.answers = [(410, {}, b"no more")]
    lease, hooks = office.lease(), office.webhooks()
    for _ in range(3):
        hooks.deliver(lease)
        office.clock.advance(timedelta(days=1))
    assert receiver.names == ["a"]
    [trouble] = office.troubled()
    assert "It wants no more events: remove the webhook from the settings" in trouble.error
    office.webhooks().deliver(lease)
    assert receiver.names == ["a", "a"]
    assert office.troubled() == []


def test_a_crash_repeats_and_loses_nothing(sqlite_database: Database, sqlite_url: str) -> None:
    """Wherever the process ends, the next one sends on, and what comes twice has the same id."""
    poster = FakePoster()
    office = WebhookSetup(sqlite_database, poster)
    repeated = 0
    for step in range(1, 9):
        names = [f"{step}-{n}" for n in range(3)]
        office.record(*names)
        poster.ids.clear()
        fuse = CrashPoint(step)
        poster.then = fuse.step
        with fragile_database(sqlite_url, fuse) as fragile:
            try:
                office.delivery(database=fragile).run()
                assert step > 6
            except Killed:
                assert step <= 6
        poster.then = lambda: None
        office.delivery().run()
        assert len(set(poster.ids)) == 3, step
        assert list(dict.fromkeys(poster.ids)) == poster.ids[-3:] or len(poster.ids) == 3, step
        repeated += len(poster.ids) - 3
    assert repeated > 0


def test_a_long_backlog_goes_out_with_no_transaction_open(sqlite_database: Database, sqlite_url: str) -> None:
    """Ten thousand events are read in batches, and others write while one is being posted."""
    poster = FakePoster()
    office = WebhookSetup(sqlite_database, poster)
    office.record(*map(str, range(10_000)))

    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=50))) as other:

        def write() -> None:
            if len(poster.ids) % 1000 == 1:
                with other.write():
                    pass

        poster.then = write
        office.delivery().run()
    assert len(poster.ids) == len(set(poster.ids)) == 10_000


def test_a_slow_receiver_holds_up_nobody(sqlite_database: Database, receiver: Receiver, poster: HttpPoster) -> None:
    """Others have their events meanwhile, the daemon goes on at once, and the slow one is not asked twice."""
    with Receiver().listening() as slow:
        release = threading.Event()
        slow.before = release.wait
        office = WebhookSetup(sqlite_database, poster, webhook(receiver.url, "quick"), webhook(slow.url, "slow"))
        lease, hooks, stop = office.lease(), office.webhooks(), threading.Event()
        office.record("a")
        hooks.run(lease, stop)
        ended("webhook-quick")
        office.record("b")
        hooks.run(lease, stop)
        ended("webhook-quick")
        assert receiver.names == ["a", "b"]
        assert slow.names in ([], ["a"])
        release.set()
        ended()
        hooks.run(lease, stop)
        ended()
        hooks.close()
        assert slow.names == ["a", "b"]


def test_who_lost_the_lease_posts_nothing(sqlite_database: Database) -> None:
    """Another daemon sends now; and what is no webhook any more is forgotten by it, not replayed later."""
    poster = FakePoster()
    office = WebhookSetup(sqlite_database, poster, webhook(), webhook(name="old"))
    old, new = office.lease(), office.lease()
    office.record("a")
    with pytest.raises(LeaseLost):
        office.webhooks().deliver(old)
    assert poster.ids == []
    office.receivers = (webhook(),)
    office.webhooks().deliver(new)
    assert len(poster.ids) == 1
    WebhookSetup(sqlite_database, poster, webhook(), webhook(name="old")).webhooks().deliver(new)
    assert len(poster.ids) == 1


def test_what_no_adapter_foresaw_waits_like_any_refusal(sqlite_database: Database) -> None:
    """An oddity costs a wait, is shown, and ends when the event is taken; outcomes are counted."""
    poster, outcomes = FakePoster(), list[str]()
    office = WebhookSetup(sqlite_database, poster)
    hooks, lease = office.webhooks(lambda name, outcome: outcomes.append(f"{name} {outcome}")), office.lease()
    office.record("a")
    for trouble in (KeyError("odd"), WebhookError("No connection.", "It is tried again."), None):
        poster.trouble = trouble
        hooks.deliver(lease)
        assert [item.error for item in office.troubled()] == ([str(trouble)] if trouble else [])
        office.clock.advance(timedelta(hours=1))
    assert outcomes == ["pager unreachable", "pager unreachable", "pager accepted"]


def test_a_webhook_can_be_tried_out(office: WebhookSetup, receiver: Receiver) -> None:
    """A test message says that it is one, is signed like the others, and moves nothing on."""
    receiver.answers = [(500, {}, b"not yet")]
    hooks = office.webhooks()
    assert [hooks.send_test("pager").status, hooks.send_test("pager").status] == [500, 204]
    assert [got.event["kind"] for got in receiver.got] == ["WebhookTest", "WebhookTest"]
    assert office.stored().event_id == 0
    with pytest.raises(Missing, match=r"There is no webhook page in the settings \(known: pager\)"):
        hooks.send_test("page")
