"""A look that ends between two passes is recorded when it ends."""

from __future__ import annotations

import threading
from datetime import timedelta

from sqlalchemy import func, select
from tests.builders import PROJECT, at, observation, seen
from tests.fakes import FakeCloud, HandClock

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.schedule import Daemon
from costguard.daemon.work import Signs
from costguard.db.tables import instances
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey

NOW = at("12:00")
PATIENCE = 30.0  # seconds until a test that hangs fails


def vms_in(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(instances)).scalar_one()


def test_a_look_that_ends_between_two_passes_is_recorded_then(sqlite_database: Database) -> None:
    """The next pass is an hour away, and nothing asks for one."""
    cloud, passed = FakeCloud({PROJECT: observation(seen())}), threading.Semaphore(0)
    reconciler = Reconciler(
        sqlite_database, cloud, HandClock(NOW), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules())
    )
    signs = Signs(passed=lambda _seconds, _report: passed.release())
    daemon = Daemon(sqlite_database, reconciler, "one", timedelta(hours=1), signs=signs)
    daemon.start()
    try:
        assert passed.acquire(timeout=PATIENCE)
        with daemon._busy:  # the pass is over
            assert vms_in(sqlite_database) == 1
        cloud.observations[PROJECT] = observation(seen(), seen(key=InstanceKey(PROJECT, "2")), read="12:01")
        looking = reconciler._looker._looking
        looking._late[PROJECT] = 0.0
        looking._go(PROJECT)
        while vms_in(sqlite_database) < 2:
            assert passed.acquire(timeout=PATIENCE)
    finally:
        daemon.stop()
