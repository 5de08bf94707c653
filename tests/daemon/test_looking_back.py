"""A daemon looks at its database before it acts on it."""

from __future__ import annotations

import threading
from datetime import timedelta

from tests.builders import PROJECT, at, observation, seen
from tests.fakes import FakeCloud, HandClock

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.schedule import Daemon
from costguard.daemon.work import DaemonWork
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules

NOW = at("12:00")


def test_nothing_acts_under_a_lease_before_it_looked_at_the_database(sqlite_database: Database) -> None:
    """An older one may have come in its place while another guard acted. A pass looks every time."""
    cloud = FakeCloud({PROJECT: observation(seen())})
    trouble = [StoreError("The database is locked.", "Try again.")]
    looked, sent = list[int](), list[int]()

    def look_back(fence: Lease) -> None:
        if trouble:
            raise trouble[0]
        looked.append(fence.epoch)

    def send(fence: Lease, stop: threading.Event) -> timedelta | None:
        assert looked
        assert looked[-1] == fence.epoch
        sent.append(fence.epoch)
        return timedelta()

    clock = HandClock(NOW)
    reconciler = Reconciler(sqlite_database, cloud, clock, lambda: [PROJECT], Rules({}), Belonging((), OwnerRules()))
    hour = timedelta(hours=1)
    daemon = Daemon(sqlite_database, reconciler, "one", hour, work=DaemonWork(send=send), look_back=look_back)
    daemon._send()
    daemon._pass()
    assert sent == []
    assert cloud.since == {}  # no pass looked
    assert "locked" in daemon.state.last_error
    trouble.clear()
    daemon._send()
    daemon._send()
    assert (looked, sent) == ([1], [1, 1])
    daemon._pass()
    assert looked == [1, 1]
    daemon.keeper.step_aside(daemon.keeper.lease)
    daemon._send()
    assert (looked, sent) == ([1, 1, 2], [1, 1, 2])
    daemon.stop()
