"""Reads the reminders of running VMs as tips: who stopped each, and when it ran again."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.db.bulk import chunks
from costguard.db.tables import instances, lifetimes, messages, requests, stops
from costguard.ledger.accrual import Accrual
from costguard.ledger.pricing import rate_per_hour
from costguard.ledger.rows import lifetime_of
from costguard.model.action import StopOutcome
from costguard.model.instance import InstanceKey, region_of
from costguard.model.lifetime import EndReason
from costguard.model.money import Money
from costguard.model.reminder import Subject, SubjectKind
from costguard.spend.tips.rules import RemindedRun, Tip, TipKind, judge_reminder


def reminder_tips(connection: Connection, accrual: Accrual, since: datetime, until: datetime) -> list[Tip]:
    """Returns a tip for each run of a VM whose first reminder was sent in [since, until)."""
    sent = _sent(connection, since, until)
    runs = {Subject.parse(subject).lifetime_id: subject for subject in sent}
    stopped = _stops(connection, sent)
    tips = []
    for some in chunks(runs):
        vm = instances.c
        query = select(lifetimes, vm.gce_id, vm.name).join(instances, vm.id == lifetimes.c.instance_id)
        rows = list(connection.execute(query.where(lifetimes.c.id.in_(some))))
        starts = _starts(connection, [row.instance_id for row in rows])
        for row in rows:
            subject = runs[row.id]
            asked_by, by_rule = stopped.get(subject, ("", False))
            again = (at for at in starts[row.instance_id] if row.ended_at is not None and at >= row.ended_at)
            run = RemindedRun(
                sent[subject],
                row.ended_at,
                None if row.end_reason is None else EndReason(row.end_reason),
                row.ended_by,
                asked_by,
                by_rule,
                next(again, None),
                _rate(accrual, row),
            )
            effect = f"job:{row.job}" if row.job else f"run:{row.id}"
            judged = judge_reminder(run, accrual.now)
            tips.append(Tip(TipKind.REMINDER, min(sent[subject]), row.name, row.owner, judged, effect))
    return tips


def _sent(connection: Connection, since: datetime, until: datetime) -> dict[str, list[datetime]]:
    """Returns the reminders that were delivered, by subject, of those whose first one is in [since, until)."""
    columns = messages.c
    is_reminder = (columns.kind == "reminder", columns.accepted_at.is_not(None))
    in_time = select(columns.subject).where(*is_reminder, columns.accepted_at >= since, columns.accepted_at < until)
    of_runs = columns.subject.startswith(f"{SubjectKind.RUN.value}:")
    subjects = set(connection.scalars(in_time.where(of_runs)))
    sent: defaultdict[str, list[datetime]] = defaultdict(list)
    for some in chunks(subjects):
        query = select(columns.subject, columns.accepted_at).where(*is_reminder, columns.subject.in_(some))
        for row in connection.execute(query):
            sent[row.subject].append(row.accepted_at)
    return {subject: moments for subject, moments in sent.items() if min(moments) >= since}


def _stops(connection: Connection, subjects: dict[str, list[datetime]]) -> dict[str, tuple[str, bool]]:
    """Returns who asked for the stop of each run, or that a rule made it; runs that Costguard stopped alone."""
    made: dict[str, tuple[str, bool]] = {}
    columns = stops.c
    query = select(columns.subject, columns.request_id, requests.c.by).outerjoin(
        requests, requests.c.id == columns.request_id
    )
    for some in chunks(subjects):
        wanted = query.where(columns.subject.in_(some), columns.outcome == StopOutcome.DONE.value)
        for row in connection.execute(wanted):
            made[row.subject] = (row.by or "", row.request_id is None)
    return made


def _starts(connection: Connection, instance_ids: list[int]) -> dict[int, list[datetime]]:
    """Returns when the runs of each of these VMs began, the first first."""
    columns = lifetimes.c
    starts: defaultdict[int, list[datetime]] = defaultdict(list)
    for some in chunks(set(instance_ids)):
        query = select(columns.instance_id, columns.started_at).where(columns.instance_id.in_(some))
        for row in connection.execute(query.order_by(columns.started_at)):
            starts[row.instance_id].append(row.started_at)
    return starts


def _rate(accrual: Accrual, row: Row[Any]) -> Money | None:
    run = lifetime_of(InstanceKey(row.project, row.gce_id), row)
    at = run.ended_at or accrual.now
    return rate_per_hour(run.shape, region_of(run.zone), run.provisioning_model, accrual.book, at)
