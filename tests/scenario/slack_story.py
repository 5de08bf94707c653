"""Runs one team's guard as its people see it: the whole product against a simulated cloud and Slack, time moved by
hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from tests.authenticators import ADMIT_ALL
from tests.scenario.fleet import body
from tests.serving import serving

from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.events import audit_log
from costguard.main import Guard, opened
from costguard.main.slack_intake import SlackIntake, build_slack_intake
from costguard.messages.preview import ReminderPreview, preview
from costguard.messages.slack_health import OutboxTrouble, trouble_of
from costguard.settings import Settings, validate
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.slack.interactions import Delivery
from costguard_sandbox.slack.model import Message
from costguard_sandbox.world import World

MONDAY = datetime(2026, 11, 2, 8, tzinfo=UTC)  # 09:00 in Madrid, where Ana is
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
PROJECT, ZONE = "acme-training", "us-central1-a"
_SECRETS = {
    "COSTGUARD_SLACK_TOKEN": BOT_TOKEN,
    "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET,
    "COSTGUARD_SLACK_APP_TOKEN": APP_TOKEN,
}
_SETTINGS: Mapping[str, Any] = {
    "idle": {"enabled": False},
    "owners": {"domain": "example.com"},
    "reminders": {
        "quiet_hours": "never",
        "quiet_days": [],
        "daily_digest": "never",
        "weekly_digest": "never",
    },
    "enforcement": {"shadow": False},
    "access": {"viewers": ["@example.com"]},
    "presets": {"t4": {"limit": "8h", "remind_every": "4h"}},
}


@dataclass
class Story:
    """`guard` does one pass whenever `later` has moved the time; what people press is carried out by the next."""

    world: World
    guard: Guard
    way_in: SlackIntake
    url: str

    # What happens in the cloud.

    def vm(self, name: str = "trainer", machine: str = "n1-standard-4", owner: str = "ana", **given: Any) -> VM:
        """Runs since about now; one T4 unless given otherwise."""
        labels = {**({"owner": owner} if owner else {}), **given.pop("labels", {})}
        user = given.pop("user", "ana@example.com")
        gpu = given.pop("gpu", ("nvidia-tesla-t4", 1) if machine.startswith("n1") else None)
        self.world.insert(PROJECT, ZONE, body(name, ZONE, machine, gpu, labels=labels, **given), user)
        self.later(MINUTE)
        return self.world.instance(PROJECT, name)

    def status(self, name: str = "trainer") -> Status:
        return self.world.instance(PROJECT, name).status

    # Time.

    @property
    def now(self) -> datetime:
        return self.world.now

    def later(self, span: timedelta, every: timedelta | None = None) -> None:
        """Time passes, with one pass at its end; with `every`, a pass each time that so much of it has passed."""
        ends = self.now + span
        while every is not None and self.now + every < ends:
            self.world.advance(every)
            self.look()
        if self.now < ends:
            self.world.advance_to(ends)
        self.look()

    def look(self) -> None:
        """Runs one pass, another if a person was looked up, all that follows, and everything that Slack takes
        at once.
        """
        assert self.guard.messaging is not None
        self.guard.reconciler.run()
        if self.guard.messaging.lookups.run():
            self.guard.reconciler.run()
        self.guard.budgets.look()
        self.guard.messaging.notifications.intend()
        self.guard.messaging.digests.intend()
        self.guard.messaging.first_report.intend()
        if self.guard.idle_watch is not None:
            self.guard.idle_watch.record(self.guard.idle_watch.read())
        for _ in range(30):
            wait = self.guard.messaging.outbox.deliver()
            if wait is None or wait > timedelta(seconds=2):
                return
            self.world.advance(max(wait, timedelta(milliseconds=10)))

    # What people see and do.

    def sent(self, where: str = "ana") -> list[Message]:
        """All messages in a channel or in the app's direct messages with a person, but for ephemeral ones."""
        return self.world.slack.messages(self.place(where))

    def only(self, where: str = "ana") -> Message:
        (message,) = self.sent(where)
        return message

    def last(self, where: str = "ana") -> Message:
        return self.sent(where)[-1]

    def place(self, where: str) -> str:
        return where if where.startswith("#") else self.world.slack.direct(where).id

    def press(self, message: Message, action: str, by: str = "ana") -> Delivery:
        """A press, and a pass right after it."""
        delivery = self.click(message, action, by)
        self.later(timedelta(seconds=15))
        return delivery

    def click(self, message: Message, action: str, by: str = "ana") -> Delivery:
        """A press alone, until it is stored: who pressed may be looked up after the answer."""
        delivery = self.world.slack.interactions.click(by, message.channel, message.ts, action)
        self.way_in.handler.wait_until_stored()
        return delivery

    def private_messages(self, who: str) -> list[str]:
        """Returns what only this person can read: where they pressed, or among their direct messages."""
        user = self.world.slack.user(who).id
        return [
            message.text
            for channel in list(self.world.slack.channels)
            for message in self.world.slack.messages(channel, ephemeral=True)
            if message.ephemeral_to == user
            or (user in self.world.slack.channels[channel].users and _key(message).startswith("ephemeral/"))
        ]

    def events(self, kind: str) -> list[str]:
        """The oldest first."""
        with self.guard.database.read() as connection:
            return [stored.event.text for stored in audit_log.read(connection, kind=kind)][::-1]

    def preview(self) -> ReminderPreview:
        with self.guard.database.read() as connection:
            return preview(connection, self.guard.rules, self.now)

    def get(self, path: str) -> Any:
        return httpx2.get(f"{self.url}{path}").json()


def shown(message: Message) -> str:
    """All that a person reads in it, buttons apart."""
    return "\n".join(_texts([block for block in message.blocks if block["type"] != "actions"]))


def buttons(message: Message) -> dict[str, str]:
    """Returns the text of each button, by its action."""
    return {
        element["action_id"]: element["text"]["text"]
        for block in message.blocks
        if block["type"] == "actions"
        for element in block["elements"]
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, Mapping):
        if isinstance(value.get("text"), str):
            yield value["text"]
        for one in value.values():
            yield from _texts(one)


def settings_of(cloud: str, database_url: str, **settings: Mapping[str, Any]) -> Settings:
    """`cloud` is where the simulated cloud and Slack are reached."""
    wanted: dict[str, Any] = {
        "watch": {"projects": [PROJECT]},
        "database": {"url": database_url},
        "compute": {"endpoint": cloud},
        "prices": {"enabled": False},  # the shipped ones: far fewer to read
        "slack": {"channel": "#gpu-costs", "endpoint": f"{cloud}/slack/api/"},
        **{name: dict(section) for name, section in _SETTINGS.items()},
    }
    for name, section in settings.items():
        wanted[name] = {**wanted.get(name, {}), **section}
    return validate(wanted, _SECRETS, Path("story"))


@contextmanager
def story(database_url: str, start: datetime = MONDAY, **settings: Mapping[str, Any]) -> Iterator[Story]:
    """`settings` are sections over those of a team that never sleeps and whose T4s may run for 8 h."""
    world = World(ManualClock(start), projects=[PROJECT])
    with running(world) as cloud:
        checked = settings_of(cloud, database_url, **settings)
        # Its clock is moved by hand: pauses in real time would wait for nothing.
        with opened(checked, world.clock, speed=1e6, wait=lambda _seconds: False) as guard:
            assert guard.messaging is not None
            way_in = build_slack_intake(
                checked, guard.rules, guard.database, guard.clock, lambda: None, by_http=True, by_socket=True
            )
            assert way_in is not None
            try:
                with served(guard, way_in) as url:
                    world.slack.interactions.request_url = f"{url}/slack/interactions"
                    world.slack.interactions.answer_seconds = 60  # real ones, which a busy machine may need
                    yield Story(world, guard, way_in, url)
            finally:
                way_in.close()


@contextmanager
def served(guard: Guard, way_in: SlackIntake) -> Iterator[str]:
    def trouble() -> OutboxTrouble:
        assert guard.messaging is not None
        state = guard.messaging.trouble
        return trouble_of(guard.database, state.workspace, state.channels)

    deps = Deps(
        database=guard.database,
        clock=guard.clock,
        rules=guard.rules,
        authenticator=ADMIT_ALL,
        version="story",
        stale_after=timedelta(days=2),
        status=lambda: DaemonStatus(),
        slack=way_in.signed,
        slack_refused=lambda: way_in.dispatcher.refused,
        outbox_trouble=trouble,
    )
    with serving(create_app(deps)) as url:
        yield url


def _key(message: Message) -> str:
    payload = message.versions[0].metadata.get("event_payload", {})
    return str(payload.get("key", ""))
