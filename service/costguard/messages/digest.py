"""Digests: planned when due, written from the ledger when sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.ledger import projects
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.gaps import gaps
from costguard.messages import digest_sections as sections
from costguard.messages.digest_schedule import DigestRule, DueDigest, Every, due
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.budget import Scope
from costguard.model.delivery.message import DigestContent
from costguard.model.moments import day_start
from costguard.model.ports import Clock
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage
from costguard.spend.spend import Spend, spend
from costguard.spend.spend_rows import Grouping

KIND = "digest"
_DAY = timedelta(days=1)


class DigestWatch:
    """Stores each digest once; `channel` "" sends none."""

    def __init__(self, database: Database, clock: Clock, rule: DigestRule, channel: str) -> None:
        self._database = database
        self._clock = clock
        self._rule = rule
        self._channel = channel

    def intend(self, fence: Lease | None = None) -> list[DueDigest]:
        """The new ones. Writes nothing else."""
        now = self._clock.now()
        with self._database.read() as connection:
            digests = due(self._rule, projects.first_watched_at(connection), now) if self._channel else []
            stored = message_rows.known(connection, [digest.key for digest in digests])
        new = [digest for digest in digests if digest.key not in stored]
        if new:
            with self._database.write(fence) as connection:
                for digest in new:
                    message_rows.intend(connection, _message(digest, self._channel), now)
        return new


class DigestComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """Spend on the message's days, and the fleet and budgets as they are now."""
        if now >= datetime.fromisoformat(str(message.data["good_until"])):
            return Withdrawn("it could not be sent in time, and the next digest is more recent")
        weekly = message.data["every"] == Every.WEEKLY.value
        first, last = (date.fromisoformat(str(message.data[name])) for name in ("first", "last"))
        content = _content(connection, self._rules, weekly, first, last, now)
        return Composed(replace(content, url=f"{self._url}/spend" if self._url else ""), shown="", is_final=True)


def _content(
    connection: Connection, rules: Rules, weekly: bool, first: date, last: date, now: datetime
) -> DigestContent:
    accrual = accrual_at(connection, now)
    span = last - first + _DAY
    before = _before(connection, accrual, first - span, first - _DAY)
    by_preset = spend(connection, accrual, first, last, [Grouping.PRESET])
    by_owner = spend(connection, accrual, first, last, [Grouping.OWNER])
    fleet = sections.RunningFleet.read(connection, accrual, rules)
    since, until = day_start(first), day_start(last) + _DAY
    return DigestContent(
        weekly=weekly,
        first=first,
        last=last,
        headline=f"{_spent(by_preset, before, weekly)} {fleet.headline()}",
        sections=(
            ("By preset", sections.spent_on(by_preset, before)),
            ("By owner", sections.spent_on(by_owner, None)),
            ("Idle now, the most expensive first", fleet.idlers()),
            ("Past their limits", fleet.past_limits()),
            ("Budgets", sections.standing(connection, accrual, rules)),
            *sections.stopped(connection, accrual.book, now, since, until, is_shadow=rules.is_shadow),
            ("Kept", sections.kept(connection, since, until, rules.time_zone)),
            ("Running without an owner", fleet.unclaimed()),
            *sections.not_known(connection, gaps(connection, accrual, first, last, Scope())),
        ),
    )


def _before(connection: Connection, accrual: Accrual, first: date, last: date) -> Spend | None:
    """The period before, by preset; None where not all of it was watched."""
    since = projects.first_watched_at(connection)
    if since is None or since > day_start(first):
        return None
    return spend(connection, accrual, first, last, [Grouping.PRESET])


def _spent(current: Spend, before: Spend | None, weekly: bool) -> str:
    amount = current.total.total
    least = "at least " if current.unpriced else ""
    text = f"{least}{amount} was spent".capitalize()
    if before is None:
        return f"{text}."
    earlier = before.total.total
    when = "in the week before" if weekly else "on the day before"
    if not earlier:
        return f"{text}; nothing {when}."
    percent = round(Fraction(100 * (amount.nanos - earlier.nanos), earlier.nanos))
    change = "about as much as" if not percent else f"{abs(percent):,}% {'more' if percent > 0 else 'less'} than"
    return f"{text}, {change} the {earlier} {when}."


def _message(digest: DueDigest, channel: str) -> NewMessage:
    data = {
        "every": digest.every.value,
        "first": digest.first.isoformat(),
        "last": digest.last.isoformat(),
        "good_until": digest.good_until.isoformat(),
    }
    return NewMessage(key=digest.key, kind=KIND, address=channel, data=data)
