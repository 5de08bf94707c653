"""Jobs as the pages, the API and the command line show them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select, text

from costguard.db import tables
from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB
from costguard.jobs.decide.checkpoints.notice import measured_save, notice_text
from costguard.jobs.decide.checkpoints.work_at_risk import WorkAtRisk, at_risk
from costguard.jobs.decide.gang.past_rounds import with_present
from costguard.jobs.decide.measures.pace import TrainingPace, metric_of, pace, step_of
from costguard.jobs.decide.recovery.ended_runs import crashes, preemptions
from costguard.jobs.decide.view import AttemptView, JobView, width_of
from costguard.jobs.rows import attempts, job_rows, kept_disks
from costguard.jobs.rows.checkpoints.checkpoint_rows import KeptCheckpoint, checkpoints_of
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.job_rows import JobFilters
from costguard.jobs.rows.kept_disks import KeptJobDisk
from costguard.jobs.rows.recovery import drills, interruptions
from costguard.jobs.rows.recovery.interruptions import LostWork, sum_lost
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual
from costguard.model.attempt import Attempt, AttemptState, GangRound, Interruption
from costguard.model.duration import span_text
from costguard.model.job import Job, JobKind, JobState, SeenCheckpoint
from costguard.model.moments import clock_text
from costguard.model.money import Money, Priced
from costguard.model.reported.drill import Drill, SavedOnNotice
from costguard.model.reported.metric import SeenMetric
from costguard.spend import vm_time


@dataclass(frozen=True, slots=True)
class JobCount:
    """The number of open jobs with this state, owner and preset."""

    state: JobState
    owner: str
    preset: str
    count: int


def open_job_counts(connection: Connection) -> list[JobCount]:
    columns = tables.jobs.c
    query = select(columns.state, columns.owner, columns.preset, func.count()).where(text(OPEN_JOB))
    rows = connection.execute(query.group_by(columns.state, columns.owner, columns.preset))
    return [JobCount(JobState(state), owner, preset, count) for state, owner, preset, count in rows]


def hourly_rate(connection: Connection, states: Collection[AttemptState]) -> Priced:
    """Returns the hourly cost of all live attempts in these states; not whole where the rate of one is not known."""
    columns = tables.attempts.c
    query = select(func.sum(columns.rate_nanos), func.count(), func.count(columns.rate_nanos))
    wanted = query.where(text(LIVE_ATTEMPT), columns.state.in_([state.value for state in states]))
    nanos, every, priced = connection.execute(wanted).one()
    return Priced(Money(int(nanos or 0)), every == priced)


_UP = frozenset({AttemptState.BOOTING, AttemptState.RUNNING})
_RESTS = frozenset({AttemptState.RESTING, AttemptState.RESTARTING})
_FRESH = timedelta(minutes=15)  # an older look does not say that there is nothing now
_NOTEBOOK = "-- -L 8888:localhost:8888"  # its page is then at http://localhost:8888


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job among others. `step` is the last that is known; `attempts` are without their outputs."""

    job: Job
    cost: Priced
    attempts: tuple[Attempt, ...]
    preemptions: int
    crashes: int
    step: int | None
    kept_disk: KeptJobDisk | None = None  # of a job that is over
    metric: SeenMetric | None = None

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def vms(self) -> str:
        """Describes how many VMs run it: `4`; of a range `3 of 2..8` while a round runs."""
        spec = self.job.spec
        is_begun = self.last is not None and self.last.is_open and self.last.round > 0
        return (
            f"{width_of(self.job, self.attempts)} of {spec.vm_count}"
            if is_begun and spec.is_elastic
            else str(spec.vm_count)
        )

    @property
    def image_digest(self) -> str:
        """Returns the digest of its image when it was pulled last; "" before that."""
        return next(
            (attempt.agent.image_digest for attempt in reversed(self.attempts) if attempt.agent.image_digest), ""
        )


@dataclass(frozen=True, slots=True)
class JobOverview:
    """All about one job. The latest attempt that was heard comes with its machine's figures and its output.

    `seen` are complete checkpoints, the oldest first. `risk` is None where no command runs, or nobody knows what was
    saved. `ssh` is "" while there is no VM, `notebook` also for those that are no development VMs.
    """

    row: JobRow
    interruptions: tuple[Interruption, ...]
    checkpoint: SeenCheckpoint | None
    is_checkpoint_deleted: bool
    seen: tuple[KeptCheckpoint, ...]
    pace: TrainingPace
    risk: WorkAtRisk | None
    lost: LostWork
    vm_time: timedelta  # for which its VMs ran so far, added up
    drills: tuple[Drill, ...]  # the newest first
    on_notice: SavedOnNotice
    rounds: tuple[GangRound, ...]  # of a gang, the oldest first; the last one may go on
    next: str
    ssh: str
    notebook: str


def jobs_page(
    connection: Connection,
    accrual: Accrual,
    filters: JobFilters,
    after: tuple[datetime, str] | None,
    limit: int,
    *,
    oldest_first: bool = False,
) -> list[JobRow]:
    """The newest first, or the oldest; `after` is the creation and the id of the last one that was shown."""
    return rows_of(connection, accrual, job_rows.page(connection, filters, after, limit, oldest_first=oldest_first))


def rows_of(connection: Connection, accrual: Accrual, jobs: Sequence[Job]) -> list[JobRow]:
    """These jobs, in the same order."""
    ids = [job.id for job in jobs]
    tried = attempts.of_jobs(connection, ids)
    interrupted = interruptions.of_jobs(connection, ids)
    costs = job_costs.costs(connection, accrual, ids)
    seen = job_rows.checkpoint(
        connection, [job.id for job in jobs if kept_disks.attempt_of(job, tried.get(job.id, ()))]
    )
    rows = [_row(job, costs[job.id], tried.get(job.id, ()), interrupted.get(job.id, ())) for job in jobs]
    return [
        replace(row, kept_disk=kept_disks.of_job(row.job, row.attempts, seen.get(row.job.id), accrual)) for row in rows
    ]


def job_detail(connection: Connection, accrual: Accrual, job_id: str) -> JobOverview | None:
    """Reads a job. None: there is no such job."""
    job = job_rows.read(connection, job_id)
    if job is None:
        return None
    tried = attempts.of_jobs(connection, [job_id]).get(job_id, [])
    agent = heard_last(tried)
    if agent is not None and (whole := attempts.read(connection, agent.id)) is not None:
        tried = [whole if attempt.id == whole.id else attempt for attempt in tried]
    ended = tuple(interruptions.of_jobs(connection, [job_id]).get(job_id, ()))
    row = _row(job, job_costs.costs(connection, accrual, [job_id])[job_id], tried, ended)
    checkpoint = job_rows.checkpoint(connection, [job_id]).get(job_id)
    row = replace(row, kept_disk=kept_disks.of_job(job, tried, checkpoint, accrual))
    risk = _risk(row, checkpoint, accrual.now)
    over = gang_rows.rounds_of(connection, [job]).get(job_id, [])
    ssh = _ssh(job, row.last)
    return JobOverview(
        row=row,
        interruptions=ended,
        checkpoint=checkpoint,
        is_checkpoint_deleted=kept_disks.is_deleted(job, tried, checkpoint),
        seen=tuple(reversed(checkpoints_of(connection, job_id))),
        pace=pace(tried, row.cost, over),
        rounds=tuple(with_present(over, tried, ended)),
        risk=risk,
        lost=sum_lost(ended),
        vm_time=vm_time.of_jobs(connection, [job_id], accrual.now).get(job_id, timedelta()),
        drills=tuple(held := drills.of_job(connection, job_id)),
        on_notice=replace(drills.saved_on_notice(held, ended), save=_save(job, row.last, held)),
        next=_next(row, checkpoint, risk, accrual.now),
        ssh=ssh,
        notebook=f"{ssh} {_NOTEBOOK}" if ssh and job.spec.kind is JobKind.DEV else "",
    )


def _save(job: Job, last: Attempt | None, held: Sequence[Drill]) -> str:
    """Says whether a save fits in the notice that its last VM was asked for, else in its recipe's."""
    recipe = job.recipe
    if last is not None and last.notice is not None and last.provisioning_model is recipe.provisioning_model:
        recipe = replace(recipe, notice=last.notice)
    return notice_text(recipe, measured_save(held))


def heard_last(tried: Sequence[Attempt]) -> Attempt | None:
    """The latest attempt whose agent said anything."""
    return next((attempt for attempt in reversed(tried) if attempt.agent.at is not None), None)


def _row(job: Job, cost: Priced, tried: Sequence[Attempt], ended: Sequence[Interruption]) -> JobRow:
    view = JobView(job, tuple(AttemptView(attempt) for attempt in tried), tuple(ended), cost)
    return JobRow(job, cost, tuple(tried), preemptions(view), crashes(view), step_of(tried), metric=metric_of(tried))


def _ssh(job: Job, last: Attempt | None) -> str:
    if last is None or last.state not in _UP or job.state.is_over:
        return ""
    tunnel = " --tunnel-through-iap" if last.address is not None and not last.address.is_external else ""
    return f"gcloud compute ssh {last.name} --zone {last.zone} --project {last.project}{tunnel}"


def _risk(row: JobRow, checkpoint: SeenCheckpoint | None, now: datetime) -> WorkAtRisk | None:
    """Returns the work at risk; None on a VM's own disk until its agent has looked there."""
    plan = row.job.spec.checkpoint
    is_unseen = plan is not None and plan.is_on_disk and (checkpoint is None or checkpoint.error != "")
    if row.last is None or row.job.state.is_over or is_unseen:
        return None
    risk = at_risk(row.last, checkpoint, now)
    if risk is None or risk.cost is None:
        return risk
    return replace(risk, cost=risk.cost.times(width_of(row.job, row.attempts)))


def _next(row: JobRow, checkpoint: SeenCheckpoint | None, risk: WorkAtRisk | None, now: datetime) -> str:
    """Describes how its next VM starts, or would start if this one were preempted now; "" where none would."""
    job, last = row.job, row.last
    if job.state.is_over or job.cancel_asked_at is not None:
        return ""
    if job.spec.kind is JobKind.DEV:
        return "Its VM is not replaced once it is gone."
    on_disk = job.spec.checkpoint is not None and job.spec.checkpoint.is_on_disk
    vms = "VMs" if job.is_gang else "VM"
    if job.state is JobState.RUNNING and on_disk:
        return "If its VM is preempted, the same one is started again, and goes on with what its disk holds."
    if job.state is JobState.RUNNING and risk is not None:
        cost = f" ({risk.cost})" if risk.cost is not None else ""
        again = f"{span_text(risk.span)} of work{cost} would be done again"
        lost = "one of its VMs" if job.is_gang else "its VM"
        return f"If {lost} were preempted now, it would {_start(job, checkpoint, now)}: {again}."
    if last is not None and last.state in _RESTS:
        return "Its VM is started again, and goes on with what its disk holds."
    if last is not None and last.is_open:
        return f"Its {vms} will {_resumes(last.resume_from, last.resume_step)}."
    return f"Its next {vms} will {_start(job, checkpoint, now)}."


def _start(job: Job, checkpoint: SeenCheckpoint | None, now: datetime) -> str:
    plan = job.spec.checkpoint
    if plan is None:
        return "start from the beginning, since it saves no checkpoints"
    if plan.is_on_disk:
        return "start from the beginning, on a disk of its own"
    if checkpoint is None:
        return f"resume from the newest complete checkpoint at {plan.location}, which has not been listed yet"
    if checkpoint.error and not checkpoint.resume_from:
        return f"resume from what is at {plan.location} once it can be read"
    if checkpoint.error:
        step = f"step {checkpoint.step}, " if checkpoint.step is not None else ""
        at = f" at {clock_text(checkpoint.seen_at, now)}" if checkpoint.seen_at is not None else ""
        seen = f"{step}{checkpoint.resume_from}, was last seen complete{at}"
        return f"resume from the newest complete checkpoint at {plan.location} once that can be read; {seen}"
    if not checkpoint.resume_from and now - checkpoint.looked_at > _FRESH:
        seen = f"at {clock_text(checkpoint.looked_at, now)} there was none"
        return f"resume from the newest complete checkpoint at {plan.location}; {seen}"
    if not checkpoint.resume_from:
        return f"start from the beginning, since there is no complete checkpoint at {plan.location}"
    return _resumes(checkpoint.resume_from, checkpoint.step)


def _resumes(checkpoint: str, step: int | None) -> str:
    if not checkpoint:
        return "start from the beginning"
    return f"resume from {f'step {step}, ' if step is not None else ''}{checkpoint}"
