"""Hundreds of reminders due at once: at Slack's pace, none lost, and no pass waits for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection
from tests.scenario.fleet import HOUR, MINUTE, body

from costguard.access.rules import Rules
from costguard.daemon.looker import LookPace
from costguard.daemon.reconcile import PassActs, Reconciler
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.messages import outbox_rows
from costguard.messages.outbox import Composed, Outbox
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.recipients import AccountLookups
from costguard.model.delivery.message import Content, EphemeralContent, Posted
from costguard.model.ports import Notifier
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import QuietRule
from costguard.reminders.execute import LiveExecutor
from costguard.reminders.stop_case import ByTheRules
from costguard.slack.client import SlackNotifier
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.world import World

PROJECT, ZONE, CHANNEL = "acme-training", "us-central1-a", "gpu-costs"
START = datetime(2026, 11, 3, 9, tzinfo=UTC)
# COSTGUARD_BURST=500 is what Slack takes more than eight minutes for.
UNCLAIMED, PEOPLE, EACH = int(os.environ.get("COSTGUARD_BURST", "200")), 30, 2
RULES = Rules(
    {OTHER: Preset(OTHER, Match(), 4 * HOUR)},
    quiet=QuietRule(days=frozenset(), starts=QuietRule().ends),
    channel=f"#{CHANNEL}",
)
_PROGRAM = "ci@acme-training.iam.gserviceaccount.com"


def _compose(connection: Connection, message: StoredMessage, now: datetime) -> Composed:
    return Composed(EphemeralContent(message.key), shown="", is_final=True)


@dataclass
class Place:
    world: World
    database: Database
    reconciler: Reconciler
    notifier: SlackNotifier
    lookups: AccountLookups

    def outbox(self, notifier: Notifier | None = None) -> Outbox:
        clock = self.world.clock
        return Outbox(self.database, notifier or self.notifier, _compose, clock, CHANNEL, monotonic=self.seconds)

    def seconds(self) -> float:
        return self.world.now.timestamp()

    def run_pass(self) -> int:
        """Runs a pass, and returns how many calls to Slack it made."""
        before = self.world.slack.calls.total()
        self.reconciler.run()
        return self.world.slack.calls.total() - before

    def waiting(self) -> int:
        with self.database.read() as connection:
            return outbox_rows.backlog(connection).count


@pytest.fixture
def place(sqlite_url: str) -> Iterator[Place]:
    """VMs that come to be due at once: hundreds of nobody, and two of each of 30 people."""
    world = World(ManualClock(START), projects=[PROJECT])
    for number in range(UNCLAIMED):
        world.insert(PROJECT, ZONE, body(f"sweep-{number}", ZONE, "e2-medium"), _PROGRAM)
    for number in range(PEOPLE):
        world.slack.add_user(f"person-{number}")
        for one in range(EACH):
            name = f"train-{number}-{one}"
            world.insert(PROJECT, ZONE, body(name, ZONE, "e2-medium"), f"person-{number}@example.com")
    with running(world) as url, closing(Database.open(sqlite_url)) as database:
        cloud = ComputeCloud(url, world.clock, wait=lambda _: False)
        notifier = SlackNotifier(BOT_TOKEN, f"{url}/slack/api/")
        executor = LiveExecutor(database, cloud, world.clock, ByTheRules(RULES))
        belonging = Belonging((), OwnerRules(domain="example.com"))
        lookups = AccountLookups(database, notifier, world.clock)
        reconciler = Reconciler(
            database,
            cloud,
            world.clock,
            lambda: [PROJECT],
            RULES,
            belonging,
            LookPace(1),
            PassActs(lookups.enqueue, executor),
        )
        yield Place(world, database, reconciler, notifier, lookups)
        cloud.close()


def test_a_burst_is_sent_at_slacks_pace_and_passes_go_on(place: Place) -> None:
    """The pace is one a second in the channel, people next to it, no 429, nothing lost; passes go on, and none calls
    Slack.
    """
    world, total = place.world, UNCLAIMED + PEOPLE * EACH
    world.advance(3 * HOUR + 30 * MINUTE)  # within the hour before they are due, people are looked up
    assert place.run_pass() == 0
    while place.lookups.run():
        pass
    world.advance(HOUR)
    assert place.run_pass() == 0
    assert place.waiting() == total
    outbox, began, passed_at, passes = place.outbox(), world.now, world.now, 0
    while (wait := outbox.deliver()) is not None:
        world.advance(max(wait, timedelta(milliseconds=50)))
        if world.now - passed_at >= MINUTE:
            passed_at, passes = world.now, passes + 1
            assert place.run_pass() == 0
    took = world.now - began
    delivered_within = (
        max(version.at for message, version in world.slack.record if message.channel.startswith("D")) - began
    )
    posted = [version.metadata["event_payload"]["key"] for _, version in world.slack.record]
    assert len(posted) == len(set(posted)) == total
    assert world.slack.limits.refusals.total() == 0
    assert timedelta(seconds=UNCLAIMED - 1) <= took < timedelta(seconds=UNCLAIMED * 1.2)
    assert delivered_within < MINUTE  # nobody waits for the channel
    assert passes >= took // MINUTE - 1
    print(f"\n{total} reminders due at once, {UNCLAIMED} of them to one channel, were sent in {took}")
    print(f"meanwhile {passes} passes, each without a call to Slack; people had theirs within {delivered_within}")


class Stuck:
    """Slack, which takes the first message only when it is let go."""

    def __init__(self, slack: SlackNotifier) -> None:
        self._slack = slack
        self.asked, self.let_go = threading.Event(), threading.Event()

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        self.asked.set()
        assert self.let_go.wait(60)
        return self._slack.post(channel, content, key, thread_ts)

    def __getattr__(self, name: str) -> object:
        return getattr(self._slack, name)


def test_a_pass_does_not_wait_for_a_slow_slack(place: Place) -> None:
    """While one call to Slack does not come back, whole passes run; what they intend is sent after it."""
    world = place.world
    world.advance(5 * HOUR)
    place.reconciler.run()
    assert place.lookups.run()
    stuck = Stuck(place.notifier)
    sending = threading.Thread(target=place.outbox(stuck).deliver)  # type: ignore[arg-type]
    sending.start()
    assert stuck.asked.wait(60)
    before = place.waiting()
    for _ in range(2):
        world.advance(MINUTE)
        assert not place.reconciler.run().interrupted
    assert place.waiting() > before  # of the people who were met
    assert len(world.slack.record) == 0
    stuck.let_go.set()
    sending.join()
    assert len(world.slack.record) > 0
