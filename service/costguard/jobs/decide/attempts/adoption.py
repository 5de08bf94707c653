"""Decides whether an unknown VM with our labels is adopted, or only reported.

Such VMs come from a later time of this database, which a restore lost, or from another guard that works with a copy of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costguard.jobs.decide.checkpoints.disk import saves_on_disk
from costguard.model.attempt import Attempt
from costguard.model.generation import AttemptName
from costguard.model.instance import InstanceKey, Status
from costguard.model.job import Job
from costguard.model.words import list_text

NOT_RUNNING = frozenset({Status.STOPPED, Status.SUSPENDED})
_UP = frozenset(
    {
        Status.PENDING,
        Status.PROVISIONING,
        Status.STAGING,
        Status.RUNNING,
        Status.REPAIRING,
    }
)


@dataclass(frozen=True, slots=True)
class AdoptionCandidate:
    """A VM that may be adopted, as its labels and the ledger show it.

    `is_wanted`: an admin says that it is to be adopted.
    """

    key: InstanceKey
    name: str
    zone: str
    status: Status
    job_id: str
    is_wanted: bool = False


def why_not_adopted(
    vm: AdoptionCandidate, mine: Sequence[AdoptionCandidate], job: Job | None, attempts: Sequence[Attempt]
) -> str:
    """Explains why it is only reported; "" where it becomes the job's next attempt.

    `mine` are all candidates of its job.
    """
    if job is None:
        return f"job {vm.job_id or 'of its label'} is not in this database"
    named = AttemptName.parse(vm.name)
    if named is None or named.job_id != job.id or job.spec.project != vm.key.project:
        return f"its labels and its name do not agree about job {job.id}"
    if job.state.is_over:
        return f"job {job.id} is {job.state.value} in this database"
    if job.is_gang:
        return (
            f"it is one of several VMs of job {job.id}, and one alone is not adopted: delete them, and the job begins "
            "again from its newest checkpoint"
        )
    if any(one.name == vm.name and one.project == vm.key.project for one in attempts):
        return f"job {job.id} has an attempt of this name with another VM"
    if (last := next((one for one in attempts if one.is_open), None)) is not None:
        return f"attempt {last.number} of job {job.id} is not known to have ended"
    if vm.status not in _UP:
        return f"it is {vm.status.value.replace('_', ' ')}"
    if vm.is_wanted:
        return ""
    others = [one.name for one in mine if one.key != vm.key and one.status not in NOT_RUNNING]
    if others:
        return f"{list_text(others)} is of job {job.id} as well, and nothing tells which of them works"
    if any(one.number >= named.number for one in attempts):
        return f"job {job.id} has had attempt {max(one.number for one in attempts)} since"
    return ""


def number_of(vm: AdoptionCandidate, attempts: Sequence[Attempt]) -> int:
    """Returns the VM's own number, or the next where an admin adopts one whose number is taken."""
    named = AttemptName.parse(vm.name)
    last = max((one.number for one in attempts), default=0)
    return max(named.number if named is not None else 1, last + 1)


def in_the_way(job: Job, mine: Sequence[tuple[str, str, Status]]) -> str:
    """Explains why no VM may be launched for the job meanwhile; "" where none of these can write to its checkpoints.

    `mine` are names, zones and statuses. A stopped VM writes nothing, but the job may resume from its disk.
    """
    vms = [f"{name} in {zone}" for name, zone, status in mine if status not in NOT_RUNNING or saves_on_disk(job)]
    if not vms:
        return ""
    is_one = len(vms) == 1
    what = (
        "a VM of this job that is not in this database" if is_one else "VMs of this job that are not in this database"
    )
    return f"{list_text(vms)}, {what}, may be running: see `costguard db unknown`"
