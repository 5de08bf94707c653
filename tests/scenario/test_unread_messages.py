"""Unread messages of the subscription, from Pub/Sub over Cloud Monitoring to Health, `/metrics` and the alerts."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from tests.api.conftest import deps_of
from tests.api.scraped import Scrape, scrape

from costguard.api.app import create_app
from costguard.daemon.feed import FeedTask
from costguard.daemon.feed_watch import FeedWatch
from costguard.db import lease as leases
from costguard.db.transaction import Database
from costguard.pubsub.client import SubscriptionFeed
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 8, 0, 7, tzinfo=UTC)
TOPIC, SUBSCRIPTION = "projects/acme-events/topics/costguard", "projects/acme-events/subscriptions/costguard"
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus-alerts.yaml"
OF_UNREAD = ("CostguardFeedBehind", "CostguardEventsPileUp")


class _Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.now


@dataclass
class Guard:
    world: World
    database: Database
    url: str

    def turn(self) -> None:
        """A new process takes one turn: it asks how much is unread, and pulls until nothing comes."""
        clock = _Clock(self.world)
        lease = leases.acquire(self.database, "daemon", "me", timedelta(days=365))
        assert lease is not None
        with closing(SubscriptionFeed(SUBSCRIPTION, endpoint=self.url, pulls=1, wait=lambda _: True)) as subscription:
            watch = FeedWatch(self.database, clock, SUBSCRIPTION, lambda _report, _messages: ())
            task = FeedTask(subscription, lambda _e, _l: None, clock, watch, pause=lambda _s, _t: None)
            task.run(lease, threading.Event())
            while self.world.pubsub.unread(SUBSCRIPTION)[0]:
                task.run(lease, threading.Event())

    def shown(self) -> tuple[Mapping[str, Any], Scrape]:
        client = TestClient(create_app(replace(deps_of(self.database), clock=_Clock(self.world))))
        return client.get("/readyz").json()["feed"], scrape(client)

    def raised(self) -> set[str]:
        """The alerts whose condition holds now."""
        _, figures = self.shown()
        groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
        exprs = {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
        held = set()
        for name in OF_UNREAD:
            match = re.fullmatch(r"max\((\w+)\) > (\d+)", exprs[name])
            assert match is not None
            if match[1] in figures.labels and figures.value(match[1]) > int(match[2]):
                held.add(name)
        return held


@pytest.fixture
def world() -> World:
    world = World(ManualClock(START), projects=["acme-training"])
    world.pubsub.add_topic(TOPIC)
    world.pubsub.add_subscription(SUBSCRIPTION, TOPIC, 600)
    return world


def test_messages_that_pile_up_are_shown_and_raise_the_alerts(sqlite_database: Database, world: World) -> None:
    """11,000 messages wait for ten minutes: Cloud Monitoring counts them once a minute and shows it 240 s later. Once
    they are pulled, and its next points are there, nothing is unread.
    """
    with running(world) as url:
        guard = Guard(world, sqlite_database, url)
        world.pubsub.publish(TOPIC, [(b"{}", {})] * 11_000)
        world.advance(timedelta(minutes=10))
        guard.turn()
        feed, figures = guard.shown()
        assert feed["messages_unread"] == 11_000
        assert figures.value("costguard_feed_messages_unread") == 11_000
        assert figures.value("costguard_feed_oldest_unread_seconds") == pytest.approx(600, abs=60)
        assert guard.raised() == set(OF_UNREAD)
        world.advance(timedelta(minutes=10))
        guard.turn()
        assert guard.shown()[0]["messages_unread"] == 0
        assert guard.raised() == set()


def test_what_cloud_monitoring_does_not_say_is_unknown(sqlite_database: Database, world: World) -> None:
    """A new subscription has no point, and without the right nothing is read: no number is shown, and none is 0."""
    with running(world) as url:
        guard = Guard(world, sqlite_database, url)
        world.pubsub.publish(TOPIC, [(b"{}", {})] * 3)
        guard.turn()
        feed, figures = guard.shown()
        assert feed["messages_unread"] is None
        assert "costguard_feed_messages_unread" not in figures.labels
        world.rights.withhold("acme-events", "monitoring.timeSeries.list")
        world.advance(timedelta(minutes=10))
        guard.turn()
        assert guard.shown()[0]["messages_unread"] is None
        world.rights.restore()
        guard.turn()
        assert guard.shown()[0]["messages_unread"] == 0
        world.rights.withhold("acme-events", "monitoring.timeSeries.list")
        guard.turn()
        assert guard.shown()[0]["messages_unread"] is None
