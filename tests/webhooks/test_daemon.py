"""The daemon sends events side_tasks its passes, and what it does is counted."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta

from tests.builders import PROJECT, at, observation, seen
from tests.fakes import FakeCloud, HandClock
from tests.webhooks.receiver import Receiver
from tests.webhooks.webhook_setup import webhook

from costguard.access.rules import Rules
from costguard.daemon.meters import WatchMeters
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.daemon.schedule import Daemon
from costguard.daemon.work import DaemonWork, SideTask, Signs
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey
from costguard.webhooks.client import HttpPoster
from costguard.webhooks.delivery import Webhooks

PATIENCE = 30.0  # seconds until a test that hangs fails
LATER = seen(key=InstanceKey(PROJECT, "2"), name="later", fingerprint="g")


def test_what_a_pass_records_is_sent(sqlite_database: Database, receiver: Receiver) -> None:
    """Events of the first pass are history; those of the next reach the receiver, though nobody waits for it."""
    clock, meters, sent = HandClock(at("12:00")), WatchMeters(), threading.Event()
    cloud = FakeCloud({PROJECT: observation(seen())})
    passing = Reconciler(sqlite_database, cloud, clock, lambda: [PROJECT], Rules({}), Belonging((), OwnerRules()))
    passes = threading.Semaphore(0)

    def passed(seconds: float, report: PassReport | None) -> None:
        meters.passed(seconds, report)
        passes.release()

    def note(name: str, outcome: str) -> None:
        meters.delivery(name, outcome)
        sent.set()

    with closing(HttpPoster("1")) as poster:
        hooks = Webhooks(sqlite_database, poster, clock, [webhook(receiver.url)], note)
        began = threading.Event()

        def run(fence: Lease, stop: threading.Event) -> None:
            hooks.run(fence, stop)
            began.set()

        side_tasks = {"webhooks": SideTask(timedelta(seconds=0.1), run)}
        hour = timedelta(hours=1)
        daemon = Daemon(
            sqlite_database,
            passing,
            "one",
            hour,
            work=DaemonWork(side_tasks=side_tasks),
            signs=Signs(passed=passed),
        )
        daemon.start()
        try:
            assert passes.acquire(timeout=PATIENCE)
            assert began.wait(PATIENCE)
            cloud.observations[PROJECT] = observation(seen(), LATER, read="12:01")
            daemon.ask_for_pass()
            assert sent.wait(PATIENCE)
        finally:
            daemon.stop()
            hooks.close()
    assert set(receiver.names) == {"later"}
    assert passes.acquire(timeout=PATIENCE)
    count = "costguard_pass_duration_seconds_count"
    assert meters.registry.get_sample_value(count, {"outcome": "done"}) == 2
    sends = {"webhook": "pager", "outcome": "accepted"}
    assert meters.registry.get_sample_value("costguard_webhook_deliveries_total", sends)
