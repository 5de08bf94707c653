"""Heartbeats through the simulated Pub/Sub: out to the topic, back through the subscription, into the database."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from tests.fakes import HandClock
from tests.scenario.fleet import PROJECTS

from costguard.daemon import feed_state
from costguard.daemon.feed_watch import FeedWatch
from costguard.daemon.meters import WatchMeters
from costguard.db import lease as leases
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.main.feed import feed
from costguard.settings.feed import FeedSection
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 2, 12, tzinfo=UTC)
TOPIC, SUBSCRIPTION = "projects/acme-ops/topics/audit", "projects/acme-ops/subscriptions/costguard"


def test_heartbeat_comes_back_through_pubsub(sqlite_database: Database) -> None:
    """The daemon's own task sends it and hears it: the subscription counts as alive for ninety seconds."""
    world, clock = World(ManualClock(START), projects=PROJECTS, seed=11), HandClock(START)
    world.pubsub.add_topic(TOPIC)
    world.pubsub.add_subscription(SUBSCRIPTION, TOPIC, 600)
    lease = leases.acquire(sqlite_database, "daemon", "me", timedelta(days=365))
    assert lease is not None
    with running(world) as url:
        section = FeedSection(subscription=SUBSCRIPTION, endpoint=url, pulls=1)
        watch = FeedWatch(sqlite_database, clock, SUBSCRIPTION, late=WatchMeters().late)
        belonging = Belonging((), OwnerRules())
        cloud = ComputeCloud(url, clock)
        with feed(section, sqlite_database, cloud, clock, belonging, watch, lambda _stop, _seconds: None) as task:
            assert task is not None
            task.run(lease, threading.Event())
        cloud.close()
    with sqlite_database.read() as connection:
        stored, streams = feed_state.subscription(connection), feed_state.streams(connection)
    assert stored is not None
    assert (stored.name, stored.wire.heard_at, stored.error) == (SUBSCRIPTION, START, "")
    assert streams.wire is not None
    assert streams.wire.is_alive(streams.rhythm, START + timedelta(seconds=90))
    assert not streams.wire.is_alive(streams.rhythm, START + timedelta(seconds=91))
