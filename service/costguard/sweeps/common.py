"""Computes the shares of jobs in the common ceilings of sweeps, for the jobs' turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.jobs.decide.view import CommonCeiling
from costguard.ledger.accrual import Accrual
from costguard.model.job import Job
from costguard.sweeps import gather
from costguard.sweeps.ceiling import shares
from costguard.sweeps.decide import launchable


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
