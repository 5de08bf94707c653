"""Suspect checkpoints: complete by all rules, but a run that resumed from one failed at once.

One rule for a job's attempts and for the runs on one VM. Travels with the agent: Python 3.8 and its standard library
must do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Callable, Iterable, Sequence

from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook

_LONGEST = timedelta(hours=1)  # of loading and the first step, where the command reports its steps


@dataclass(frozen=True)
class ResumedRun:
    """A run of a command, what it resumed from ("": nothing), and how it ended."""

    number: int
    title: str  # `attempt 3`
    resume_from: str
    resume_step: int | None
    resumed_at: datetime
    step: int | None  # the last that it reported
    ran: timedelta
    is_crash: bool  # by itself, not because it was asked to stop

    @property
    def came_further(self) -> bool:
        return self.step is not None and self.resume_step is not None and self.step > self.resume_step

    def failed_at_once(self, quick_crash: timedelta) -> bool:
        """A crash before the first step past the one resumed from; without reported steps, soon after the start.

        A run that came further has loaded its checkpoint, so that something else failed it.
        """
        if not self.is_crash or not self.resume_from:
            return False
        if self.step is None or self.resume_step is None:
            return self.ran < quick_crash
        return not self.came_further and self.ran < _LONGEST

    def __str__(self) -> str:
        step = f"step {self.resume_step}, " if self.resume_step is not None else ""
        return f"{self.title} failed at once after it resumed from {step}{self.resume_from}"


def suspects(runs: Iterable[ResumedRun], quick_crash: timedelta) -> tuple[ResumedRun, ...]:
    """The runs that failed at once, the oldest first, without those whose checkpoint served a later run."""
    failed: dict[str, ResumedRun] = {}
    for run in runs:
        if run.failed_at_once(quick_crash):
            failed[run.resume_from] = run
        elif run.came_further:
            failed.pop(run.resume_from, None)
    return tuple(sorted(failed.values(), key=lambda run: run.number))


def suspected_by(checkpoint: Checkpoint, failed: Sequence[ResumedRun]) -> ResumedRun | None:
    """The run that speaks against a checkpoint. One that was written again since is another checkpoint."""
    path, written_at = checkpoint.resume_from, checkpoint.written_at
    return next((run for run in failed if run.resume_from == path and written_at <= run.resumed_at), None)


def trusted(
    look_inside: Callable[[int], CheckpointLook], failed: Sequence[ResumedRun]
) -> tuple[CheckpointLook, Checkpoint | None, str]:
    """A look with the checkpoint to resume from, the newest complete one, and why another is resumed from, or "".

    The newest is passed over while a run that resumed from it failed at once and another is complete. `look_inside`
    examines at least so many checkpoints.
    """
    look = look_inside(1)
    newest = look.resume
    failure = suspected_by(newest, failed) if newest is not None else None
    if newest is None or failure is None:
        return look, newest, ""
    look = look_inside(len(look.checkpoints))
    complete = [one for one in look.checkpoints if one.is_complete]
    other = next((one for one in complete if suspected_by(one, failed) is None), None)
    if other is None:
        return look, newest, f"{failure}, and no other is complete: it is tried once more"
    return replace(look, resume=other), newest, f"{failure}: the complete checkpoint before it is tried"
