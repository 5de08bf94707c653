"""Disks kept because they hold the only copy of a job's checkpoints, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.jobs.decide.checkpoints.disk import saves_on_disk
from costguard.jobs.rows import attempts, job_rows
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.instance import ProvisioningModel, region_of
from costguard.model.job import Job, JobState, SeenCheckpoint
from costguard.model.money import ZERO, Money, Priced, about_text
from costguard.model.price import PriceKey, Unit

_THERE = frozenset({AttemptState.ENDING, AttemptState.KEPT})


@dataclass(frozen=True, slots=True)
class KeptJobDisks:
    """All disks that are kept; `monthly` is not whole where one of them has no price."""

    count: int
    monthly: Priced


@dataclass(frozen=True, slots=True)
class KeptJobDisk:
    """The disk of a job that is over: `holds` says what lies on it; `monthly` is None where it has no price."""

    attempt: Attempt
    gib: int
    holds: str
    monthly: Money | None

    @property
    def bills(self) -> str:
        """`about $10.00 a month`."""
        return _bills(self.monthly)


def of_job(
    job: Job, tried: Sequence[Attempt], checkpoint: SeenCheckpoint | None, accrual: Accrual
) -> KeptJobDisk | None:
    """Returns the kept disk; None where none is kept: its VM is at work, was deleted, or may be."""
    last = attempt_of(job, tried)
    if last is None:
        return None
    return KeptJobDisk(last, job.recipe.disk_gib, holds(checkpoint), _monthly(job, last.zone, accrual))


def in_all(connection: Connection, accrual: Accrual) -> KeptJobDisks:
    """Returns all kept disks, also of jobs that the search leaves out, so that none of them is forgotten."""
    kept = job_rows.disk_kept(connection)
    tried = attempts.of_jobs(connection, [job.id for job in kept])
    disks = [disk for job in kept if (disk := of_job(job, tried.get(job.id, ()), None, accrual)) is not None]
    monthly = sum((disk.monthly for disk in disks if disk.monthly is not None), ZERO)
    return KeptJobDisks(len(disks), Priced(monthly, all(disk.monthly is not None for disk in disks)))


def attempt_of(job: Job, tried: Sequence[Attempt]) -> Attempt | None:
    """Returns the attempt whose disk is kept."""
    if not saves_on_disk(job) or not job.state.is_over or job.state is JobState.SUCCEEDED:
        return None
    last = tried[-1] if tried else None
    if last is None or last.state not in _THERE or job.disk_given_up_at is not None:
        return None
    return last


def is_deleted(job: Job, tried: Sequence[Attempt], checkpoint: SeenCheckpoint | None) -> bool:
    """Says whether the checkpoint lay on the disk of a VM that was deleted, or is deleted now."""
    if checkpoint is None or not saves_on_disk(job):
        return False
    last = tried[-1] if tried else None
    if last is None or last.state is AttemptState.OVER or checkpoint.looked_at < last.intended_at:
        return True
    return job.state.is_over and attempt_of(job, tried) is None


def holds(checkpoint: SeenCheckpoint | None) -> str:
    """Describes the data that would be lost with a disk, as far as it is known."""
    if checkpoint is None or (checkpoint.error and not checkpoint.resume_from):
        return "everything that it saved, which has not been listed"
    if not checkpoint.resume_from:
        return "everything that it saved, among which no checkpoint is complete"
    step = f" of step {checkpoint.step:,}" if checkpoint.step is not None else ""
    if checkpoint.error:
        seen = f"the checkpoint{step} in {checkpoint.resume_from} was complete when it was last seen"
        return f"everything that it saved, which could not be looked at lately: {seen}"
    return f"everything that it saved, up to the checkpoint{step} in {checkpoint.resume_from}"


def words(connection: Connection, job: Job, now: datetime) -> tuple[str, str]:
    """Describes the data on its disk, and its cost."""
    tried = attempts.of_jobs(connection, [job.id]).get(job.id, [])
    monthly = _monthly(job, tried[-1].zone, accrual_at(connection, now)) if tried else None
    seen = job_rows.checkpoint(connection, [job.id]).get(job.id)
    return holds(seen), _bills(monthly)


def _bills(monthly: Money | None) -> str:
    return f"{about_text(str(monthly))} a month" if monthly is not None else "a price that is not known"


def _monthly(job: Job, zone: str, accrual: Accrual) -> Money | None:
    recipe = job.recipe
    key = PriceKey(f"disk:{recipe.disk_type}", region_of(zone), ProvisioningModel.STANDARD)
    price = accrual.book.at(key, accrual.now)
    if price is None or price.unit is not Unit.GIB_MONTH:
        return None
    return Money(price.rate_nanos * recipe.disk_gib)
