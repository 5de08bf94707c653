"""Where the next run of a job resumes, and the arguments that make its command do so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from costguard.errors import CheckpointError, CheckpointLocationUnavailable
from costguard.model.attempt import Attempt
from costguard.model.job import CheckpointPlan, Job, SeenCheckpoint, Terms
from costguard.model.ports import Checkpoints
from costguard_vm.model import suspects
from costguard_vm.model.checkpoint import CheckpointState, filled, words_of
from costguard_vm.model.suspects import ResumedRun


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The start of the next run: "" is the beginning. `seen` is the look that says so; None: nobody can look."""

    resume_from: str = ""
    step: int | None = None
    written_at: datetime | None = None
    seen: SeenCheckpoint | None = None
    passed_over: str = ""  # the newest complete checkpoint, where an attempt that resumed from it failed at once
    why: str = ""  # why another one is resumed from, or the same once more


FROM_THE_BEGINNING = ResumePoint()


def find(
    checkpoints: Checkpoints | None, job: Job, runs: Iterable[ResumedRun], terms: Terms, now: datetime
) -> ResumePoint:
    """The newest complete checkpoint of a job whose last run cannot write any more. Raises CheckpointError.

    Those from which `runs` resumed that failed at once are passed over while there is another. A location that cannot
    be read is an error, and never the beginning.
    """
    plan = job.spec.checkpoint
    if plan is None or plan.is_on_disk:
        return FROM_THE_BEGINNING
    if checkpoints is None:
        raise CheckpointError(f"Nobody can look at {plan.location}: this guard was built without access to it.")
    _, point, is_changing = trusted(checkpoints, plan, runs, terms, now)
    if is_changing:
        raise CheckpointLocationUnavailable(
            f"{plan.location} changed while it was read, though no VM of this job writes there.",
            "It is looked at again; give each run a location of its own.",
        )
    return point


def trusted(
    checkpoints: Checkpoints, plan: CheckpointPlan, runs: Iterable[ResumedRun], terms: Terms, now: datetime
) -> tuple[SeenCheckpoint, ResumePoint, bool]:
    """Looks at a plan's location: what is there, and the newest complete checkpoint that no run speaks against. True:
    none is complete, and one may still be written. Raises CheckpointError.
    """
    failed = suspects.suspects(runs, terms.quick_crash)
    look, newest, why = suspects.trusted(partial(checkpoints.look, plan.location, plan.look_for, None), failed)
    torn, best = look.passed_over, look.resume
    if best is None:
        is_changing = any(one.state is CheckpointState.CHANGING for one in look.checkpoints)
        seen = SeenCheckpoint(now, torn=torn, unrecognised=look.unprotected(now))
        return seen, ResumePoint(seen=seen), is_changing
    seen = SeenCheckpoint(now, best.resume_from, best.step, best.written_at, torn=torn)
    passed = newest.resume_from if newest is not None and newest.resume_from != best.resume_from else ""
    return seen, ResumePoint(best.resume_from, best.step, best.written_at, seen, passed, why), False


def has_saved(attempts: Sequence[Attempt], *looks: SeenCheckpoint | None) -> bool:
    """Says whether any checkpoint of a job was ever seen: resumed from, complete, or torn."""
    seen = [look for look in looks if look is not None]
    return any(one.resume_from for one in attempts) or any(
        look.resume_from or look.advanced_at or look.torn for look in seen
    )


def arguments(job: Job, attempt: Attempt) -> tuple[str, ...]:
    """Returns the words added to the command of this attempt so that it resumes; none where it starts from the
    beginning.

    Where the VM has the checkpoint on its disk, downloaded or left by an earlier run, its agent adds this.
    """
    plan = job.spec.checkpoint
    if plan is None or plan.is_on_disk or plan.local or not attempt.resume_from:
        return ()
    return expanded(plan, attempt.resume_from, attempt.resume_step)


def expanded(plan: CheckpointPlan, checkpoint: str, step: int | None) -> tuple[str, ...]:
    """The words of the resume template, for this checkpoint."""
    return tuple(filled(words_of(plan.resume), checkpoint, plan.location, step))
