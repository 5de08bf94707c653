"""Slack, where the settings have it: what sends, and what says what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.messages.digest import DigestComposer, DigestWatch
from costguard.messages.digest_schedule import DigestRule
from costguard.messages.job_update import CARD, CardComposer
from costguard.messages.notification import NotificationComposer, NotificationWatch
from costguard.messages.outbox import Changed, Compose, Composed, Outbox, Withdrawn
from costguard.messages.recipients import AccountLookups
from costguard.messages.reminder import ReminderComposer
from costguard.model.message import EphemeralContent
from costguard.model.ports import Clock
from costguard.reminders.message_rows import StoredMessage
from costguard.settings import Settings
from costguard.slack.client import SlackNotifier
from costguard.slack.web_api import ENDPOINT


@dataclass(frozen=True, slots=True)
class Messaging:
    """Everything that speaks to Slack."""

    notifier: SlackNotifier
    outbox: Outbox
    lookups: AccountLookups
    reminders: ReminderComposer
    notices: NotificationWatch
    digests: DigestWatch


class _ByKind:
    """Asks the composer of the message's kind, and of those that are edited what changed."""

    def __init__(self, composers: Mapping[str, Compose], edited: Mapping[str, Changed]) -> None:
        self._composers = composers
        self._edited = edited

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        compose = self._composers.get(message.kind)
        if compose is None:  # a later version's, before this one took over again
            return Withdrawn(f"this version knows no message of the kind {message.kind}")
        return compose(connection, message, now)

    def changed(self, connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:
        found = []
        for kind, changed in self._edited.items():
            if of_kind := [message for message in live if message.kind == kind]:
                found += changed(connection, of_kind, now)
        return found


def messaging(
    settings: Settings, rules: Rules, database: Database, clock: Clock, told: Callable[[str, str], None]
) -> Messaging | None:
    """None without a [slack] section: then no messages are sent. `told` hears what came of each message."""
    slack = settings.slack
    if slack is None:
        return None
    url = slack.url or ""
    notifier = SlackNotifier(slack.token.get_secret_value(), slack.endpoint or ENDPOINT)
    reminders, cards = ReminderComposer(rules, url), CardComposer(url)
    compose = _ByKind(
        {
            "reminder": reminders,
            "digest": DigestComposer(rules, url),
            "notification": NotificationComposer(rules, url),
            CARD: cards,
            "ephemeral": _ephemeral,
        },
        {"reminder": reminders.changed, CARD: cards.changed},
    )
    digests = settings.digests
    rule = DigestRule(digests.daily, digests.weekly, digests.weekday, digests.time_zone)
    return Messaging(
        notifier=notifier,
        outbox=Outbox(database, notifier, compose, clock, rules.channel, compose.changed, count=told),
        lookups=AccountLookups(database, notifier, clock),
        reminders=reminders,
        notices=NotificationWatch(database, clock, rules, slack.budget_channel),
        digests=DigestWatch(database, clock, rule, slack.budget_channel),
    )


def _ephemeral(connection: Connection, message: StoredMessage, now: datetime) -> Composed:  # noqa: ARG001 one of several composers
    return Composed(EphemeralContent(str(message.data["text"])), shown="", is_final=True)
