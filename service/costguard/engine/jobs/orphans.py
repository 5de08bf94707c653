"""VMs of this installation that no live attempt stands for: they bill, and nobody would ever delete them."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.engine.acting.launch_delete import stands_for
from costguard.engine.jobs.boot import DISK_LABEL, GUARD_LABEL
from costguard.model.attempt import ATTEMPT_LABEL
from costguard.model.job import Job, JobState
from costguard.policy.jobs.kept_disk import saves_on_disk
from costguard.policy.jobs.view import DeleteOrphan
from costguard.store import attempts, job_vms, jobs
from costguard.store.attempts import JobVm
from costguard.store.job_vms import PresentVm

_PREFIX = "cg-"


def find(connection: Connection, guard_id: str, grace: timedelta, now: datetime) -> list[DeleteOrphan]:
    """Those that have been nobody's for the grace; VMs that another installation made are none of ours.

    A VM whose disk may hold the only copy of what a job saved is to be stopped, and never deleted.
    """
    ours = [
        vm
        for vm in job_vms.present(connection, _PREFIX)
        if vm.labels.get(GUARD_LABEL) == guard_id and vm.labels.get(ATTEMPT_LABEL) == vm.name
    ]
    names: dict[str, set[str]] = defaultdict(set)
    for vm in ours:
        names[vm.key.project].add(vm.name)
    known = {
        (project, one.name): one
        for project, some in names.items()
        for one in attempts.of_instances(connection, project, names=some)
    }
    alone = [
        (vm, attempt)
        for vm in ours
        if (attempt := known.get((vm.key.project, vm.name))) is None or not stands_for(attempt, vm.key.gce_id)
    ]
    # What an attempt had is no orphan for as long as the ledger may not have seen it go.
    left = job_vms.gone_at(connection, [attempt.attempt_id for _, attempt in alone if attempt is not None])
    jobs_of = jobs.of_ids(connection, {attempt.job_id for _, attempt in alone if attempt is not None})
    return [
        DeleteOrphan(vm.key.project, vm.zone, vm.name, vm.key.gce_id, _reason(attempt), keeps)
        for vm, attempt in alone
        if not ((keeps := _keeps(vm, jobs_of.get(attempt.job_id) if attempt is not None else None)) and vm.is_at_rest)
        and now - max(vm.first_seen_at, left.get(attempt.attempt_id, vm.first_seen_at) if attempt else vm.first_seen_at)
        >= grace
    ]


def _keeps(vm: PresentVm, job: Job | None) -> bool:
    """Whether its disk may hold the only copy: so it was made, or its job says so, and nobody agreed that it goes.

    Of a VM that no job is known of, its label alone speaks: this database may be an older one than the VM.
    """
    if job is None:
        return DISK_LABEL in vm.labels
    return saves_on_disk(job) and job.state is not JobState.SUCCEEDED and job.disk_given_up_at is None


def _reason(attempt: JobVm | None) -> str:
    if attempt is None:
        return "it bears our labels, and no attempt of that name is known"
    if attempt.is_live:
        return f"another VM of this name is that of job {attempt.job_id}"
    return f"job {attempt.job_id} is done with the attempt that it was made for"
