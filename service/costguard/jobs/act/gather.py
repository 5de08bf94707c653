"""Reads what decisions about jobs are based on, in a few queries for all jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from costguard.isolation import Isolated
from costguard.jobs.act import job_vms, unknown_vms
from costguard.jobs.act.job_vms import SeenVm
from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.jobs.decide.view import AttemptView, CommonCeiling, JobView, VmState
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.gang import gang_rows, placement_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.instance import InstanceKey
from costguard.model.job import Job
from costguard.model.money import ZERO
from costguard.spend import downloads, job_costs, vm_time

Ceilings = Callable[[Connection, Accrual, Sequence[Job], datetime], Mapping[str, CommonCeiling]]
Holds = Callable[[Connection, Sequence[Job], datetime], Mapping[str, BudgetHold]]

_EVERYTHING = "*"

log = structlog.get_logger(__name__)


def views(
    connection: Connection,
    accrual: Accrual,
    job_ids: Collection[str],
    unread: Mapping[str, frozenset[str]],
    holds: Holds,
    now: datetime,
    ceilings: Ceilings = lambda *_: {},
) -> tuple[list[JobView], list[str]]:
    """These jobs, the oldest first; and what is wrong with those that cannot be read, which stop no other.

    `unread` are the zones of each project that its last look could not read.
    """
    # An error of the database concerns all jobs; within a transaction it is still the driver's.
    with Isolated("job_not_read", passing=DBAPIError, job=min(job_ids, default=""), together=len(job_ids)) as failure:
        return _views(connection, accrual, job_ids, unread, holds, ceilings, now), []
    if len(job_ids) == 1:
        return [], [f"Job {next(iter(job_ids))} cannot be read ({failure.words})."]
    job_views: list[JobView] = []
    unreadable: list[str] = []
    for job_id in sorted(job_ids):
        one, wrong = views(connection, accrual, [job_id], unread, holds, now, ceilings)
        job_views += one
        unreadable += wrong
    return job_views, unreadable


def _views(
    connection: Connection,
    accrual: Accrual,
    job_ids: Collection[str],
    unread: Mapping[str, frozenset[str]],
    holds: Holds,
    ceilings: Ceilings,
    now: datetime,
) -> list[JobView]:
    jobs = sorted(job_rows.of_ids(connection, job_ids).values(), key=lambda job: (job.created_at, job.id))
    ids = [job.id for job in jobs]
    tried = attempts.of_jobs(connection, ids)
    interrupted = interruptions.of_jobs(connection, ids)
    rounds = gang_rows.rounds_of(connection, jobs)
    policies = placement_rows.of_jobs(connection, jobs)
    looks = job_rows.checkpoint(connection, ids)
    open_jobs = [job for job in jobs if not job.state.is_over]
    held = holds(connection, open_jobs, now)
    ready = {job_id: next((one for one in some if one.stands_by), None) for job_id, some in tried.items()}
    standings = _standings(connection, [one for some in tried.values() for one in some], unread)
    strange = unknown_vms.holds(connection, jobs)
    costs = job_costs.costs(connection, accrual, ids)
    downloading = [job for job in jobs if job.spec.download_cost]
    paid = downloads.of_jobs(connection, [job.id for job in downloading])
    ahead = downloads.of_all_next(connection, downloading)
    ran = vm_time.of_jobs(connection, [job.id for job in jobs if job.spec.max_vm_time is not None], now)
    common = ceilings(connection, accrual, open_jobs, now)
    return [
        JobView(
            job=job,
            attempts=tuple(
                AttemptView(one, standings.get(one.id)) for one in tried.get(job.id, ()) if one is not ready[job.id]
            ),
            interruptions=tuple(interrupted.get(job.id, ())),
            rounds=tuple(rounds.get(job.id, ())),
            policies=tuple(policies.get(job.id, ())),
            cost=costs[job.id],
            vm_time=ran.get(job.id, timedelta()),
            downloads=paid.get(job.id, ZERO),
            next_downloads=ahead.get(job.id),
            checkpoint=looks.get(job.id),
            hold=held[job.id].hold if job.id in held else "",
            pause=held[job.id].pause if job.id in held else "",
            pause_at=held[job.id].pause_at if job.id in held else None,
            unknown=strange.get(job.id, ""),
            common=common.get(job.id),
            standby=None if (one := ready.get(job.id)) is None else AttemptView(one, standings.get(one.id)),
            budget_left=held[job.id].left if job.id in held else None,
            budget_name=held[job.id].left_of if job.id in held else "",
        )
        for job in jobs
    ]


def _has_vm(one: Attempt) -> bool:
    return one.gce_id != "" and one.state is not AttemptState.OVER


def _standings(
    connection: Connection, tried: Sequence[Attempt], unread: Mapping[str, frozenset[str]]
) -> dict[int, VmState]:
    """The VMs of live attempts, by attempt; those that the ledger has not seen are left out."""
    keys = {one.id: InstanceKey(one.project, one.gce_id) for one in tried if _has_vm(one)}
    if not keys:
        return {}
    seen = job_vms.of_keys(connection, set(keys.values()))
    return {
        attempt_id: _standing(seen[key], unread.get(key.project, frozenset()))
        for attempt_id, key in keys.items()
        if key in seen
    }


def _standing(vm: SeenVm, blind: frozenset[str]) -> VmState:
    return VmState(
        status=vm.status,
        is_known=vm.zone not in blind and _EVERYTHING not in blind,
        gone_at=vm.gone_at,
        ended_at=vm.ended_at,
        end_reason=vm.end_reason,
        ended_by=vm.ended_by,
        started_at=vm.started_at,
    )
