"""Reads what the advice on a job's checkpoint interval rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy import Connection

from costguard.deadlines.hazards import ByAge
from costguard.deadlines.save_interval import SaveTerms, best_interval, hazard_of
from costguard.jobs.decide.checkpoints import work_at_risk
from costguard.jobs.decide.checkpoints.notice import measured_parts
from costguard.jobs.decide.checkpoints.save_advice import (
    MeasuredSave,
    SaveAdvice,
    SaveCase,
    achieved_since,
    noticed_share,
    save_advice,
)
from costguard.jobs.decide.machines.bound_savings import is_same_training
from costguard.jobs.decide.view import AttemptView, JobView
from costguard.jobs.reports.progress import progress
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.history.zone_history import VMKind, counts_of_zone
from costguard.jobs.rows.progress import progress_rows
from costguard.jobs.rows.recovery import drills, interruptions
from costguard.model.attempt import Attempt, Interruption
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job, JobKind
from costguard.model.reported.drill import Drill
from costguard.model.reported.progress import POSITION

_EARLIER = 50  # jobs of the same owner that are looked through for those with the same script
_COMPARED = 5  # of these
_HOUR = timedelta(hours=1)
_NOT_PREEMPTED = timedelta(hours=1)  # between saves on a VM that fails hardly ever


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
    case = _case(connection, now, job, tried, held, save)
    advice = save_advice(case)
    if advice is None or advice.achieved:
        return advice
    return replace(advice, achieved=_achieved_since(connection, job, case))


def _achieved_since(connection: Connection, job: Job, case: SaveCase) -> str:
    """Compares the work lost at preemptions with the last earlier job of the same script that saved otherwise."""
    if not any(one.lost is not None for one in case.interruptions):
        return ""
    filters = job_rows.JobFilters(owner=(job.spec.owner,), preset=(job.spec.preset,), project=(job.spec.project,))
    page = job_rows.page(connection, filters, (job.created_at, job.id), _EARLIER)
    alike = [one for one in page if is_same_training(one.spec, job.spec)][:_COMPARED]
    ended = interruptions.of_jobs(connection, [one.id for one in alike])
    for one in alike:
        if ended.get(one.id):
            written = [seen.written_at for seen in checkpoint_rows.checkpoints_of(connection, one.id)]
            held = drills.of_job(connection, one.id)
            earlier = replace(case, written=written, interruptions=ended[one.id], drills=held)
            if text := achieved_since(earlier, one.id, case):
                return text
    return ""


def measured_save(held: Sequence[Drill]) -> MeasuredSave | None:
    """Returns the last save on a notice; None: none was seen."""
    parts = measured_parts(held)
    return None if parts is None else MeasuredSave(*parts)


def interval_for(
    connection: Connection, now: datetime, attempt: Attempt, measured: timedelta | None
) -> timedelta | None:
    """Returns the interval at which the command on this VM is to be asked for a save, at its present age.

    `measured` is what a save took that its agent asked for. None where the job leaves saving to the command, and until
    a save was measured.
    """
    job = job_rows.read(connection, attempt.job_id)
    plan = job.spec.checkpoint if job is not None else None
    if job is None or plan is None or not plan.saves_by_hazard:
        return None
    if attempt.provisioning_model is not ProvisioningModel.SPOT:
        return _NOT_PREEMPTED
    held = drills.of_job(connection, job.id)
    save = measured_save(held) or (MeasuredSave(measured) if measured is not None else None)
    if save is None:
        return None
    ended = interruptions.of_jobs(connection, [job.id]).get(job.id, [])
    hazard = _hazard_in(connection, job, attempt.zone, now)
    notice = job.recipe.notice if attempt.notice is None else attempt.notice
    share = noticed_share(save, notice, drills.saved_on_notice(held, ended))
    terms = SaveTerms(save.span / _HOUR, 0.0, hazard, save.upload / _HOUR, share)
    age = now - (attempt.made_at or attempt.intended_at)
    return best_interval(terms, max(age / _HOUR, 0.0)) * _HOUR


def _hazard_in(connection: Connection, job: Job, zone: str, now: datetime) -> ByAge:
    """Returns the preemptions an hour of the job's VMs in a zone, by age."""
    return hazard_of(counts_of_zone(connection, VMKind.of_recipe(job.recipe), zone, now))


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
        written=[one.written_at for one in reversed(checkpoint_rows.checkpoints_of(connection, job.id))],
        interruptions=ended,
        drills=held,
        save=save,
        start=usual_start(tried),
        hazard=_hazard_in(connection, job, last.zone, now),
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
        if one.made_at is not None and one.agent.started_at is not None and one.restarts == 0 and _is_first(one)
    ]
    return timedelta(seconds=max(0.0, median(spans))) if spans else None


def _is_first(one: Attempt) -> bool:
    """Says whether its agent reports the first run on its VM: a gang's begins each round on the same VMs."""
    return not one.formation or one.agent.run <= 1


def _whole_work(
    connection: Connection, job: Job, tried: Sequence[Attempt], ended: Sequence[Interruption], now: datetime
) -> timedelta | None:
    """Returns the work of the whole job: what is kept and what is left by its output, else as its owner expects."""
    seen = next((one.agent.progress for one in reversed(tried) if one.agent.progress is not None), None)
    left = progress.work_left(job, seen, progress_rows.series_of_jobs(connection, [job.id], POSITION).get(job.id, []))
    if left is None:
        return job.spec.work
    rounds = tuple(gang_rows.rounds_of(connection, [job]).get(job.id, ()))
    done = work_at_risk.kept_in(JobView(job, tuple(map(AttemptView, tried)), tuple(ended), rounds=rounds))
    for one in (one for one in tried if one.node == 0):
        if (since := work_at_risk.runs_since(one, ended)) is not None:
            done += max((job.settled_at or now) - since, timedelta())
    return done + _HOUR * left.likely_h
