"""The task that takes events off their subscription, built from the settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from costguard.daemon.feed import FeedSigns, FeedTask
from costguard.daemon.feed_watch import FeedWatch
from costguard.daemon.listings import RHYTHM
from costguard.daemon.meters import WatchMeters
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.ledger.discovery.rules import WatchScope
from costguard.ledger.feed.entry import read_entry
from costguard.ledger.feed.late_answers import LateAnswers
from costguard.ledger.feed.record import FeedRecorded, record_entries
from costguard.ledger.observe import Belonging
from costguard.model.ports import Clock, Cloud
from costguard.pubsub.client import SubscriptionFeed
from costguard.settings import Settings
from costguard.settings.feed import FeedSection

if TYPE_CHECKING:
    from costguard.gce.client import ComputeCloud


def signs(settings: Settings, database: Database, clock: Clock, speed: float, meters: WatchMeters) -> FeedWatch | None:
    """The heartbeats and counts of the subscription; None where the settings name none."""
    if settings.feed.subscription is None:
        return None
    return FeedWatch(database, clock, settings.feed.subscription, rhythm=RHYTHM.at_speed(speed), late=meters.late)


def late_answers(
    scope: WatchScope, database: Database, cloud: ComputeCloud, clock: Clock, belonging: Belonging
) -> LateAnswers:
    """The task that tells later what VMs are. Where no place is searched, the history of assets is not asked."""
    organization = next((place for place in scope.places if place.startswith("organizations/")), None)
    parent_of = "projects/{}".format if organization is None else lambda _project: organization
    return LateAnswers(database, cloud, clock, belonging, cloud if scope.places else None, parent_of)


@contextmanager
def feed(
    settings: FeedSection,
    database: Database,
    cloud: Cloud,
    clock: Clock,
    belonging: Belonging,
    signs: FeedSigns | None = None,
    pause: Callable[[threading.Event, float], object] = threading.Event.wait,
) -> Iterator[FeedTask | None]:
    """The task; None where the settings name no subscription. `pause` waits between small batches."""
    if settings.subscription is None:
        yield None
        return

    def record(entries: Sequence[Mapping[str, Any]], lease: Lease) -> FeedRecorded:
        read = [said for entry in entries if (said := read_entry(entry)) is not None]
        return record_entries(database, cloud, read, belonging, lease, clock.now())

    over = threading.Event()
    subscription = SubscriptionFeed(
        settings.subscription, endpoint=settings.endpoint, pulls=settings.pulls, wait=over.wait
    )
    with closing(subscription):
        try:
            yield FeedTask(subscription, record, clock, signs, pause=pause)
        finally:
            over.set()
