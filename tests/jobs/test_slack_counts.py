"""The messages of a job in Slack are counted: the guard's turns, the outbox, the real client, the simulated
workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection
from tests.builders import at
from tests.jobs.world import ANA, World, world

from costguard.access.rules import Rules
from costguard.messages.job_update import CardComposer
from costguard.messages.notification import NotificationComposer, NotificationWatch
from costguard.messages.outbox import Composed, Outbox, Withdrawn
from costguard.messages.outbox_rows import StoredMessage as Stored
from costguard.model.job import JobState
from costguard.model.reminder import Team
from costguard.slack.client import SlackNotifier
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.slack.model import Message
from costguard_sandbox.world import World as Cloud

RULES = Rules({}, channel="#gpu-costs", teams=(Team("vision", members=frozenset({ANA}), channel="#gpu-costs"),))


@dataclass
class GuardWithSlack:
    """A guard with its jobs, and a workspace over HTTP that it writes to."""

    jobs: World
    cloud: Cloud
    outbox: Outbox
    watch: NotificationWatch

    def live(self, minutes: float) -> None:
        """Time goes on; whatever there is to say is sent every ten seconds, as by the daemon."""
        for _ in range(round(minutes * 6)):
            self.jobs.step(10, passing=True)
            self.cloud.advance(timedelta(seconds=10))
            self.watch.intend()
            self.outbox.deliver()

    def attempt(self, number: int) -> str:
        """Brings its VM up, and starts its command."""
        name = f"cg-j1-{number}"
        for _ in range(30):
            self.live(0.5)
            if self.jobs.is_up(name):
                break
        self.jobs.start(name)
        self.live(1)
        return name

    def preempt(self, name: str) -> None:
        self.jobs.notice(name)
        self.jobs.cloud.preempt(self.jobs.vm(name))
        self.live(2)

    @property
    def owners(self) -> list[Message]:
        """All that the owner got, the card and its replies included."""
        return [one for one in self._all() if one.channel.startswith("D")]

    @property
    def channels(self) -> list[Message]:
        return [one for one in self._all() if not one.channel.startswith("D")]

    def _all(self) -> list[Message]:
        slack = self.cloud.slack
        return [one for channel in slack.channels for one in slack.messages(channel)]


@contextmanager
def office(url: str) -> Iterator[GuardWithSlack]:
    cloud = Cloud(ManualClock(at("12:00")))
    with running(cloud) as served, world(url) as jobs:
        notifier = SlackNotifier(BOT_TOKEN, f"{served}/slack/api/")
        cards, news = CardComposer(), NotificationComposer(RULES)

        def compose(connection: Connection, message: Stored, now: object) -> Composed | Withdrawn:
            return (cards if message.kind == "job" else news)(connection, message, jobs.clock.now())

        outbox = Outbox(jobs.database, notifier, compose, jobs.clock, "#gpu-costs", cards.changed)
        yield GuardWithSlack(jobs, cloud, outbox, NotificationWatch(jobs.database, jobs.clock, RULES, "#gpu-costs"))


def test_a_command_that_fails_at_once_makes_one_message_to_its_owner_and_one_to_the_team(sqlite_url: str) -> None:
    """Three VMs, each from zero, are one failure: at most two messages in the thread are allowed, and one elsewhere."""
    with office(sqlite_url) as at_work:
        at_work.jobs.submit()
        for number in (1, 2, 3):
            name = at_work.attempt(number)
            at_work.jobs.exit(name, code=1)
            at_work.live(3)
        at_work.live(20)
        assert at_work.jobs.job().state is JobState.FAILED
        assert len(at_work.jobs.attempts()) == 3
        (owners,) = at_work.owners
        (teams,) = at_work.channels
        assert owners.text == teams.text
        assert "bert has failed" in owners.text


def test_one_recovery_makes_one_message(sqlite_url: str) -> None:
    """The first is the card, every later one a reply below it, and the card is edited in place."""
    with office(sqlite_url) as at_work:
        at_work.jobs.submit()
        name = at_work.attempt(1)
        for number in (2, 3):
            at_work.jobs.shelf.save(100 * number)
            at_work.jobs.beat(name, step=100 * number)
            at_work.live(5)
            at_work.preempt(name)
            name = at_work.attempt(number)
            assert len(at_work.owners) == number - 1
        card, reply = at_work.owners
        assert (card.thread_ts, reply.thread_ts) == ("", card.ts)
        assert "bert is running" in card.text
        assert "back after" in str(card.blocks)
        assert "bert is running again" in reply.text
        assert at_work.channels == []
