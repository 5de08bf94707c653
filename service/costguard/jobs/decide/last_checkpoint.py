"""A cancel that waits for the job's next checkpoint: when it is due."""

from __future__ import annotations

from costguard.jobs.decide.view import CancelAfterCheckpoint, JobView
from costguard.model.attempt import AttemptState

_AT_WORK = frozenset({AttemptState.BOOTING, AttemptState.RUNNING})


def cancel_due(view: JobView) -> CancelAfterCheckpoint | None:
    """Once a checkpoint was written after the request, or where nothing runs that could write one."""
    job, last, seen = view.job, view.last, view.checkpoint
    if job.cancel_after_at is None or job.cancel_asked_at is not None:
        return None
    by = job.cancel_after_by
    if last is None or (not last.attempt.is_open) or last.attempt.state is AttemptState.RESTING:
        return CancelAfterCheckpoint(
            job.id, by, f"{by} cancelled it after its next checkpoint, and nothing of it runs now."
        )
    if last.attempt.state not in _AT_WORK or seen is None or seen.error or seen.written_at is None:
        return None
    if seen.written_at <= job.cancel_after_at:
        return None
    which = f"step {seen.step:,}" if seen.step is not None else seen.resume_from
    return CancelAfterCheckpoint(job.id, by, f"{by} cancelled it after its next checkpoint, and {which} is saved.")
