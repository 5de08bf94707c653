"""What agents find on their VMs' own disks: kept with the job as a look of the guard's own would be."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from costguard.events import facts
from costguard.jobs import attempts, interruptions, job_rows, launch_words, risk
from costguard.jobs.hearing import Told
from costguard.model.attempt import Attempt
from costguard.model.job import Job, SeenCheckpoint


def take_in(connection: Connection, attempt: Attempt, told: Told, now: datetime) -> None:
    """Nothing where no agent looked, nor of a job whose checkpoints lie elsewhere: the guard judges those itself."""
    if told.look is None:
        return
    job = job_rows.read(connection, attempt.job_id)
    if job is None or job.spec.checkpoint is None or not job.spec.checkpoint.is_on_disk:
        return
    before = job_rows.checkpoint(connection, [job.id]).get(job.id)
    job_rows.save_look(connection, job.id, told.look)
    # One that was being written looks torn as well: it counts when it still does at the next look.
    still = set(before.torn if before is not None else ()) & set(told.look.torn)
    certain = set(told.resumed.torn) if told.resumed is not None else still
    facts.append(connection, [launch_words.torn(job, one, now) for one in sorted(certain)], now)
    if told.resumed is not None and told.started_run:
        _resumed(connection, job, attempt, told, told.resumed, now)


def _resumed(
    connection: Connection, job: Job, attempt: Attempt, told: Told, found: SeenCheckpoint, now: datetime
) -> None:
    """A later run has begun on the same disk: now it is known what the interruption before cost."""
    attempts.resumed(connection, attempt.id, found.resume_from, found.step, told.resume_why)
    tried = attempts.of_jobs(connection, [job.id]).get(job.id, [])
    ended = interruptions.of_jobs(connection, [job.id]).get(job.id, [])
    before = [one for one in ended if (one.attempt_id, one.run) < (attempt.id, told.heard.run)]
    # What this run does is not lost.
    ran = [one if one.id != attempt.id else replace(one, heard=replace(one.heard, started_at=None)) for one in tried]
    loss = risk.lost(ran, before, found.written_at)
    if loss is None or not before:
        return
    is_zero = not found.resume_from
    last = before[-1]
    interruptions.set_lost(connection, last.attempt_id, last.run, loss.span, loss.cost, is_zero)
    if is_zero:
        what = f"from_zero/{told.heard.run}"
        facts.append(connection, [launch_words.from_zero(job, attempt, loss, now, what)], now)
