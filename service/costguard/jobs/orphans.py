"""VMs of this installation that no live attempt stands for: they bill, and nobody would ever delete them.

Deleted are those alone of which the ledger proves that it made the intent and gave it up. Of the others it may be the
ledger that is too old: see `unknown_vms`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.jobs import attempts, job_rows, job_vms
from costguard.jobs.attempts import JobVm
from costguard.jobs.boot import DISK_LABEL, GUARD_LABEL
from costguard.jobs.job_vms import PresentVm
from costguard.jobs.kept_disk import saves_on_disk
from costguard.jobs.launch_delete import gave_up, stands_for
from costguard.jobs.view import DeleteOrphan
from costguard.ledger import unknown_vms
from costguard.ledger.unknown_vms import Verdict
from costguard.model.attempt import ATTEMPT_LABEL
from costguard.model.generation import REQUEST_LABEL
from costguard.model.job import Job, JobState

_PREFIX = "cg-"


@dataclass(frozen=True, slots=True)
class Labelled:
    """A VM that bears our labels. `given_up` is the attempt whose intent for it the ledger gave up."""

    vm: PresentVm
    is_stood_for: bool
    given_up: JobVm | None


def labelled(connection: Connection, guard_id: str) -> list[Labelled]:
    """Those that are there; VMs that another installation made are none of ours."""
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
    return [_labelled(vm, known.get((vm.key.project, vm.name))) for vm in ours]


def find(connection: Connection, ours: list[Labelled], grace: timedelta, now: datetime) -> list[DeleteOrphan]:
    """Those that have been nobody's for the grace, and those that an admin wants deleted.

    A VM whose disk may hold the only copy of what a job saved is to be stopped, and never deleted by a rule.
    """
    alone = [(one.vm, one.given_up) for one in ours if one.given_up is not None]
    # What an attempt had is no orphan for as long as the ledger may not have seen it go.
    left = job_vms.gone_at(connection, [attempt.attempt_id for _, attempt in alone])
    jobs_of = job_rows.of_ids(connection, {attempt.job_id for _, attempt in alone})
    found = [
        _orphan(vm, f"job {attempt.job_id} is done with the attempt that it was made for", keeps)
        for vm, attempt in alone
        if not ((keeps := _keeps(vm, jobs_of.get(attempt.job_id))) and vm.is_at_rest)
        and now - max(vm.first_seen_at, left.get(attempt.attempt_id, vm.first_seen_at)) >= grace
    ]
    unwanted = {one.key: one for one in unknown_vms.there(connection) if one.verdict is Verdict.DELETE}
    return found + [
        _orphan(one.vm, f"{unwanted[one.vm.key].verdict_by} wants it deleted", False)
        for one in ours
        if one.vm.key in unwanted and not one.is_stood_for and one.given_up is None
    ]


def _labelled(vm: PresentVm, attempt: JobVm | None) -> Labelled:
    if attempt is None:
        return Labelled(vm, False, None)
    gce_id, request = vm.key.gce_id, vm.labels.get(REQUEST_LABEL, "")
    is_of_request = not request or request == attempt.request_uuid
    stands = stands_for(attempt, gce_id) and (attempt.gce_id == gce_id or is_of_request)
    return Labelled(vm, stands, attempt if gave_up(attempt, gce_id, request) else None)


def _orphan(vm: PresentVm, reason: str, keeps_disk: bool) -> DeleteOrphan:
    request = vm.labels.get(REQUEST_LABEL, "")
    return DeleteOrphan(vm.key.project, vm.zone, vm.name, vm.key.gce_id, reason, keeps_disk, request)


def _keeps(vm: PresentVm, job: Job | None) -> bool:
    """Whether its disk may hold the only copy: so it was made, or its job says so, and nobody agreed that it goes."""
    if job is None:
        return DISK_LABEL in vm.labels
    return saves_on_disk(job) and job.state is not JobState.SUCCEEDED and job.disk_given_up_at is None
