"""What the next run resumes from, and how its command is told."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime

from costguard.engine.ports import Checkpoints
from costguard.errors import CheckpointError
from costguard.model.attempt import Attempt
from costguard.model.checkpoint import CheckpointLook, CheckpointState
from costguard.model.job import CheckpointPlan, Job, SeenCheckpoint

_MOST_TORN = 5  # are named; a run that tears each of its checkpoints has hundreds


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
    torn: list[str] = []
    for one in look.checkpoints:
        if one.is_complete:
            break
        if one.state is CheckpointState.TORN:
            torn.append(f"{one.name}: {' '.join(one.reasons)}".strip())
    if look.resume is None:
        return SeenCheckpoint(now, torn=tuple(torn[:_MOST_TORN]))
    best = look.resume
    return SeenCheckpoint(now, best.resume_from, best.step, best.written_at, torn=tuple(torn[:_MOST_TORN]))


def arguments(job: Job, attempt: Attempt) -> tuple[str, ...]:
    """What is added to the command of this attempt so that it resumes; nothing where it starts from the beginning."""
    plan = job.spec.checkpoint
    if plan is None or plan.is_on_disk or not attempt.resume_from:
        return ()
    return expanded(plan, attempt.resume_from, attempt.resume_step)


def expanded(plan: CheckpointPlan, checkpoint: str, step: int | None) -> tuple[str, ...]:
    """The words of the resume template. Replaced after splitting, so that a path with blanks stays one word."""
    values = {"{checkpoint}": checkpoint, "{location}": plan.location, "{step}": "" if step is None else str(step)}
    return tuple(_replaced(word, values) for word in shlex.split(plan.resume))


def _replaced(word: str, values: dict[str, str]) -> str:
    """Each placeholder once, from left to right: what was put in is not looked through again."""
    done, rest = "", word
    while rest:
        places = [(rest.find(name), name) for name in values if name in rest]
        if not places:
            break
        at, name = min(places)
        done, rest = done + rest[:at] + values[name], rest[at + len(name) :]
    return done + rest
