"""What a VM's job means for messages about the VM: what a stop does, and why its disk bills while stopped."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from costguard.jobs import attempts, job_rows, kept_disks
from costguard.jobs.kept_disk import saves_on_disk
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.instance import InstanceKey
from costguard.model.job import Job, JobKind

_WAITS = frozenset({AttemptState.RESTING, AttemptState.RESTARTING})


@dataclass(frozen=True, slots=True)
class JobNote:
    """`on_stop`: what a stop by a person does while the job goes on. `at_rest`: whose disk it is, and how it goes."""

    on_stop: str = ""
    at_rest: str = ""


def note_of(connection: Connection, key: InstanceKey, accrual: Accrual) -> JobNote:
    """Empty for a VM that was not launched for a training job."""
    launched = attempts.of_instances(connection, key.project, [key.gce_id])
    job = job_rows.read(connection, launched[0].job_id) if launched else None
    if job is None or job.spec.kind is not JobKind.TRAINING:
        return JobNote()
    tried = attempts.of_jobs(connection, [job.id]).get(job.id, [])
    mine = next((attempt for attempt in tried if attempt.gce_id == key.gce_id), None)
    if mine is None:
        return JobNote()
    if not job.state.is_over:
        is_at_work = mine.is_open and job.cancel_asked_at is None
        return JobNote(_on_stop(job, mine) if is_at_work else "", _between_runs(job) if mine.state in _WAITS else "")
    kept = kept_disks.of_job(job, tried, job_rows.checkpoint(connection, [job.id]).get(job.id), accrual)
    if kept is None or kept.attempt.id != mine.id:
        return JobNote()
    ended = "was cancelled" if job.cancel_asked_at is not None else job.state.value
    return JobNote(
        at_rest=f"Its disk is kept for job {job.title} ({job.id}), which {ended}: it holds {kept.holds}, and bills"
        f" {kept.bills}. When that may be lost, delete both with: costguard delete-disk {job.id}"
    )


def _on_stop(job: Job, attempt: Attempt) -> str:
    begun = f"This cancels job {job.title}: its command gets its notice first."
    if not saves_on_disk(job):
        return f"{begun} Then {attempt.name} is deleted with its disk."
    if job.disk_given_up_at is not None:
        return f"{begun} Then {attempt.name} is deleted, and everything that the job saved on its disk is lost."
    return (
        f"{begun} Then {attempt.name} is stopped, and its disk kept, which holds the only copy of what the job saved"
        f" and bills. Delete it with: costguard delete-disk {job.id}"
    )


def _between_runs(job: Job) -> str:
    again = f"It is the VM of job {job.title} ({job.id}), which starts it again by itself."
    return f"{again} End that with: costguard cancel {job.id}"
