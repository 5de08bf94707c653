"""When a VM's own disk holds the only copy of what its job saved: then neither goes before its owner agreed."""

from __future__ import annotations

from datetime import timedelta

from costguard.jobs.runs import NEVER_A_VM, of_attempt
from costguard.jobs.view import AttemptView, JobView
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import Job, JobKind, JobState

_MOMENT = timedelta(minutes=2)  # an agent that spoke so lately would have reported that the command runs


def saves_on_disk(job: Job) -> bool:
    plan = job.spec.checkpoint
    return plan is not None and plan.is_on_disk and job.spec.kind is JobKind.TRAINING


def holds_only_copy(view: JobView, seen: AttemptView) -> bool:
    """Whether deleting the VM of this attempt, which ended, would lose what nobody agreed to lose.

    Where it is not known that nothing was saved, something was.
    """
    job, attempt = view.job, seen.attempt
    if not saves_on_disk(job) or job.disk_given_up_at is not None:
        return False
    if attempt.outcome is Outcome.SUCCEEDED or job.state is JobState.SUCCEEDED or attempt.outcome in NEVER_A_VM:
        return False
    if attempt.state is AttemptState.OVER or (not attempt.gce_id and attempt.heard.at is None):
        return False
    if seen.vm is not None and seen.vm.is_known and seen.vm.gone_at is not None:
        return False
    return not nothing_saved(view, seen)


def nothing_saved(view: JobView, seen: AttemptView) -> bool:
    """By its agent's word: the folder of its checkpoints is empty, or its command never began."""
    attempt, heard, look = seen.attempt, seen.attempt.heard, view.checkpoint
    if heard.exit is not None and look is not None and look.files == 0 and not look.error:
        return look.looked_at >= heard.exit.at and seen is view.last
    if of_attempt(attempt, view.interruptions) or attempt.restarts or heard.started_at is not None:
        return False
    if heard.exit is not None:
        return heard.exit.reason == "not_started"
    ended_at = attempt.ended_at
    return heard.at is not None and ended_at is not None and ended_at - heard.at <= _MOMENT


def disk_fate(job: Job) -> str:
    """What cancelling a job does to a disk that holds the only copy of what it saved; "" where none does."""
    if not saves_on_disk(job):
        return ""
    if job.disk_given_up_at is not None:
        return " Its disk is deleted, and everything that it saved there is lost."
    return f" Its disk is kept, and bills: costguard delete-disk {job.id} deletes it."
