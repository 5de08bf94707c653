"""Reads what decisions about sweeps are based on, in a few queries for all of them, and jobs' shares in ceilings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, select, text

from costguard.db import tables
from costguard.db.bulk import chunks
from costguard.db.tables import LIVE_ATTEMPT
from costguard.jobs.decide.limits.ceiling import LEAST_RUN
from costguard.jobs.decide.view import CommonCeiling
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import AttemptState
from costguard.model.job import Job
from costguard.model.money import ZERO, Money, Priced
from costguard.spend import downloads
from costguard.sweeps import gather, sweep_rows
from costguard.sweeps.ceiling import CeilingUse, Reservation, shares
from costguard.sweeps.decide import MemberView, SweepView, launchable
from costguard.sweeps.member_curves import curves_of

_NOTHING = timedelta()
# A stopped VM costs its disk alone, and that is counted as it accrues.
_MAY_RUN = frozenset(
    {
        AttemptState.INTENDED,
        AttemptState.ASKED,
        AttemptState.WAITING,
        AttemptState.BOOTING,
        AttemptState.RUNNING,
        AttemptState.RESTARTING,
        AttemptState.ENDING,
    }
)


def views(connection: Connection, accrual: Accrual, sweep_ids: Sequence[str]) -> dict[str, SweepView]:
    """Returns views of those sweeps that exist."""
    sweeps = sweep_rows.of_ids(connection, sweep_ids)
    members = sweep_rows.members(connection, list(sweeps))
    tried = {sweep_id: [job_id for member in some for job_id in member.jobs] for sweep_id, some in members.items()}
    states = sweep_rows.states(connection, [member.job_id for some in members.values() for member in some])
    costs = job_costs.costs(connection, accrual, [job_id for some in tried.values() for job_id in some])
    limited = {job_id for sweep_id, some in tried.items() if sweeps[sweep_id].ceiling is not None for job_id in some}
    reserved = reservations(connection, limited, accrual.now)
    paid = downloads.of_jobs(connection, limited)
    rates = _least_rates(connection, limited)
    result = {}
    for sweep_id, sweep in sweeps.items():
        ids = tried[sweep_id]
        cost = sum((costs[job_id] for job_id in ids), start=Priced())
        use = None
        if sweep.ceiling is not None:
            mine = [one for job_id in ids for one in reserved.get(job_id, ())]
            spent = sum((paid[job_id] for job_id in ids if job_id in paid), cost.amount)
            use = CeilingUse(sweep.ceiling, spent, mine)
        hourly = [rates[job_id] for job_id in ids if job_id in rates]
        lines = tuple(MemberView(member, states.get(member.job_id)) for member in members[sweep_id])
        curves = curves_of(connection, sweep, members[sweep_id], accrual.now)
        result[sweep_id] = SweepView(sweep, lines, cost, use, min(hourly, default=None), curves)
    return result


def reservations(connection: Connection, job_ids: Collection[str], now: datetime) -> dict[str, list[Reservation]]:
    """Returns the amounts that VMs of these jobs may still cost, by job.

    A VM that is being deleted counts for ten minutes more, so that it is not forgotten where that hangs.
    """
    columns = tables.attempts.c
    wanted = (
        columns.job_id,
        columns.state,
        columns.rate_nanos,
        columns.max_run_s,
        columns.made_at,
        columns.booted_at,
        columns.heard_at,
    )
    result: dict[str, list[Reservation]] = {}
    yet_to_come = downloads.of_next_vms(connection, job_ids)
    live = select(*wanted).where(text(LIVE_ATTEMPT)).order_by(columns.id)  # few, and with an index of their own
    shared: set[str] = set()  # staged sources that one VM's reservation pays for, and no other's
    rows = (row for some in chunks(job_ids) for row in connection.execute(live.where(columns.job_id.in_(some))))
    for row in rows:
        state = AttemptState(row.state)
        if state not in _MAY_RUN:
            continue
        up = [moment for moment in (row.made_at, row.booted_at) if moment is not None]
        longest = timedelta(seconds=row.max_run_s)
        time_left = longest if not up else max(longest - (now - max(up)), _NOTHING)
        if state is AttemptState.ENDING:
            time_left = min(time_left, LEAST_RUN)
        rate = None if row.rate_nanos is None else Money(row.rate_nanos)
        has_paid = downloads.has_paid(row.heard_at) or state is AttemptState.ENDING
        ahead = None if has_paid else yet_to_come.get(row.job_id)
        download = ZERO if ahead is None else ahead.without(shared)
        shared.update(() if ahead is None else ahead.staged)
        result.setdefault(row.job_id, []).append(Reservation(row.job_id, rate, time_left, download))
    return result


def _least_rates(connection: Connection, job_ids: Collection[str]) -> dict[str, Money]:
    """The least that an hour of all VMs of each job was to cost; those whose price is not known are left out."""
    columns, of_job = tables.attempts.c, tables.jobs.c
    query = select(columns.job_id, columns.rate_nanos, of_job.spec["nodes"].as_integer().label("nodes"))
    priced = query.join_from(tables.attempts, tables.jobs, of_job.id == columns.job_id).where(
        columns.rate_nanos.is_not(None)
    )
    result: dict[str, Money] = {}
    for some in chunks(job_ids):
        for row in connection.execute(priced.where(columns.job_id.in_(some))):
            rate = Money(row.rate_nanos).times(row.nodes or 1)
            result[row.job_id] = min(result.get(row.job_id, rate), rate)
    return result


def common_ceilings(
    connection: Connection,
    accrual: Accrual,
    jobs: Sequence[Job],
    now: datetime,  # noqa: ARG001 the accrual has it
) -> Mapping[str, CommonCeiling]:
    """Returns shares by job; those without a sweep, or whose sweep has no ceiling, are left out."""
    wanted = {job.spec.sweep for job in jobs if job.spec.sweep}
    if not wanted:
        return {}
    result: dict[str, CommonCeiling] = {}
    for view in gather.views(connection, accrual, sorted(wanted)).values():
        if view.use is None:
            continue
        open_jobs = [one.job.id for one in view.open if one.job is not None]
        slots = len(open_jobs) + launchable(view)
        with_vm = {reservation.job_id for reservation in view.use.reservations}
        for job_id, share in shares(view.use, open_jobs, slots).items():
            result[job_id] = CommonCeiling(view.use.ceiling, share, may_grow=bool(with_vm - {job_id}))
    return result
