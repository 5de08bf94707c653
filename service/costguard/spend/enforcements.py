"""Stops and shadow stops with what each saved, for pages, API, digests and command line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.db.bulk import chunks
from costguard.db.tables import instances, lifetimes, messages, requests, stops
from costguard.ledger.billed.storage import MEMORY_RESOURCE
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import rate_per_hour, storage_rate_per_hour
from costguard.ledger.rows import lifetime_of
from costguard.model.action import StopOutcome
from costguard.model.instance import InstanceKey, region_of
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.money import Money, Priced
from costguard.model.reminder import Subject
from costguard.spend.savings import Saving, of_shadow, of_stop


@dataclass(frozen=True, slots=True)
class StopRow:
    """A stop that was begun, or would have been, with all that a report says of it.

    `ran_again_at` is the start of the VM's next run; `again_at` the next stop of this run that was not carried out.
    """

    id: int
    key: InstanceKey
    name: str
    zone: str
    preset: str
    owner: str
    subject: Subject
    rule: str
    reason: str
    evidence: Mapping[str, Any]
    reminder: str
    reminders: int  # stages that were accepted before it
    asked_by: str  # "" where a rule did
    outcome: StopOutcome
    intended_at: datetime
    error: str
    run: Lifetime | None
    ran_again_at: datetime | None
    again_at: datetime | None


def stops_between(connection: Connection, since: datetime, until: datetime) -> list[StopRow]:
    """All that were decided in [since, until), the latest first."""
    columns, vm = stops.c, instances.c
    query = (
        select(stops, vm.project, vm.gce_id, vm.name, vm.zone, vm.preset, vm.owner, requests.c.by)
        .join_from(stops, instances, vm.id == columns.instance_id)
        .outerjoin(requests, requests.c.id == columns.request_id)
        .where(columns.intended_at >= since, columns.intended_at < until)
        .order_by(columns.intended_at.desc(), columns.id.desc())
    )
    rows = list(connection.execute(query))
    subjects = {row.subject: Subject.parse(row.subject) for row in rows}
    runs = _runs(connection, [subject.lifetime_id for subject in subjects.values()])
    starts = _starts(connection, {row.instance_id for row in rows})
    warned = _accepted(connection, subjects)
    shadows = _shadows(connection, subjects)
    return [
        _stop(row, subjects[row.subject], runs, starts[row.instance_id], warned[row.subject], shadows[row.subject])
        for row in rows
    ]


def _stop(
    row: Row[Any],
    subject: Subject,
    runs: Mapping[int, Row[Any]],
    starts: Sequence[datetime],
    warned: Sequence[tuple[datetime, int, int]],
    shadows: Sequence[datetime],
) -> StopRow:
    key = InstanceKey(row.project, row.gce_id)
    run = lifetime_of(key, runs[subject.lifetime_id]) if subject.lifetime_id in runs else None
    return StopRow(
        id=row.id,
        key=key,
        name=row.name,
        zone=row.zone,
        preset=row.preset,
        owner=row.owner,
        subject=subject,
        rule=row.rule,
        reason=row.reason,
        evidence=row.evidence,
        reminder=row.reminder,
        reminders=len({(cycle, stage) for at, cycle, stage in warned if at <= row.intended_at}),
        asked_by=row.by or "",
        outcome=StopOutcome(row.outcome),
        intended_at=row.intended_at,
        error=row.error,
        run=run,
        ran_again_at=next((start for start in starts if run and run.ended_at and start >= run.ended_at), None),
        again_at=next((shadow for shadow in shadows if shadow > row.intended_at), None),
    )


def _runs(connection: Connection, ids: Collection[int]) -> dict[int, Row[Any]]:
    return {
        row.id: row
        for chunk in chunks(ids)
        for row in connection.execute(select(lifetimes).where(lifetimes.c.id.in_(chunk)))
    }


def _starts(connection: Connection, instance_ids: Collection[int]) -> dict[int, list[datetime]]:
    """When the runs of each of these VMs began, the first first."""
    columns = lifetimes.c
    starts: dict[int, list[datetime]] = defaultdict(list)
    for chunk in chunks(instance_ids):
        query = (
            select(columns.instance_id, columns.started_at)
            .where(columns.instance_id.in_(chunk))
            .order_by(columns.started_at)
        )
        for row in connection.execute(query):
            starts[row.instance_id].append(row.started_at)
    return starts


def _accepted(connection: Connection, subjects: Collection[str]) -> dict[str, list[tuple[datetime, int, int]]]:
    columns = messages.c
    reminders: dict[str, list[tuple[datetime, int, int]]] = defaultdict(list)
    for chunk in chunks(subjects):
        query = select(columns.subject, columns.accepted_at, columns.cycle, columns.stage).where(
            columns.subject.in_(chunk), columns.kind == "reminder", columns.accepted_at.is_not(None)
        )
        for row in connection.execute(query):
            reminders[row.subject].append((row.accepted_at, row.cycle, row.stage))
    return reminders


def _shadows(connection: Connection, subjects: Collection[str]) -> dict[str, list[datetime]]:
    """When each was to be stopped in shadow, the first first."""
    columns = stops.c
    moments: dict[str, list[datetime]] = defaultdict(list)
    for chunk in chunks(subjects):
        query = select(columns.subject, columns.intended_at).where(
            columns.subject.in_(chunk), columns.outcome == StopOutcome.SHADOW.value
        )
        for row in connection.execute(query.order_by(columns.intended_at)):
            moments[row.subject].append(row.intended_at)
    return moments


@dataclass(frozen=True, slots=True)
class StopReport:
    """A stop that was begun. `rate` is what it took off, per hour; `saving` is None until the VM has stopped."""

    stop: StopRow
    rate: Priced | None
    saving: Saving | None


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """A stop that a rule would have made. `saving` is None where its run is not in the ledger."""

    stop: StopRow
    saving: Saving | None


@dataclass(frozen=True, slots=True)
class Enforcements:
    """All of a period, the latest first. Amounts are not whole where something in them has no price."""

    since: datetime
    until: datetime
    stops: tuple[StopReport, ...]
    shadows: tuple[ShadowReport, ...]

    @property
    def saved(self) -> Priced:
        return _sum(stop.saving.amount for stop in self.stops if stop.saving is not None)

    @property
    def would_have_saved(self) -> Priced:
        return _sum(shadow.saving.amount for shadow in self.shadows if shadow.saving is not None)

    @property
    def shadow_cost(self) -> Priced:
        """Returns the cost of runs after the moment at which they would have been stopped, without the bound of
        a day.
        """
        return _sum(
            shadow.saving.in_all for shadow in self.shadows if shadow.saving is not None and shadow.saving.in_all
        )


def enforcements(
    connection: Connection, book: PriceBook, now: datetime, since: datetime, until: datetime
) -> Enforcements:
    """Reports the stops decided in [since, until), with the savings by now."""
    rows = stops_between(connection, since, until)
    return Enforcements(
        since,
        until,
        tuple(_reported(row, book, now) for row in rows if row.outcome is not StopOutcome.SHADOW),
        tuple(_shadow(row, book, now) for row in rows if row.outcome is StopOutcome.SHADOW),
    )


def _reported(row: StopRow, book: PriceBook, now: datetime) -> StopReport:
    run = row.run
    if row.outcome is not StopOutcome.DONE or run is None or run.ended_at is None:
        return StopReport(row, None, None)
    rate = _rate(run, run.ended_at, book)
    return StopReport(
        row,
        Priced(whole=False) if rate is None else Priced(rate),
        of_stop(rate, run.ended_at, row.ran_again_at, now),
    )


def _shadow(row: StopRow, book: PriceBook, now: datetime) -> ShadowReport:
    return ShadowReport(row, None if row.run is None else of_shadow(row.run, row.intended_at, row.again_at, book, now))


def _rate(run: Lifetime, at: datetime, book: PriceBook) -> Money | None:
    """Returns the hourly cost of the VM without its disks, which go on billing, as the saved memory of a suspended VM
    does.
    """
    region = region_of(run.zone)
    rate = rate_per_hour(run.shape, region, run.provisioning_model, book, at)
    if rate is None or run.end_reason is not EndReason.SUSPENDED:
        return rate
    memory = storage_rate_per_hour(MEMORY_RESOURCE, run.shape.memory_mib, region, book, at)
    return None if memory is None else rate - memory


def _sum(amounts: Iterable[Priced]) -> Priced:
    return sum(amounts, Priced())
