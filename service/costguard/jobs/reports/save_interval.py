"""Reads what the advice on a job's checkpoint interval rests on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy import Connection

from costguard.deadlines.hazards import ByAge, hazards_of
from costguard.jobs.decide import figures
from costguard.jobs.decide.notice import measured_parts
from costguard.jobs.decide.save_advice import MeasuredSave, SaveAdvice, SaveCase, save_advice
from costguard.jobs.reports import progress
from costguard.jobs.rows import attempts, drills, interruptions, job_rows, progress_rows
from costguard.jobs.rows.zone_history import VMKind, counts_of_zone
from costguard.model.attempt import Attempt, Interruption
from costguard.model.drill import Drill
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job, JobKind
from costguard.model.progress import POSITION

_HOUR = timedelta(hours=1)


def advice_of(connection: Connection, now: datetime, job_id: str) -> SaveAdvice | None:
    """Advises a job on its checkpoint interval.

    None where there is nothing to say: its last VM is no Spot VM, it saves nothing, or what the advice rests on is not
    known.
    """
    job = job_rows.read(connection, job_id)
    if job is None or job.spec.kind is not JobKind.TRAINING or job.spec.checkpoint is None:
        return None
    tried = attempts.of_jobs(connection, [job_id]).get(job_id, [])
    held = drills.of_job(connection, job_id)
    save = measured_save(held)
    if not tried or tried[-1].provisioning_model is not ProvisioningModel.SPOT or save is None:
        return None
    return save_advice(_case(connection, now, job, tried, held, save))


def measured_save(held: Sequence[Drill]) -> MeasuredSave | None:
    """Returns the last save on a notice; None: none was seen."""
    parts = measured_parts(held)
    return None if parts is None else MeasuredSave(*parts)


def hazard_of(connection: Connection, job: Job, zone: str, now: datetime) -> ByAge:
    """Returns the preemptions an hour of the job's VMs in a zone, by age."""
    return hazards_of(counts_of_zone(connection, VMKind.of_recipe(job.recipe), zone, now)).preemption


def _case(
    connection: Connection,
    now: datetime,
    job: Job,
    tried: Sequence[Attempt],
    held: Sequence[Drill],
    save: MeasuredSave,
) -> SaveCase:
    last = tried[-1]
    ended = interruptions.of_jobs(connection, [job.id]).get(job.id, [])
    return SaveCase(
        written=[one.written_at for one in reversed(job_rows.checkpoints_of(connection, job.id))],
        interruptions=ended,
        drills=held,
        save=save,
        start=usual_start(tried),
        hazard=hazard_of(connection, job, last.zone, now),
        notice=job.recipe.notice if last.notice is None else last.notice,
        on_notice=drills.saved_on_notice(held, ended),
        work=_whole_work(connection, job, tried, ended, now),
        rate=last.rate,
    )


def usual_start(tried: Sequence[Attempt]) -> timedelta | None:
    """Returns the median of what its VMs billed before their command ran; None: none of them came so far."""
    spans = [
        (one.agent.started_at - one.made_at).total_seconds()
        for one in tried
        if one.made_at is not None and one.agent.started_at is not None and one.restarts == 0
    ]
    return timedelta(seconds=max(0.0, median(spans))) if spans else None


def _whole_work(
    connection: Connection, job: Job, tried: Sequence[Attempt], ended: Sequence[Interruption], now: datetime
) -> timedelta | None:
    """Returns the work of the whole job: what is kept and what is left by its output, else as its owner expects."""
    seen = next((one.agent.progress for one in reversed(tried) if one.agent.progress is not None), None)
    left = progress.work_left(job, seen, progress_rows.series_of_jobs(connection, [job.id], POSITION).get(job.id, []))
    if left is None:
        return job.spec.work
    done = figures.kept_work(tried, ended)
    for one in tried:
        if (since := figures.runs_since(one, ended)) is not None:
            done += max((job.settled_at or now) - since, timedelta())
    return done + _HOUR * left.likely_h
