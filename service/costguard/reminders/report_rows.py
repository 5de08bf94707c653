"""Reads what a report of a span is made from: the runs of the ledger, and their reminders, answers and stops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.access.rules import Rules
from costguard.db.tables import events, instances, lifetimes
from costguard.ledger import answers, projects
from costguard.ledger.accrual import book_of
from costguard.ledger.idle import gpu_use, utilisation
from costguard.ledger.rows import lifetime_of
from costguard.model.action import StopOutcome
from costguard.model.instance import InstanceKey, Status
from costguard.model.lifetime import Lifetime
from costguard.model.moments import day_start
from costguard.model.reminder import Subject, SubjectKind
from costguard.model.utilisation import Evidence, IdleState
from costguard.reminders import gather, message_rows, report, slack_accounts, stop_rows
from costguard.reminders.report import FleetReport, ReportedRun, ReportedVm, ReportMaker, RuleOutcome, ShadowStop
from costguard.reminders.watched import WatchedVm
from costguard.spend.enforcements import StopReport, enforcements

MOST_DAYS = 366
_DAY = timedelta(days=1)


def fleet_report(connection: Connection, rules: Rules, now: datetime, days: int) -> FleetReport:
    """Reports since watching began, at most on the last `days` UTC days, today's part included."""
    looks = projects.read_all(connection)
    first = projects.first_watched_at(connection)
    since = max(first or now, day_start(now.date() - timedelta(days=days - 1)))
    book = book_of(connection)
    maker = ReportMaker(rules, slack_accounts.of_addresses(connection, None), book, since, now)
    decided = enforcements(connection, book, now, since, now)
    stopped = [stop for stop in decided.stops if stop.saving is not None and not stop.stop.asked_by]
    shadowed = {shadow.stop.subject for shadow in decided.shadows}
    going_on = _going_on(connection, rules, now)
    ended = _ended(connection, rules, since, now, shadowed, {stop.stop.subject for stop in stopped})
    reported = [vm for one in (*going_on, *ended) if (vm := maker.vm(one)) is not None]
    vms = report.in_order([*(_stopped(stop, maker) for stop in stopped), *reported])
    there = {vm.key for vm in reported if vm.ended_at is None}
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


def _stopped(done: StopReport, maker: ReportMaker) -> ReportedVm:
    row, run = done.stop, done.stop.run
    assert run is not None  # else there is no saving
    assert run.ended_at is not None
    due_at = _due_at(row.evidence, row.intended_at)
    return ReportedVm(
        key=row.key,
        name=row.name,
        zone=row.zone,
        preset=row.preset,
        owner=row.owner,
        asks=row.owner,
        step=RuleOutcome.STOPPED,
        why=row.reason,
        due_at=due_at,
        stop_at=run.ended_at,
        ended_at=run.ended_at,
        reminders=row.reminders,
        rate=done.rate.amount if done.rate is not None and done.rate.whole else None,
        due_cost=maker.cost(run, due_at, run.ended_at),
        saved=None if done.saving is None else done.saving.amount,
    )


def _due_at(evidence: Mapping[str, Any], otherwise: datetime) -> datetime:
    due_at = evidence.get("due_at")
    return datetime.fromisoformat(due_at) if isinstance(due_at, str) else otherwise


def _going_on(connection: Connection, rules: Rules, now: datetime) -> list[ReportedRun]:
    """The runs of all VMs that run, with what is measured of them."""
    vms = [vm for vm in gather.gather(connection, rules, now) if vm.running_since is not None and not vm.is_gone]
    columns = lifetimes.c
    rows = connection.execute(select(lifetimes).where(columns.ended_at.is_(None))).all()
    open_runs = {row.id: row for row in rows}
    measured = utilisation.of_instances(connection, [vm.instance_id for vm in vms], now)
    shadows = _shadows(connection, [Subject(SubjectKind.RUN, vm.instance_id, vm.lifetime_id) for vm in vms])
    return [
        ReportedRun(
            vm,
            lifetime_of(vm.key, open_runs[vm.lifetime_id]),
            shadows.get(vm.lifetime_id),
            measured[vm.instance_id].evidence if vm.instance_id in measured else None,
        )
        for vm in vms
    ]


def _shadows(connection: Connection, subjects: Collection[Subject]) -> dict[int, ShadowStop]:
    """Returns the first stop that shadow mode recorded of each of these runs, by the lifetime."""
    recorded = stop_rows.of_subjects(connection, subjects)
    return {
        subject.lifetime_id: ShadowStop(one.intended_at, _due_at(one.evidence, one.intended_at), one.reason)
        for subject, stops in recorded.items()
        for one in [stop for stop in stops if stop.outcome is StopOutcome.SHADOW][:1]
    }


def _ended(
    connection: Connection,
    rules: Rules,
    since: datetime,
    now: datetime,
    shadowed: Collection[Subject],
    without: Collection[Subject],
) -> list[ReportedRun]:
    """The runs that ended in [since, now) and may have been due: past a limit, idle, or to be stopped in shadow."""
    columns, vm = lifetimes.c, instances.c
    query = (
        select(lifetimes, vm.gce_id, vm.name, vm.labels, vm.origin, vm.preset.label("of_preset"))
        .add_columns(vm.owner.label("of_owner"), vm.job.label("of_job"))
        .join_from(lifetimes, instances, vm.id == columns.instance_id)
        .where(columns.ended_at >= since, columns.ended_at < now)
    )
    idle = _idle_at_end(connection, since, now)
    chosen: dict[Subject, tuple[Row[Any], Lifetime, Evidence | None]] = {}
    for row in connection.execute(query):
        subject = Subject(SubjectKind.RUN, row.instance_id, row.id)
        run = lifetime_of(InstanceKey(row.project, row.gce_id), row)
        evidence = _last_before(idle.get(row.gce_id, ()), run)
        if subject not in without and (evidence or subject in shadowed or _was_late(run, rules, row.of_preset)):
            chosen[subject] = row, run, evidence
    shadows, kept = _shadows(connection, list(chosen)), answers.keeps_of(connection, list(chosen))
    sent = message_rows.sent_of(connection, list(chosen))
    claims = answers.claims_of(connection, sorted({subject.instance_id for subject in chosen}))
    return [
        ReportedRun(
            WatchedVm(
                key=run.key,
                name=row.name,
                zone=run.zone,
                status=Status.RUNNING,
                preset=row.of_preset,
                running_since=run.started_at,
                age_from=run.age_from,
                idle=evidence,
                instance_id=subject.instance_id,
                lifetime_id=subject.lifetime_id,
                labels=row.labels,
                origin=row.origin,
                owner=row.of_owner,
                job=row.of_job,
                sent=sent.get(subject, ()),
                keeps=kept.get(subject, ()),
                claims=tuple(one for one in claims.get(subject.instance_id, ()) if one.at >= run.counts_from),
            ),
            run,
            shadows.get(subject.lifetime_id),
        )
        for subject, (row, run, evidence) in chosen.items()
    ]


def _was_late(run: Lifetime, rules: Rules, name: str) -> bool:
    preset = rules.presets.get(name)
    assert run.ended_at is not None  # it is over
    return preset is not None and preset.limit is not None and run.ended_at - run.counts_from >= preset.limit


def _idle_at_end(connection: Connection, since: datetime, now: datetime) -> dict[str, list[Evidence]]:
    """Returns what was recorded of VMs that became idle or busy, by the VM's id, the latest last; idle since before the
    span counts, by a day.
    """
    columns = events.c
    query = select(columns.gce_id, columns.kind, columns.occurred_at, columns.data).where(
        columns.kind.in_(("InstanceIdle", "InstanceBusy")), columns.occurred_at.between(since - _DAY, now)
    )
    by_vm: dict[str, list[Evidence]] = defaultdict(list)
    for row in connection.execute(query.order_by(columns.occurred_at, columns.id)):
        state = IdleState.IDLE if row.kind == "InstanceIdle" else IdleState.BUSY
        began = row.data.get("since")
        at = datetime.fromisoformat(began) if isinstance(began, str) else row.occurred_at
        by_vm[row.gce_id].append(Evidence(state, at, "", bool(row.data.get("is_weak"))))
    return by_vm


def _last_before(states: Sequence[Evidence], run: Lifetime) -> Evidence | None:
    """Returns the last state within the run, where that is idle."""
    assert run.ended_at is not None  # it is over
    inside = [one for one in states if run.started_at <= one.since < run.ended_at]
    return inside[-1] if inside and inside[-1].state is IdleState.IDLE else None
