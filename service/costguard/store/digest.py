"""Reading what digests, notices and reports of enforcement tell of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select

from costguard.model.action import StopOutcome
from costguard.model.fact import Fact
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Lifetime
from costguard.model.reminder import Subject
from costguard.store.accruing import chunks
from costguard.store.rows import lifetime_of
from costguard.store.tables import facts, instances, keeps, lifetimes, messages, requests, stops

_LATE = timedelta(days=2)  # what a fact tells of may have happened some time before it was recorded


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
    verb: str
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


@dataclass(frozen=True, slots=True)
class KeptRow:
    key: InstanceKey
    name: str
    by: str
    at: datetime
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class MessageFilters:
    subject: str | None = None
    gce_id: str | None = None
    status: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message with its VM's name, which is "" for one that is about no VM."""

    id: int
    key: str
    kind: str
    status: str
    subject: str
    project: str
    gce_id: str
    name: str
    cycle: int
    stage: int
    target: str
    address: str
    intended_at: datetime
    try_after: datetime
    attempts: int
    accepted_at: datetime | None
    error: str


def messages_page(
    connection: Connection, filters: MessageFilters, before_id: int | None, limit: int
) -> list[MessageRow]:
    """Those that were intended last, first; `before_id` goes on after a page."""
    own = [messages.c[name] for name in MessageRow.__slots__ if name in messages.c]
    vm = [func.coalesce(instances.c[name], "").label(name) for name in ("project", "gce_id", "name")]
    query = select(*own, *vm).join_from(messages, instances, instances.c.id == messages.c.instance_id, isouter=True)
    wanted = (
        (messages.c.subject, filters.subject),
        (instances.c.gce_id, filters.gce_id),
        (messages.c.status, filters.status),
        (messages.c.kind, filters.kind),
    )
    query = query.where(*(column == value for column, value in wanted if value is not None))
    if before_id is not None:
        query = query.where(messages.c.id < before_id)
    rows = connection.execute(query.order_by(messages.c.id.desc()).limit(limit))
    return [MessageRow(**row._mapping) for row in rows]


def known(connection: Connection, keys: Collection[str]) -> set[str]:
    """Those of these messages that were intended, whatever became of them."""
    return {
        key
        for chunk in chunks(keys)
        for key in connection.execute(select(messages.c.key).where(messages.c.key.in_(chunk))).scalars()
    }


def recorded_since(connection: Connection, kinds: Collection[str], since: datetime) -> list[tuple[datetime, Fact]]:
    """Facts of these kinds with when they were recorded, the oldest first."""
    of = facts.c
    query = select(facts).where(of.kind.in_(kinds), of.occurred_at >= since - _LATE, of.recorded_at >= since)
    return [(row.recorded_at, _fact(row)) for row in connection.execute(query.order_by(of.id))]


def facts_by_key(connection: Connection, keys: Collection[str]) -> list[Fact]:
    """In the order in which they were recorded."""
    query = select(facts).where(facts.c.key.in_(list(keys))).order_by(facts.c.id)
    return [_fact(row) for row in connection.execute(query)]


def kept_between(connection: Connection, since: datetime, until: datetime) -> list[KeptRow]:
    """Keeps that were given in [since, until), the latest first."""
    of = keeps.c
    query = (
        select(instances.c.project, instances.c.gce_id, instances.c.name, of.by, of.at, of.until, of.reason)
        .join_from(keeps, instances, instances.c.id == of.instance_id)
        .where(of.at >= since, of.at < until)
        .order_by(of.at.desc(), of.id.desc())
    )
    return [
        KeptRow(InstanceKey(row.project, row.gce_id), row.name, row.by, row.at, row.until, row.reason)
        for row in connection.execute(query)
    ]


def stops_between(connection: Connection, since: datetime, until: datetime) -> list[StopRow]:
    """All that were decided in [since, until), the latest first."""
    of, vm = stops.c, instances.c
    query = (
        select(stops, vm.project, vm.gce_id, vm.name, vm.zone, vm.preset, vm.owner, requests.c.by)
        .join_from(stops, instances, vm.id == of.instance_id)
        .outerjoin(requests, requests.c.id == of.request_id)
        .where(of.intended_at >= since, of.intended_at < until)
        .order_by(of.intended_at.desc(), of.id.desc())
    )
    found = list(connection.execute(query))
    subjects = {row.subject: Subject.parse(row.subject) for row in found}
    runs = _runs(connection, [subject.lifetime_id for subject in subjects.values()])
    starts = _starts(connection, {row.instance_id for row in found})
    warned = _accepted(connection, subjects)
    shadows = _shadows(connection, subjects)
    return [
        _stop(row, subjects[row.subject], runs, starts[row.instance_id], warned[row.subject], shadows[row.subject])
        for row in found
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
        verb=row.verb,
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
        ran_again_at=next((each for each in starts if run and run.ended_at and each >= run.ended_at), None),
        again_at=next((each for each in shadows if each > row.intended_at), None),
    )


def _runs(connection: Connection, ids: Collection[int]) -> dict[int, Row[Any]]:
    return {
        row.id: row
        for chunk in chunks(ids)
        for row in connection.execute(select(lifetimes).where(lifetimes.c.id.in_(chunk)))
    }


def _starts(connection: Connection, instance_ids: Collection[int]) -> dict[int, list[datetime]]:
    """When the runs of each of these VMs began, the first first."""
    of = lifetimes.c
    found: dict[int, list[datetime]] = defaultdict(list)
    for chunk in chunks(instance_ids):
        query = select(of.instance_id, of.started_at).where(of.instance_id.in_(chunk)).order_by(of.started_at)
        for row in connection.execute(query):
            found[row.instance_id].append(row.started_at)
    return found


def _accepted(connection: Connection, subjects: Collection[str]) -> dict[str, list[tuple[datetime, int, int]]]:
    of = messages.c
    found: dict[str, list[tuple[datetime, int, int]]] = defaultdict(list)
    for chunk in chunks(subjects):
        query = select(of.subject, of.accepted_at, of.cycle, of.stage).where(
            of.subject.in_(chunk), of.kind == "reminder", of.accepted_at.is_not(None)
        )
        for row in connection.execute(query):
            found[row.subject].append((row.accepted_at, row.cycle, row.stage))
    return found


def _shadows(connection: Connection, subjects: Collection[str]) -> dict[str, list[datetime]]:
    """When each was to be stopped in shadow, the first first."""
    of = stops.c
    found: dict[str, list[datetime]] = defaultdict(list)
    for chunk in chunks(subjects):
        query = select(of.subject, of.intended_at).where(of.subject.in_(chunk), of.outcome == StopOutcome.SHADOW.value)
        for row in connection.execute(query.order_by(of.intended_at)):
            found[row.subject].append(row.intended_at)
    return found


def _fact(row: Row[Any]) -> Fact:
    return Fact(
        key=row.key,
        kind=row.kind,
        occurred_at=row.occurred_at,
        text=row.text,
        project=row.project,
        gce_id=row.gce_id,
        name=row.name,
        actor=row.actor,
        data=row.data,
    )
