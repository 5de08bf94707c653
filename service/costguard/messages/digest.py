"""Digests: intended when they are due, and written from the ledger when they are sent."""

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
from costguard.messages import digest_sections as sections
from costguard.messages.digest_schedule import DigestRule, DueDigest, Every, due
from costguard.messages.outbox import Composed, Withdrawn
from costguard.model.message import DigestContent
from costguard.model.ports import Clock
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage, StoredMessage
from costguard.spend.spend import Spend, spend
from costguard.spend.spend_rows import Grouping, day_start

KIND = "digest"
_DAY = timedelta(days=1)


class DigestWatch:
    """Intends each digest once; `channel` "" sends none."""

    def __init__(self, database: Database, clock: Clock, rule: DigestRule, channel: str) -> None:
        self._database = database
        self._clock = clock
        self._rule = rule
        self._channel = channel

    def intend(self, fence: Lease | None = None) -> list[DueDigest]:
        """Those that were intended now. Writes only what is due and was not intended before."""
        now = self._clock.now()
        with self._database.read() as connection:
            found = due(self._rule, _watched_since(connection), now) if self._channel else []
            known = message_rows.known(connection, [each.key for each in found])
        new = [each for each in found if each.key not in known]
        if new:
            with self._database.write(fence) as connection:
                for each in new:
                    message_rows.intend(connection, _message(each, self._channel), now)
        return new


class DigestComposer:
    """`url` is where people reach the dashboard; "" where they cannot."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """What was spent on the message's days, and how things stand at this moment."""
        if now >= datetime.fromisoformat(str(message.data["good_until"])):
            return Withdrawn("it could not be sent in time, and the next digest tells more")
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
            ("Running, and nobody's", fleet.unclaimed()),
            *sections.not_known(connection, by_preset),
        ),
    )


def _before(connection: Connection, accrual: Accrual, first: date, last: date) -> Spend | None:
    """The days before, by preset; None where not all of them were watched, as there is nothing to compare with."""
    since = _watched_since(connection)
    if since is None or since > day_start(first):
        return None
    return spend(connection, accrual, first, last, [Grouping.PRESET])


def _spent(found: Spend, before: Spend | None, weekly: bool) -> str:
    amount = found.total.total
    least = "at least " if found.unpriced else ""
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


def _message(of: DueDigest, channel: str) -> NewMessage:
    data = {
        "every": of.every.value,
        "first": of.first.isoformat(),
        "last": of.last.isoformat(),
        "good_until": of.good_until.isoformat(),
    }
    return NewMessage(key=of.key, kind=KIND, address=channel, data=data)


def _watched_since(connection: Connection) -> datetime | None:
    return min((look.first_seen_at for look in projects.read_all(connection)), default=None)
