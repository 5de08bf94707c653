"""What the next run resumes from, and how its command is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from costguard.engine.ports import Checkpoints
from costguard.errors import CheckpointError
from costguard.model.attempt import Attempt
from costguard.model.checkpoint import CheckpointLook, filled, words_of
from costguard.model.job import CheckpointPlan, Job, SeenCheckpoint


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where the next run begins: "" is the beginning. `seen` is the look that says so; None: nobody can look."""

    resume_from: str = ""
    step: int | None = None
    written_at: datetime | None = None
    seen: SeenCheckpoint | None = None


FROM_THE_BEGINNING = ResumePoint()


def find(checkpoints: Checkpoints | None, job: Job, now: datetime) -> ResumePoint:
    """The newest complete checkpoint of a job whose last run cannot write any more. Raises CheckpointError.

    A location that cannot be read is an error, and never the beginning.
    """
    plan = job.spec.checkpoint
    if plan is None or plan.is_on_disk:
        return FROM_THE_BEGINNING
    if checkpoints is None:
        raise CheckpointError(f"Nobody can look at {plan.location}: this guard was built without access to it.")
    look = checkpoints.look(plan.location, plan.look_for)
    found = seen_in(look, now)
    return ResumePoint(found.resume_from, found.step, found.written_at, found)


def seen_in(look: CheckpointLook, now: datetime) -> SeenCheckpoint:
    """What a look found, and which newer checkpoints were passed over."""
    if look.resume is None:
        return SeenCheckpoint(now, torn=look.passed_over)
    best = look.resume
    return SeenCheckpoint(now, best.resume_from, best.step, best.written_at, torn=look.passed_over)


def arguments(job: Job, attempt: Attempt) -> tuple[str, ...]:
    """What is added to the command of this attempt so that it resumes; nothing where it starts from the beginning."""
    plan = job.spec.checkpoint
    if plan is None or plan.is_on_disk or not attempt.resume_from:
        return ()
    return expanded(plan, attempt.resume_from, attempt.resume_step)


def expanded(plan: CheckpointPlan, checkpoint: str, step: int | None) -> tuple[str, ...]:
    """The words of the resume template, for this checkpoint."""
    return tuple(filled(words_of(plan.resume), checkpoint, plan.location, step))
