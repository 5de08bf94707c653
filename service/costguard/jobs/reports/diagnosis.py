"""Diagnoses the bottleneck of jobs: records the agents' measurements, judges them, and assembles the diagnosis
to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, select

from costguard.db import tables
from costguard.db.bulk import chunks
from costguard.events import audit_log
from costguard.jobs.decide.gang.straggler import Straggler
from costguard.jobs.decide.machines.bound_savings import (
    AchievedSaving,
    PacedJob,
    PromisedSaving,
    achieved,
    achieved_text,
    is_same_training,
    next_larger,
    promised,
    saving_text,
    time_left,
)
from costguard.jobs.decide.machines.chip_prices import MachinePrice
from costguard.jobs.decide.machines.chips import peak_of
from costguard.jobs.decide.machines.next_machine import NextMachine
from costguard.jobs.decide.profile.cures import Cure
from costguard.jobs.reports import profile
from costguard.jobs.reports.gang import stragglers
from costguard.jobs.reports.progress import progress
from costguard.jobs.rows import agent_fields, attempts, job_events, job_rows
from costguard.jobs.rows.agent_fields import BoundStretch, MeasuredMinute
from costguard.jobs.rows.diagnosis import diagnosis_rows
from costguard.jobs.rows.diagnosis.diagnosis_rows import NewWindow
from costguard.jobs.rows.progress import progress_rows
from costguard.ledger.accrual import Accrual
from costguard.ledger.rows import shape_of
from costguard.model.attempt import AgentState, Attempt, AttemptState
from costguard.model.instance import Shape
from costguard.model.job import Job
from costguard.model.money import Money, rate_text
from costguard.model.reported.progress import POSITION, SeriesPoint
from costguard.spend import burning
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.advice import most_saved
from costguard_vm.diagnosis.window import MINUTES
from costguard_vm.diagnosis.words import headline

# A busy GPU is no news, and an evaluation ends by itself.
_NO_NEWS = frozenset({kinds.UNKNOWN, kinds.GPU, kinds.EVALUATION})
_NOTHING_TO_DO = frozenset({kinds.TENSOR, kinds.MIXED, None})
_EARLIER = 50  # jobs of the same owner, to find what this one was before a change


class MinuteReport(NamedTuple):
    """The measurements of an attempt's agent; `agent` is its state after the report."""

    attempt: Attempt
    minutes: Sequence[MeasuredMinute]
    agent: AgentState


def record(connection: Connection, reports: Iterable[MinuteReport], now: datetime) -> None:
    """Minutes of different attempts' present runs. A minute that arrives twice is stored and judged once."""
    marked: dict[int, list[MeasuredMinute]] = {}
    attempts_by_id: dict[int, Attempt] = {}
    for attempt, minutes, agent in reports:
        mine = [one for one in minutes if one.run == agent.run]
        if mine:
            attempts_by_id[attempt.id] = replace(attempt, agent=agent)
            marked[attempt.id] = [
                replace(one, is_judged=not agent_fields.is_warm(one, agent.started_at)) for one in mine
            ]
    diagnosis_rows.add_minutes(connection, marked)
    due = sorted(diagnosis_rows.with_open_minutes(connection, marked, MINUTES))
    _judge(connection, [attempts_by_id[attempt_id] for attempt_id in due], now)
    gangs = {one.job_id for one in attempts_by_id.values() if one.formation}
    if gangs:
        stragglers.announce(connection, gangs, now)


def _judge(connection: Connection, some: Sequence[Attempt], now: datetime) -> None:
    """Reads and writes for all of them: windows of thousands of VMs may end in one minute."""
    if not some:
        return
    opened = diagnosis_rows.open_minutes(connection, {attempt.id: attempt.agent.run for attempt in some})
    judged, windows = [], []
    for attempt in some:
        minutes = opened.get(attempt.id, [])
        made, rest = agent_fields.windows(minutes)
        if made:
            judged.append((attempt.id, attempt.agent.run, minutes[-len(rest) - 1].at))
            windows += [NewWindow(attempt.job_id, attempt.id, attempt.agent.run, window) for window in made]
    diagnosis_rows.set_judged(connection, judged)
    by_id = {attempt.id: attempt for attempt in some}
    stretches = diagnosis_rows.add_windows(connection, windows)
    _announce(connection, [(by_id[one.attempt_id], one) for one in stretches if one.holds and is_news(one)], now)


def is_news(stretch: BoundStretch) -> bool:
    """Says whether its owner could do something about it."""
    verdict = stretch.verdict
    return verdict.bound not in _NO_NEWS and not (verdict.bound == kinds.COMPUTE and verdict.cause in _NOTHING_TO_DO)


def _announce(connection: Connection, holding: Sequence[tuple[Attempt, BoundStretch]], now: datetime) -> None:
    """Once for each bound of a job, however often the verdict comes and goes."""
    keys = [job_events.bound_key(one.job_id, one.verdict.bound) for _, one in holding]
    announced = {key for some in chunks(set(keys)) for key in burning.recorded_at(connection, some)}
    new: dict[str, tuple[Attempt, BoundStretch]] = {}
    for key, one in zip(keys, holding, strict=True):
        if key not in announced:
            new.setdefault(key, one)
    jobs = job_rows.of_ids(connection, [attempt.job_id for attempt, _ in new.values()])
    series = progress_rows.series_of_jobs(connection, jobs, POSITION)
    cures = profile.cures_of_jobs(connection, jobs)
    events = []
    for attempt, stretch in new.values():
        if (job := jobs.get(attempt.job_id)) is not None:
            left = _left_of(job, attempt, stretch, series.get(job.id, []))
            saving = promised(most_saved(stretch.verdict), attempt.rate, left)
            advised = replace(stretch, advice=_advice(stretch.advice, cures.get(job.id, ())))
            events.append(job_events.bounded(job, attempt, advised, saving, now))
    audit_log.append(connection, events, now)


def _left_of(job: Job, attempt: Attempt, stretch: BoundStretch, series: Sequence[SeriesPoint]) -> timedelta | None:
    """Estimates the time of the rest of the run, by its progress, or at its present pace; None: not known."""
    spec, agent = job.spec, attempt.agent
    if (shown := progress.work_left(job, agent.progress, series)) is not None:
        return timedelta(seconds=round(shown.likely_h * 3600))
    worked = None if agent.started_at is None else stretch.until - agent.started_at
    step = agent.step if agent.step is not None else attempt.resume_step
    work = None if spec.work is None or attempt.number > 1 or agent.run > 1 else spec.work
    return time_left(step, spec.total_steps, stretch.steps_per_s, work, worked)


@dataclass(frozen=True, slots=True)
class LargerVm:
    """The same GPUs with more vCPUs; `more` is what an hour of it costs more than the VM that the job has."""

    machine_type: str
    vcpus: int
    more: Money


@dataclass(frozen=True, slots=True)
class JobDiagnosis:
    """The bottleneck of a job. `held` is the latest verdict that held for two windows; None: none has yet.

    `is_current`: the last window has the same verdict, of a VM that runs. `stretches` are the newest first.
    """

    job: Job
    held: BoundStretch | None
    is_current: bool
    saving: PromisedSaving | None
    larger: LargerVm | None
    achieved: AchievedSaving | None
    stretches: Sequence[BoundStretch]
    minutes: Sequence[MeasuredMinute]
    why_none: str
    machine: MachinePrice | None = None  # the VM that `held` is of, at its own rate
    straggler: Straggler | None = None  # of a gang that runs; None: there is none, or it is not known
    next: NextMachine | None = None  # to try; None: the bound names none, or nobody priced others
    cures: Sequence[Cure] = ()  # that its profile names
    has_profile: bool = False

    @property
    def headline(self) -> str:
        """`its input (too few loader workers)`; empty while no verdict has held."""
        return "" if self.held is None else headline(self.held.verdict)

    @property
    def advice(self) -> str:
        """Returns a line of advice; empty where there is nothing to advise."""
        line = _advice("" if self.held is None else self.held.advice, self.cures)
        if self.next is not None:
            return f"{line}; {self.next.text}" if line else self.next.text
        if self.larger is None:
            return line
        more = f"the same GPU with {self.larger.vcpus} vCPUs ({self.larger.machine_type})"
        return f"{line}; {more} costs {rate_text(self.larger.more)} an hour more"

    @property
    def saving_text(self) -> str:
        return saving_text(self.saving)

    @property
    def achieved_text(self) -> str:
        return achieved_text(self.achieved)


def diagnosis_of(connection: Connection, accrual: Accrual, job_id: str) -> JobDiagnosis | None:
    """Diagnoses a job. None: there is no such job."""
    job = job_rows.read(connection, job_id)
    if job is None:
        return None
    tried = attempts.of_jobs(connection, [job_id]).get(job_id, [])
    stretches = diagnosis_rows.of_jobs(connection, [job_id]).get(job_id, [])
    held = next((one for one in stretches if one.holds), None)
    attempt = None if held is None else next((one for one in tried if one.id == held.attempt_id), None)
    last = tried[-1] if tried else None
    is_current = held is not None and held is stretches[0] and last is not None and _runs(last, held)
    saving = None
    if held is not None and attempt is not None:
        series = progress_rows.series_of_jobs(connection, [job.id], POSITION).get(job.id, [])
        left = _left_of(job, attempt, held, series) if is_current else None
        saving = promised(most_saved(held.verdict), attempt.rate, left)
    minutes = diagnosis_rows.minutes_of(connection, last.id) if last is not None else []
    return JobDiagnosis(
        job=job,
        held=held,
        is_current=is_current,
        saving=saving,
        larger=_larger(connection, accrual, held, attempt),
        achieved=_achieved(connection, job, tried),
        stretches=stretches,
        minutes=minutes,
        why_none="" if held is not None else _why_none(last, minutes),
        machine=None if attempt is None else _machine(job, attempt),
        straggler=stragglers.straggler_now(connection, job, tried, accrual.now),
        cures=profile.cures_of_jobs(connection, [job.id]).get(job.id, ()),
        has_profile=profile.is_kept(connection, job.id),
    )


def _advice(line: str, cures: Sequence[Cure]) -> str:
    """Puts the cure of the largest share first: it names the function."""
    return "; ".join(part for part in (cures[0].text if cures else "", line) if part)


def _machine(job: Job, attempt: Attempt) -> MachinePrice:
    recipe = job.recipe
    peak = peak_of(recipe.machine_type, recipe.gpu_type, recipe.gpu_count)
    shape = (recipe.machine_type, recipe.gpu_type, recipe.gpu_count)
    return MachinePrice(job.spec.preset, *shape, peak, attempt.zone, attempt.provisioning_model, attempt.rate)


def bound_now(connection: Connection, job_id: str) -> str | None:
    """Names the present bound in words; None: no verdict holds now, or its command does not run."""
    stretches = diagnosis_rows.of_jobs(connection, [job_id], 1).get(job_id, [])
    tried = attempts.of_jobs(connection, [job_id]).get(job_id, [])
    if not stretches or not tried or not stretches[0].holds or not _runs(tried[-1], stretches[0]):
        return None
    share = stretches[0].verdict.share
    return headline(stretches[0].verdict) + (f", {share:.0%} of the time" if share is not None else "")


def _runs(last: Attempt, held: BoundStretch) -> bool:
    at_work = last.state is AttemptState.RUNNING and last.agent.exit is None
    return at_work and (last.id, last.agent.run) == (held.attempt_id, held.run)


def _why_none(last: Attempt | None, minutes: Sequence[MeasuredMinute]) -> str:
    if last is None or last.agent.started_at is None:
        return "Its command has not started yet."
    if not minutes and not (last.is_open and last.agent.exit is None):
        return "Its command ended before its agent had reported any activity: it does so once a minute."
    if not minutes:
        return "Its VM has reported no activity yet: an agent reports it once a minute while the command runs."
    return "Two equal verdicts over five minutes each are needed, after the first minutes of a run."


def _larger(
    connection: Connection, accrual: Accrual, held: BoundStretch | None, attempt: Attempt | None
) -> LargerVm | None:
    """Returns the next larger VM, where CPUs are the bottleneck."""
    if held is None or attempt is None or held.verdict.cause != kinds.PROCESSORS:
        return None
    shape = _shape(connection, attempt)
    larger = None if shape is None else next_larger(shape)
    if shape is None or larger is None:
        return None
    now, then = (accrual.rate(one, attempt.zone, attempt.provisioning_model) for one in (shape, larger))
    return None if now is None or then is None else LargerVm(larger.machine_type, larger.vcpus, then - now)


def _shape(connection: Connection, attempt: Attempt) -> Shape | None:
    """Returns the shape of its VM as the ledger has seen it; None: it has not."""
    columns = tables.instances.c
    query = select(tables.instances).where(columns.project == attempt.project, columns.gce_id == attempt.gce_id)
    row = connection.execute(query).first() if attempt.gce_id else None
    return None if row is None else shape_of(row)


def _achieved(connection: Connection, job: Job, tried: Sequence[Attempt]) -> AchievedSaving | None:
    """Compares it with the last earlier job with the same script that was bound by something."""
    mine = paced(job, diagnosis_rows.of_jobs(connection, [job.id]).get(job.id, []), tried)
    if mine is None:
        return None
    filters = job_rows.JobFilters(owner=(job.spec.owner,), preset=(job.spec.preset,), project=(job.spec.project,))
    page = job_rows.page(connection, filters, (job.created_at, job.id), _EARLIER)
    earlier = [one for one in page if is_same_training(one.spec, job.spec)]
    stretches = diagnosis_rows.of_jobs(connection, [one.id for one in earlier])
    before = attempts.of_jobs(connection, [one.id for one in earlier])
    for one in earlier:
        earlier_run = paced(one, stretches.get(one.id, []), before.get(one.id, []))
        if earlier_run is not None and earlier_run.promised is not None:
            return achieved(earlier_run, mine)
    return None


def paced(job: Job, stretches: Sequence[BoundStretch], tried: Sequence[Attempt]) -> PacedJob | None:
    """Returns its pace by its last verdict that held; None where its pace or its price is not known."""
    for one in stretches:
        attempt = next((attempt for attempt in tried if attempt.id == one.attempt_id), None)
        if one.holds and one.steps_per_s is not None and attempt is not None and attempt.rate:
            return PacedJob(job.id, one.steps_per_s, attempt.rate, one.verdict.bound, most_saved(one.verdict))
    return None
