"""A holder of the lease that stood still between a commit and a call: it calls nobody, since another may act by now."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import at
from tests.jobs.world import world
from tests.messages.outbox_setup import Place
from tests.reminders.execute_setup import Scene
from tests.webhooks.webhook_setup import FakePoster, WebhookSetup, webhook

from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.db import lease as leases
from costguard.db.lease import Hold, Lease
from costguard.db.transaction import Database


@pytest.fixture
def thawed(database: Database) -> Lease:
    """A lease that nobody took yet, held by a process that stands still after each commit for as long as it lives."""
    held = leases.acquire(database, LEASE, "thawed", LEASE_TTL)
    assert held is not None
    _freeze(held)
    return held


def _freeze(held: Lease) -> None:
    assert held.hold is not None
    held.hold.until_s -= LEASE_TTL.total_seconds()
    held.hold.ttl = timedelta()  # what a write renews in passing is over by the time of the call


def test_no_vm_is_stopped(database: Database, thawed: Lease) -> None:
    """The stop stays open; the next look settles it, here or in another guard, and Google is asked once."""
    scene = Scene(database)
    subject = scene.run()
    (outcome,) = scene.executor().carry_out([scene.stop_by_rule(subject)], thawed)
    assert outcome.result == "unknown"
    assert scene.google.calls == []
    scene.executor().settle(leases.renew(database, thawed, LEASE_TTL))
    assert scene.google.calls == [("stop", "1001", scene.stop(subject).request_uuid)]


def test_no_vm_is_made(sqlite_url: str) -> None:
    """The intent stands; with a lease that is certain again the name is looked at first, and one VM is made."""
    with world(sqlite_url) as w:
        held = leases.acquire(w.database, LEASE, "thawed", LEASE_TTL)
        assert held is not None
        w.submit()
        _freeze(held)
        w.turn.run(held)
        assert w.cloud.calls["insert"] == 0
        w.clock.advance(LEASE_TTL)
        w.turn.run(leases.renew(w.database, held, LEASE_TTL))
        assert (w.cloud.calls["look"], w.cloud.calls["insert"]) == (1, 1)


def test_no_message_is_sent(database: Database, thawed: Lease) -> None:
    """It is settled like any other doubt: sent once."""
    place = Place(database)
    place.intend("a")
    place.outbox.deliver(thawed)
    assert place.slack.calls == []
    place.run(timedelta(hours=1))
    assert place.slack.keys() == ["a"]


def test_no_event_is_posted(database: Database, thawed: Lease) -> None:
    """The receiver gets it from the guard that acts."""
    poster = FakePoster()
    office = WebhookSetup(database, poster, webhook())
    office.webhooks().deliver(leases.renew(database, thawed, LEASE_TTL))
    office.record("a")
    _freeze(thawed)
    office.webhooks().deliver(thawed)
    assert poster.ids == []
    office.webhooks().deliver(leases.renew(database, thawed, LEASE_TTL))
    assert len(poster.ids) == 1


def test_certainty_ends_before_another_can_have_the_lease() -> None:
    """The margin is a second for the call's way, by a clock that counts a suspended machine's time, too."""
    now = 100.0
    held = Lease(LEASE, "one", 1, at("12:00"), Hold(109.0, LEASE_TTL, lambda: now))
    assert held.is_certain
    now = 107.9
    assert held.is_certain
    now = 108.0
    assert not held.is_certain
