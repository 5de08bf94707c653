"""The sections of a digest: titled lists, the most expensive first, with a count of what is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TypeVar
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, select

from costguard.access.rules import Rules
from costguard.db.tables import instances, keeps
from costguard.ledger import projects
from costguard.ledger.accrual import Accrual
from costguard.ledger.gaps import UnpricedSpan
from costguard.ledger.idle import utilisation
from costguard.ledger.price_book import PriceBook
from costguard.model.action import StopOutcome
from costguard.model.delivery.message import DigestLine
from costguard.model.duration import elapsed, span_text
from costguard.model.instance import InstanceKey, noun_of
from costguard.model.lifetime import Lifetime
from costguard.model.moments import moment_text
from costguard.model.money import ZERO, Money, Priced, priced_text, rate_text
from costguard.model.utilisation import Evidence, IdleState
from costguard.model.words import count_text, list_text
from costguard.reminders import watched_rows
from costguard.reminders.pools import pool_of
from costguard.reminders.watched import Pool
from costguard.reminders.watched_rows import WatchedRow
from costguard.spend import budgets, enforcements
from costguard.spend.budget import Standing
from costguard.spend.spend import Spend

SHOWN = 5
_METHOD = "estimate: the VM's rate until it ran again, at most 24 h"
Section = tuple[str, tuple[DigestLine, ...]]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Running:
    """A VM that runs, and what its machine costs an hour; None: it has no price."""

    row: WatchedRow
    started_at: datetime
    rate: Money | None
    idle: Evidence | None

    @property
    def pool(self) -> Pool | None:
        return pool_of(self.row.key, self.row.keeper)


@dataclass(frozen=True, slots=True)
class RunningFleet:
    """The running VMs, the most expensive first, after those that cannot be priced."""

    running: tuple[_Running, ...]
    accrual: Accrual
    rules: Rules

    @classmethod
    def read(cls, connection: Connection, accrual: Accrual, rules: Rules) -> RunningFleet:
        idle = utilisation.idle_runs(connection, accrual.now)
        running = [
            _Running(row, row.started_at, accrual.rate(row.shape, row.zone, row.provisioning_model), idle.get(row.key))
            for row in watched_rows.read(connection)
            if row.started_at is not None
        ]
        running.sort(key=lambda vm: _rank([vm]))
        return cls(tuple(running), accrual, rules)

    def headline(self) -> str:
        idle = [vm for vm, _ in self._idle()]
        counted = count_text(len(self.running), noun_of(vm.row.key.kind for vm in self.running))
        text = f"{counted} {'is' if len(self.running) == 1 else 'are'} running now"
        if not self.running:
            return "Nothing is running now."
        return f"{text} at {_rate_of(self.running)}" + (
            f"; {len(idle)} idle, at {_rate_of(idle)}." if idle else "; none is known to be idle."
        )

    def idlers(self) -> tuple[DigestLine, ...]:
        def line(vms: Sequence[_Running]) -> DigestLine:
            wasted, since, sentence = Priced(), self.accrual.now, ""
            for vm in vms:
                assert vm.idle is not None  # they are the idle ones
                wasted += self._cost_since(vm, max(vm.idle.since, vm.started_at))
                since = min(since, vm.idle.since)
                sentence = f"; {vm.idle.sentence}"
            for_ = f"{_up_to(vms)}{span_text(elapsed(since, self.accrual.now))}"
            remark = f"{_whose(vms)}, idle for {for_}, {_cost(wasted)} wasted{sentence if len(vms) == 1 else ''}"
            return self._line(vms, remark)

        return self._top([vm for vm, _ in self._idle()], line)

    def past_limits(self) -> tuple[DigestLine, ...]:
        over = {
            vm.row.key: (limit, self.accrual.now - vm.started_at - limit)
            for vm in self.running
            if (limit := self._limit(vm)) is not None and self.accrual.now - vm.started_at > limit
        }

        def line(vms: Sequence[_Running]) -> DigestLine:
            limit, longest = max((over[vm.row.key] for vm in vms), key=itemgetter(1))
            what = f"the {span_text(limit)} of preset {vms[0].row.preset}" if len(vms) == 1 else "their limits"
            return self._line(vms, f"{_whose(vms)}, past {what} by {_up_to(vms)}{span_text(longest)}")

        return self._top([vm for vm in self.running if vm.row.key in over], line)

    def unclaimed(self) -> tuple[DigestLine, ...]:
        def line(vms: Sequence[_Running]) -> DigestLine:
            age = span_text(elapsed(min(vm.started_at for vm in vms), self.accrual.now))
            return self._line(vms, f"running for {_up_to(vms)}{age} in {vms[0].row.key.project}")

        return self._top([vm for vm in self.running if not vm.row.owner], line)

    def _top(self, vms: Sequence[_Running], line: Callable[[Sequence[_Running]], DigestLine]) -> tuple[DigestLine, ...]:
        """Lists VMs, the most expensive first; those of a pool, which only stops as a whole, in one line."""
        pools: dict[Pool | InstanceKey, list[_Running]] = {}
        for vm in vms:
            pools.setdefault(vm.pool or vm.row.key, []).append(vm)
        return _top(sorted(pools.values(), key=_rank), line, len)

    def _line(self, vms: Sequence[_Running], remark: str) -> DigestLine:
        (vm, *others), pool = vms, vms[0].pool
        if not others or vm.row.keeper is None:
            return DigestLine(vm.row.name, _hourly(vm.rate), remark)
        in_all = sum(one.pool == pool for one in self.running)
        count = f"{len(vms)} of {count_text(in_all, 'VM')}" if len(vms) < in_all else count_text(in_all, "VM")
        rates = [one.rate for one in vms if one.rate is not None]
        gap = " plus unpriced VMs" if 0 < len(rates) < len(vms) else ""
        rate = f"{_hourly(sum(rates, ZERO) if rates else None)}{gap}"
        return DigestLine(f"{count} of {vm.row.keeper.whose}", rate, remark)

    def _idle(self) -> list[tuple[_Running, Evidence]]:
        return [(vm, vm.idle) for vm in self.running if vm.idle is not None and vm.idle.state is IdleState.IDLE]

    def _limit(self, vm: _Running) -> timedelta | None:
        preset = self.rules.presets.get(vm.row.preset)
        return None if preset is None else preset.limit

    def _cost_since(self, vm: _Running, since: datetime) -> Priced:
        row = vm.row
        run = Lifetime(row.key, vm.started_at, row.shape, row.provisioning_model, row.zone)
        bill = self.accrual.bill(run, since)
        return Priced(bill.amount, not bill.unpriced)


def spent_on(current: Spend, before: Spend | None) -> tuple[DigestLine, ...]:
    """A line a group, with what it was before where that is known."""
    earlier = {row.group: row.amounts.total for row in before.rows} if before is not None else None
    lines = []
    for row in current.rows[:SHOWN]:
        gap = f"and {count_text(row.unpriced, 'run or disk', 'runs and disks')} without a price" if row.unpriced else ""
        was = f"{earlier.get(row.group, ZERO)} before" if earlier is not None else ""
        lines.append(
            DigestLine(row.group[0] or "unclaimed", str(row.amounts.total), ", ".join(filter(None, (was, gap))))
        )
    rest = current.rows[SHOWN:]
    if rest:
        amount = sum((row.amounts.total for row in rest), ZERO)
        lines.append(DigestLine(f"{len(rest)} more", str(amount)))
    return tuple(lines)


def standing(connection: Connection, accrual: Accrual, rules: Rules) -> tuple[DigestLine, ...]:
    """Every budget in its present period."""
    return tuple(_budget_line(status) for status in budgets.standings(connection, accrual, rules.budgets, rules.teams))


def stopped(
    connection: Connection, book: PriceBook, now: datetime, since: datetime, until: datetime, *, is_shadow: bool
) -> Iterator[Section]:
    """Lists the stops; also those that rules would have made, where they are in shadow or were so."""
    report = enforcements.enforcements(connection, book, now, since, until)
    done = [stop for stop in report.stops if stop.stop.outcome is StopOutcome.DONE]
    total = f", {_cost(report.saved)} saved ({_METHOD})" if done else ""
    yield f"Stopped{total}", _top(done, _stop_line)
    if is_shadow or report.shadows:
        would = f", saving {_cost(report.would_have_saved)}" if report.shadows else ""
        yield f"Would have been stopped{would}", _top(report.shadows, _shadow_line)


def kept(connection: Connection, since: datetime, until: datetime, time_zone: str) -> tuple[DigestLine, ...]:
    zone = ZoneInfo(time_zone)

    def line(keep: KeptRow) -> DigestLine:
        return DigestLine(
            keep.name,
            f"until {moment_text(keep.until, zone)}",
            f"by {keep.by}{f': {keep.reason}' if keep.reason else ''}",
        )

    return _top(kept_between(connection, since, until), line)


def not_known(connection: Connection, unpriced: Sequence[UnpricedSpan]) -> Iterator[Section]:
    """Lists what has no price and what could not be read: a section only where there is something."""
    gaps = list({(gap.key, gap.reason): gap for gap in unpriced}.values())
    if gaps:
        yield (
            "Not priced, and not included above",
            _top(gaps, lambda gap: DigestLine(gap.name, "unpriced", gap.reason)),
        )
    unread = [(look.project, part) for look in projects.read_all(connection) for part in look.unread]
    if unread:
        yield "Not read", _top(unread, lambda one: DigestLine(f"{one[0]}, {one[1].scope}", one[1].code, one[1].reason))


def _cost(priced: Priced) -> str:
    return priced_text(priced, nothing="an amount without a price")


def _hourly(rate: Money | None) -> str:
    return "unpriced" if rate is None else f"{rate_text(rate)}/h"


def _budget_line(status: Standing) -> DigestLine:
    outlook = status.outlook
    spent = f"{outlook.spent} of {status.budget.limit} ({status.percent}%)"
    end = f"{status.forecast_text} by the end of the {status.budget.period.value}"
    gap = (
        f"; {count_text(outlook.unpriced, 'run or disk', 'runs and disks')} without a price" if outlook.unpriced else ""
    )
    paid = f"; {outlook.downloads} of it for jobs' inputs, on another cloud's bill" if outlook.downloads else ""
    return DigestLine(status.budget.name, f"{spent}{paid}", f"{end}{gap}")


def _stop_line(report: enforcements.StopReport) -> DigestLine:
    row = report.stop
    who = f"requested by {row.asked_by}" if row.asked_by else row.reason
    saved = report.saving.amount if report.saving is not None else Priced(whole=False)
    return DigestLine(row.name, _cost(saved), f"{row.owner or 'unclaimed'}, {who}")


def _shadow_line(report: enforcements.ShadowReport) -> DigestLine:
    row, saving = report.stop, report.saving
    amount = _cost(saving.amount) if saving is not None else "unpriced"
    whole = saving.in_all if saving is not None else None
    more = f"; it has cost {_cost(whole)} since" if saving is not None and whole not in (None, saving.amount) else ""
    return DigestLine(row.name, amount, f"{row.owner or 'unclaimed'}, {row.reason}{more}")


def _top(
    items: Sequence[_T], line: Callable[[_T], DigestLine], size: Callable[[_T], int] = lambda _: 1
) -> tuple[DigestLine, ...]:
    """Lists the first items, and says how many are left out; `size`: how many VMs an item is."""
    lines = [line(item) for item in items[:SHOWN]]
    if len(items) > SHOWN:
        lines.append(DigestLine(f"{sum(map(size, items[SHOWN:]))} more", ""))
    return tuple(lines)


def _rank(vms: Sequence[_Running]) -> tuple[bool, int, str]:
    """Ranks VMs: unpriced ones first, then the most expensive."""
    rates = [vm.rate for vm in vms]
    return None not in rates, -sum(rate.nanos for rate in rates if rate is not None), vms[0].row.name


def _whose(vms: Sequence[_Running]) -> str:
    return list_text(sorted({vm.row.owner or "unclaimed" for vm in vms}))


def _up_to(vms: Sequence[_Running]) -> str:
    return "up to " if len(vms) > 1 else ""


def _rate_of(vms: Sequence[_Running]) -> str:
    total = sum((vm.rate for vm in vms if vm.rate is not None), ZERO)
    return f"{rate_text(total)} an hour{' plus unpriced VMs' if any(vm.rate is None for vm in vms) else ''}"


@dataclass(frozen=True, slots=True)
class KeptRow:
    key: InstanceKey
    name: str
    by: str
    at: datetime
    until: datetime
    reason: str


def kept_between(connection: Connection, since: datetime, until: datetime) -> list[KeptRow]:
    """Keeps that were given in [since, until), the latest first."""
    columns = keeps.c
    query = (
        select(
            instances.c.project,
            instances.c.gce_id,
            instances.c.name,
            columns.by,
            columns.at,
            columns.until,
            columns.reason,
        )
        .join_from(keeps, instances, instances.c.id == columns.instance_id)
        .where(columns.at >= since, columns.at < until)
        .order_by(columns.at.desc(), columns.id.desc())
    )
    return [
        KeptRow(InstanceKey(row.project, row.gce_id), row.name, row.by, row.at, row.until, row.reason)
        for row in connection.execute(query)
    ]
