"""A job VM's disk: whether it is full, and whether it holds the only copy of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from costguard.jobs.decide.view import NEVER_A_VM, AttemptView, JobView, of_attempt
from costguard.model.attempt import SETUP_FAILED, AttemptState, Exit, Outcome
from costguard.model.job import Job, JobKind, JobState
from costguard.model.words import size_text

_MOMENT = timedelta(minutes=2)  # an agent that spoke so lately would have reported that the command runs


def saves_on_disk(job: Job) -> bool:
    plan = job.spec.checkpoint
    return plan is not None and plan.is_on_disk and job.spec.kind is JobKind.TRAINING


def holds_only_copy(view: JobView, seen: AttemptView) -> bool:
    """Says whether deleting the VM of this attempt, which ended, would lose data that nobody agreed to lose.

    Where it is not known that nothing was saved, something was.
    """
    job, attempt = view.job, seen.attempt
    if not saves_on_disk(job) or job.disk_given_up_at is not None:
        return False
    if attempt.outcome is Outcome.SUCCEEDED or job.state is JobState.SUCCEEDED or attempt.outcome in NEVER_A_VM:
        return False
    if attempt.state is AttemptState.OVER or (not attempt.gce_id and attempt.agent.at is None):
        return False
    if seen.vm is not None and seen.vm.is_known and seen.vm.gone_at is not None:
        return False
    return not nothing_saved(view, seen)


def nothing_saved(view: JobView, seen: AttemptView) -> bool:
    """Says, by its agent's report, that the folder of its checkpoints is empty, or its command never began."""
    attempt, agent, look = seen.attempt, seen.attempt.agent, view.checkpoint
    if agent.exit is not None and look is not None and look.files == 0 and not look.error:
        return look.looked_at >= agent.exit.at and seen is view.last
    if of_attempt(attempt, view.interruptions) or attempt.restarts or agent.started_at is not None:
        return False
    if agent.exit is not None:
        return agent.exit.reason in ("not_started", SETUP_FAILED)
    ended_at = attempt.ended_at
    return agent.at is not None and ended_at is not None and ended_at - agent.at <= _MOMENT


def disk_fate(job: Job) -> str:
    """Describes the effect of a cancel on a disk that holds the only copy of what it saved; "" where none does."""
    if not saves_on_disk(job):
        return ""
    if job.disk_given_up_at is not None:
        return " Its disk is deleted, and everything that it saved there is lost."
    return f" Its disk is kept, and bills: costguard delete-disk {job.id} deletes it."


FULL_BYTES = 1 << 20  # with less nothing of use can be written
_LOW_SHARE = 10  # percent
_LOW_MOST = 20 << 30  # bytes: on a large disk a tenth is plenty


class DiskState(StrEnum):
    OK = "ok"
    LOW = "low"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class DiskReading:
    """`text` is empty while there is room."""

    state: DiskState
    mount: str
    free: int  # bytes
    total: int | None
    text: str


def disk_of(machine: Mapping[str, object]) -> DiskReading | None:
    """Reads the disk from the figures of an agent's heartbeat; None where the free space is missing."""
    free, total, mount = (machine.get(f"disk_{name}") for name in ("free_bytes", "total_bytes", "mount"))
    if not isinstance(free, int) or isinstance(free, bool) or free < 0:
        return None
    whole = total if isinstance(total, int) and total > 0 else None
    where = mount if isinstance(mount, str) and mount else "/"
    if free < FULL_BYTES:
        return DiskReading(DiskState.FULL, where, free, whole, full_text(free, where))
    if whole is not None and free < min(whole * _LOW_SHARE // 100, _LOW_MOST):
        text = f"disk nearly full: {size_text(free)} of {size_text(whole)} left on {where}"
        return DiskReading(DiskState.LOW, where, free, whole, text)
    return DiskReading(DiskState.OK, where, free, whole, "")


def filled(end: Exit) -> str:
    """Explains why a command may have failed:

    `disk full: 0 bytes left on /`; "" where there was room, or nobody knows.
    """
    if end.disk_free is None or end.disk_free >= FULL_BYTES:
        return ""
    return full_text(end.disk_free, end.disk_mount or "/")


def full_text(free: int, mount: str) -> str:
    return f"disk full: {size_text(free)} left on {mount}"
