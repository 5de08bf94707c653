"""Stops as reports tell of them: with the VM, the run that was or would have been stopped, and what came after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.db.bulk import chunks
from costguard.db.tables import instances, lifetimes, messages, requests, stops
from costguard.ledger.rows import lifetime_of
from costguard.model.action import StopOutcome
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Lifetime
from costguard.model.reminder import Subject


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
