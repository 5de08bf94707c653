"""Reads what a report of a span is made from: the runs of the ledger, and their reminders, answers and stops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.access import people
from costguard.access.rules import Rules
from costguard.db.bulk import chunks
from costguard.db.tables import events, instances, lifetimes
from costguard.ledger import answers, projects
from costguard.ledger.accrual import book_of
from costguard.ledger.idle import gpu_use, utilisation
from costguard.ledger.price_book import PriceBook
from costguard.ledger.rows import lifetime_of
from costguard.model.action import StopOutcome
from costguard.model.instance import InstanceKey, Status
from costguard.model.lifetime import Lifetime
from costguard.model.money import Priced
from costguard.model.reminder import Subject, SubjectKind
from costguard.model.utilisation import Evidence, IdleState
from costguard.reminders import gather, message_rows, report, stop_rows
from costguard.reminders.not_stopped import StopBlocker
from costguard.reminders.report import FleetReport, ReportedRun, ReportedVm, ReportMaker, ShadowStop, Step
from costguard.reminders.stop_rows import StopRecord
from costguard.reminders.watched import WatchedVm
from costguard.spend.enforcements import StopReport, enforcements
from costguard.spend.spend_rows import day_start

MOST_DAYS = 366


def watched_since(connection: Connection) -> datetime | None:
    """Returns the moment of the first look at any project; None before it."""
    return min((look.first_seen_at for look in projects.read_all(connection)), default=None)


def fleet_report(connection: Connection, rules: Rules, now: datetime, days: int) -> FleetReport:
    """Reports since watching began, at most on the last `days` UTC days, today's part included."""
    looks = projects.read_all(connection)
    first = min((look.first_seen_at for look in looks), default=None)
    since = max(first or now, day_start(now.date() - timedelta(days=days - 1)))
    book = book_of(connection)
    maker = ReportMaker(rules, people.of_addresses(connection, None), projects.unread(looks), book, since, now)
    stopped = _stopped(connection, book, since, now)
    going_on = _going_on(connection, rules, now)
    ended = _ended(connection, rules, since, now, {vm.subject for vm in stopped})
    reported = [vm for one in (*going_on, *ended) if (vm := maker.vm(one)) is not None]
    vms = report.in_order([*(one.vm for one in stopped), *reported])
    there = {vm.key for vm in reported}
    alone = [(one, maker.blocker(one)) for one in going_on if one.vm.key not in there]
    return FleetReport(
        since=since,
        until=now,
        watched_since=first,
        is_shadow=rules.is_shadow,
        channel=rules.channel,
        running=len(going_on),
        gpu_use=gpu_use.between(connection, since, now),
        vms=vms,
        left_alone=report.left_alone(alone),
        only_remind=report.only_remind(vms, rules),
        unread=tuple(look.project for look in looks if look.unread),
    )
