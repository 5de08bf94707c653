"""Reminders of reserved VMs that nobody uses: once a day, to the owner of each reservation, else to the channel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Protocol

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.delivery.message import DigestLine, ReportContent
from costguard.model.moments import zone_of
from costguard.model.money import Money, Priced
from costguard.model.ports import Clock
from costguard.model.words import count_text
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage
from costguard.spend.loose.report import LooseItem, LooseReport

KIND = "reservation"
AT, UNTIL = time(9), time(21)
"""The local times between which a day's reminder is made, in the settings' time zone."""
YOUNGEST = timedelta(days=1)
"""A reservation that is younger is being filled, and nobody is reminded of it."""
_SHOWN = 10


class Unused(Protocol):
    def __call__(self) -> LooseReport | None:
        """Reports all reservations with an unused part; None while some projects were not asked."""
        ...


class ReservationWatch:
    """Stores each owner's reminder once a day; without a channel, none. It waits until all projects were asked.

    What is unknown, as a project refuses or does not answer, is in no reminder, and keeps back no other.
    """

    def __init__(self, database: Database, clock: Clock, rules: Rules, unused: Unused) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._unused = unused
        self._done: date | None = None

    def intend(self, fence: Lease | None = None) -> int:
        """Returns how many are new. Writes nothing else."""
        now = self._clock.now()
        local = now.astimezone(zone_of(self._rules.time_zone))
        if not self._rules.channel or not AT <= local.time() < UNTIL or self._done == local.date():
            return 0
        good_until = datetime.combine(local.date(), UNTIL, local.tzinfo)
        if (report := self._unused()) is None:
            return 0
        reminders = new_messages(report, local.date(), good_until, now, self._rules.channel)
        new = 0
        if reminders:
            with self._database.write(fence) as connection:
                new = sum(message_rows.intend(connection, one, now) for one in reminders)
        self._done = local.date()
        return new


def new_messages(
    report: LooseReport, day: date, good_until: datetime, now: datetime, channel: str
) -> Sequence[NewMessage]:
    """A message for each owner of reservations that are a day old; those without one go to the channel. Pure."""
    by_address: dict[str, list[LooseItem]] = defaultdict(list)
    for item in report.unused:
        if now - item.thing.created_at >= YOUNGEST:
            by_address[item.owner or channel].append(item)
    return [
        NewMessage(
            key=f"{KIND}/{day}/{address}",
            kind=KIND,
            address=address,
            data={"good_until": good_until.isoformat(), "reservations": [_data(item) for item in items]},
        )
        for address, items in sorted(by_address.items())
    ]


def _data(item: LooseItem) -> dict[str, object]:
    thing = item.thing
    return {
        "name": thing.name,
        "what": thing.what,
        "where": f"{thing.project}, {thing.scope.partition('/')[2]}",
        "owner": item.owner,
        "vms": int(thing.quantity),
        "nanos": None if item.hourly is None else item.hourly.nanos,
        "ends_at": None if thing.ends_at is None else thing.ends_at.isoformat(),
        "command": item.command,
    }


class ReservationComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:  # noqa: ARG002 one of several composers
        """The reservations as they were when the message was made."""
        if now >= datetime.fromisoformat(str(message.data["good_until"])):
            return Withdrawn("it could not be sent on its day; `costguard loose` shows what is unused")
        url = f"{self._url}/loose" if self._url else ""
        return Composed(content(message.data["reservations"], self._rules.time_zone, url), shown="", is_final=True)


def content(rows: Sequence[Mapping[str, Any]], time_zone: str, url: str = "") -> ReportContent:
    """The message: what each costs an hour, its end, and the commands that remove what nobody uses."""
    priced = [row["nanos"] for row in rows if row["nanos"] is not None]
    burn = Priced(Money(sum(priced)), len(priced) == len(rows))
    vms = sum(row["vms"] for row in rows)
    nobody_uses = f"{count_text(vms, 'reserved VM')} that nobody uses {'costs' if vms == 1 else 'cost'}"
    commands = [row["command"] for row in rows if row["command"]]
    more = [DigestLine(f"{len(rows) - _SHOWN} more", "")] if len(rows) > _SHOWN else []
    return ReportContent(
        title="Reserved and unused",
        headline=f"{nobody_uses} {_hourly(burn)}.",
        sections=(("Unused now", (*(_line(row, time_zone) for row in rows[:_SHOWN]), *more)),),
        notes=("A reservation bills from its start until it is deleted, whether VMs use it or not.",),
        what_next="To give back what nobody uses, run:" if commands else "",
        settings=tuple(commands[:_SHOWN]),
        url=url,
    )


def _hourly(burn: Priced) -> str:
    if not burn.whole and not burn.amount:
        return "an amount that is not known: no price is known for it"
    return f"{burn.amount} an hour{'' if burn.whole else ', plus what has no price'}"


def _line(row: Mapping[str, Any], time_zone: str) -> DigestLine:
    amount = "no price known" if row["nanos"] is None else f"{Money(row['nanos'])} an hour"
    end = ""
    if row["ends_at"] is not None:
        end = f"; ends {datetime.fromisoformat(row['ends_at']).astimezone(zone_of(time_zone)):%d %b, %H:%M}"
    return DigestLine(str(row["name"]), amount, f"{row['owner'] or 'unowned'}, {row['where']}: {row['what']}{end}")
