"""A replica that waits for its turn loads what acting takes, so that a takeover does not wait for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

from tests.builders import PROJECT, at, observation
from tests.fakes import FakeCloud, HandClock

from costguard.access.rules import Rules
from costguard.daemon.reconcile import Reconciler
from costguard.daemon.schedule import Daemon
from costguard.daemon.work import DaemonWork
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules

PATIENCE_S = 90.0
_LOADED = """
import sys, threading
from costguard.clock import SystemClock
from costguard.gce.client import ComputeCloud
cloud = ComputeCloud("http://127.0.0.1:9", SystemClock())
before = "google.cloud.compute_v1" in sys.modules
cloud.prepare()
print(before, "google.cloud.compute_v1" in sys.modules)
"""


def _daemon(database: Database, holder: str, prepare: Callable[[], None]) -> Daemon:
    clock, cloud = HandClock(at("12:00")), FakeCloud({PROJECT: observation()})
    reconciler = Reconciler(database, cloud, clock, lambda: [PROJECT], Rules({}), Belonging((), OwnerRules()))
    return Daemon(database, reconciler, holder, timedelta(hours=1), work=DaemonWork(prepare=prepare))


def test_daemon_that_waits_for_its_turn_prepares_and_one_that_acts_does_not(
    sqlite_database: Database, sqlite_url: str
) -> None:
    """The one that acts loads it with its first change of a VM, as a guard without replicas does."""
    acting, waiting = threading.Event(), threading.Event()
    with closing(Database.open(sqlite_url)) as other:
        first, second = _daemon(sqlite_database, "one", acting.set), _daemon(other, "two", waiting.set)
        try:
            first.start()
            assert first._passed.wait(PATIENCE_S)
            second.start()
            second.ask_for_pass()
            assert waiting.wait(PATIENCE_S)
            assert (first.is_acting, second.is_acting) == (True, False)
        finally:
            second.stop()
            first.stop()
    assert not acting.is_set()


def test_preparing_imports_googles_library() -> None:
    """It takes more than a second of CPU, which the first stop after a takeover would wait for within a pass."""
    done = subprocess.run([sys.executable, "-c", _LOADED], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
