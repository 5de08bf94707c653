"""Every kind of message that is sent, each with what composes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.messages import first_report, hint, sweep_update, unused_reservations
from costguard.messages.digest import DigestComposer
from costguard.messages.first_report import FirstReportComposer
from costguard.messages.job_update import CARD, CardComposer
from costguard.messages.notification import KIND, NotificationComposer
from costguard.messages.outbox import Changed, Compose, Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.reminder import ReminderComposer
from costguard.messages.sweep_update import SweepCardComposer
from costguard.messages.unused_reservations import ReservationComposer
from costguard.model.delivery.message import EphemeralContent


class ByKind:
    """Asks the composer of the message's kind, and of those that are edited what changed."""

    def __init__(self, composers: Mapping[str, Compose], edited: Mapping[str, Changed]) -> None:
        self._composers = composers
        self._edited = edited

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._composers)

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        compose = self._composers.get(message.kind)
        if compose is None:  # a later version's, before this one took over again
            return Withdrawn(f"this version knows no message of the kind {message.kind}")
        return compose(connection, message, now)

    def changed(self, connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:
        messages = []
        for kind, changed in self._edited.items():
            if of_kind := [message for message in live if message.kind == kind]:
                messages += changed(connection, of_kind, now)
        return messages


def by_kind(rules: Rules, url: str, reminders: ReminderComposer) -> ByKind:
    """Every kind of message that is sent."""
    cards, sweep_cards = CardComposer(url), SweepCardComposer(url)
    return ByKind(
        {
            "reminder": reminders,
            "digest": DigestComposer(rules, url),
            first_report.KIND: FirstReportComposer(rules, url),
            unused_reservations.KIND: ReservationComposer(rules, url),
            KIND: NotificationComposer(rules, url),
            CARD: cards,
            sweep_update.CARD: sweep_cards,
            "ephemeral": _ephemeral,
        },
        {
            "reminder": reminders.changed,
            CARD: cards.changed,
            sweep_update.CARD: sweep_cards.changed,
            KIND: hint.changed,
        },
    )


def _ephemeral(connection: Connection, message: StoredMessage, now: datetime) -> Composed:  # noqa: ARG001 one of several composers
    return Composed(EphemeralContent(str(message.data["text"])), shown="", is_final=True)
