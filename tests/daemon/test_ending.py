"""A daemon ends while its scheduler is at work."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from tests.builders import PROJECT, at, observation
from tests.fakes import FakeCloud, HandClock

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.schedule import Daemon
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules

PATIENCE = 30.0  # seconds until a test that hangs fails


def test_a_daemon_that_ends_as_its_jobs_come_due_begins_none(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The scheduler may look for due jobs while the daemon ends: what it would begin then cannot begin any more."""
    looks, ends, looked = threading.Event(), threading.Event(), threading.Event()
    cloud = FakeCloud({PROJECT: observation()})
    reconciler = Reconciler(
        sqlite_database, cloud, HandClock(at("12:00")), lambda: [PROJECT], Rules({}), Belonging((), OwnerRules())
    )
    daemon = Daemon(sqlite_database, reconciler, "one", timedelta(hours=1))

    def hold(record: logging.LogRecord) -> bool:
        if record.msg == "Looking for jobs to run" and daemon.state.last_pass_at is not None:
            looks.set()
            assert ends.wait(PATIENCE)
        elif ends.is_set() and record.msg.startswith("Scheduler is paused;"):
            looked.set()
        return True

    def shutdown(pool: ThreadPoolExecutor, *given: bool, **named: bool) -> None:
        shut_down(pool, *given, **named)
        ends.set()
        assert looked.wait(PATIENCE)

    shut_down = ThreadPoolExecutor.shutdown
    scheduler = logging.getLogger("apscheduler.scheduler")
    with caplog.at_level(logging.DEBUG, scheduler.name):
        daemon.start()
        assert daemon._passed.wait(PATIENCE)
        scheduler.addFilter(hold)
        try:
            daemon.wake()
            assert looks.wait(PATIENCE)
            monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
        finally:
            daemon.stop()
            scheduler.removeFilter(hold)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
