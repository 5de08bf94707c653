"""What the page of one job shows: its attempts in time, what it costs, lost and printed, and what comes next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

from costguard.jobs.disk import disk_of
from costguard.jobs.figures import WorkAtRisk
from costguard.jobs.kept_disks import KeptDisk
from costguard.jobs.listing import JobDetail, heard_last, job_detail
from costguard.ledger.accrual import accrual_at
from costguard.model.attempt import Attempt, Interruption
from costguard.model.instance import InstanceKey
from costguard.model.job import Job, JobKind, SeenCheckpoint
from costguard.model.money import Money, Priced
from costguard.pages import timeline
from costguard.pages.asked import LONGEST, BadAddress
from costguard.pages.jobs import rate_now, steps_per_hour
from costguard.pages.show import gpu_words
from costguard.pages.source import Source
from costguard.pages.timeline import Timeline

_LINES = 60  # of the output
_STYLING = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and moves of a terminal


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt with its interruptions; `ran` is None where its command was not seen to run."""

    attempt: Attempt
    key: InstanceKey
    ran: timedelta | None
    cuts: Sequence[Interruption]


@dataclass(frozen=True, slots=True)
class JobView:
    job: Job
    cost: Priced
    rate: Money
    step: int | None
    per_hour: str
    per_1000_steps: Money | None
    risk: WorkAtRisk | None
    lost_span: timedelta
    lost_cost: Money
    from_zero: int
    preemptions: int
    crashes: int
    checkpoint: SeenCheckpoint | None
    is_checkpoint_deleted: bool
    next: str
    ssh: str  # of a development VM
    notebook: str
    gpu: str
    disk: str  # `disk full: 0 bytes left on /`; "" while there is room
    image_digest: str  # "" where the image's own name holds it, or before it was pulled
    attempts: Sequence[Tried]
    last: Attempt | None
    span: timedelta
    is_late: bool
    timeline: Timeline
    words: str  # the timeline for those who do not see it
    heard_at: datetime | None
    output: Sequence[str]
    kept_disk: KeptDisk | None


def job_page(source: Source, job_id: str, now: datetime) -> JobView:
    """Raises BadAddress where there is no such job."""
    detail = None
    if len(job_id) <= LONGEST and "\x00" not in job_id:
        with source.database.read() as connection:
            accrual = accrual_at(connection, now)
            detail = job_detail(connection, accrual, job_id)
    if detail is None:
        raise BadAddress(
            f"There is no job {job_id[:100]}.", "Look for it among the jobs, over ones too.", HTTPStatus.NOT_FOUND
        )
    return _view(detail, now)


def _view(of: JobDetail, now: datetime) -> JobView:
    row = of.row
    job, end = row.job, row.job.settled_at or now
    is_dev = job.spec.kind is JobKind.DEV
    heard = heard_last(row.attempts)
    recipe, deadline = job.recipe, job.spec.deadline
    return JobView(
        job=job,
        cost=row.cost,
        rate=rate_now(row.last),
        step=row.step,
        per_hour=steps_per_hour(row),
        per_1000_steps=of.pace.cost_per_1000,
        risk=of.risk,
        lost_span=of.lost.span,
        lost_cost=of.lost.cost,
        from_zero=of.lost.from_zero,
        preemptions=row.preemptions,
        crashes=row.crashes,
        checkpoint=of.checkpoint,
        is_checkpoint_deleted=of.is_checkpoint_deleted,
        next=of.next,
        ssh=of.ssh if is_dev else "",
        notebook=of.notebook,
        gpu=f"{recipe.gpu_count} × {gpu_words(recipe.gpu_type)}" if recipe.gpu_count else "",
        disk=_disk(of),
        image_digest="" if "@" in job.spec.image else row.image_digest,
        attempts=[_tried(attempt, of.interruptions, now) for attempt in row.attempts],
        last=row.last,
        span=max(timedelta(), end - job.created_at),
        is_late=deadline is not None and deadline < end,
        timeline=timeline.draw(
            row.attempts, of.interruptions, [(each.written_at, each.step) for each in of.seen], job.created_at, end
        ),
        words=_words(of),
        heard_at=heard.heard.at if heard is not None else None,
        output=_lines(heard.heard.output) if heard is not None else (),
        kept_disk=row.kept_disk,
    )


def _disk(of: JobDetail) -> str:
    """Of the VM that runs now."""
    last = of.row.last
    disk = disk_of(last.heard.machine) if last is not None and last.is_open else None
    return disk.text if disk is not None else ""


def _tried(attempt: Attempt, interruptions: Sequence[Interruption], now: datetime) -> Tried:
    started = attempt.heard.started_at
    ran = None if started is None else max(timedelta(), _ran_until(attempt, now) - started)
    cuts = [each for each in interruptions if each.attempt_id == attempt.id]
    return Tried(attempt, InstanceKey(attempt.project, attempt.gce_id), ran, cuts)


def _ran_until(attempt: Attempt, now: datetime) -> datetime:
    """The end that its agent reported, else the last moment at which it was heard: nobody saw it run after that."""
    heard = attempt.heard
    if heard.exit is not None:
        return heard.exit.at
    seen = attempt.ended_at or now
    return seen if heard.at is None else min(seen, heard.at)


def _words(of: JobDetail) -> str:
    zones = ", ".join(dict.fromkeys(attempt.zone for attempt in of.row.attempts))
    return (
        f"{len(of.row.attempts)} attempts in {zones}, {len(of.interruptions)} interruptions,"
        f" {len(of.seen)} checkpoints. The attempts below hold the same."
    )


def _lines(output: str) -> list[str]:
    """The last ones, as a terminal would leave them: of a line that was written over, the last state."""
    lines = _STYLING.sub("", output).rstrip().split("\n") if output.strip() else []
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-_LINES:]]
