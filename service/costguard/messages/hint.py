"""The hint that a job's metric stands still: its two buttons, and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.jobs.rows import job_rows
from costguard.messages.announcing import JobEvent
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.delivery.interaction import JobChoice
from costguard.model.delivery.message import JobButton
from costguard.model.event import Event
from costguard.model.job import Job


def decided(job: Job, event: Event) -> str:
    """Describes the choice of a user about this hint; "" while there is none."""
    if job.state.is_over:
        return f"It is over: it {job.state.value}."
    if job.cancel_asked_at is not None:
        return f"It is being cancelled, as {job.cancel_asked_by} asked."
    if job.cancel_after_at is not None:
        return f"{job.cancel_after_by} chose to stop it after its next checkpoint."
    if job.never_mind_at is not None and job.never_mind_at >= event.occurred_at:
        return f"Never mind, said {job.never_mind_by}: no hint before it has a new best value."
    return ""


def what_next(job: Job, event: Event) -> str:
    if chosen := decided(job, event):
        return chosen
    later = f"Stop it once its next checkpoint is saved: costguard cancel {job.id} --after-checkpoint. "
    return (later if job.spec.checkpoint is not None else "") + "Or never mind: nothing happens by itself."


def buttons(job: Job, event: Event) -> tuple[JobButton, ...]:
    """Returns the buttons of which a click still changes something."""
    if job.state.is_over or job.cancel_asked_at is not None:
        return ()
    never_mind = JobButton(job.id, JobChoice.NEVER_MIND, "Never mind")
    if job.cancel_after_at is not None:
        return (never_mind,)
    if decided(job, event):
        return ()
    stop = JobButton(job.id, JobChoice.STOP_AFTER, "Stop after the next checkpoint")
    return (stop, never_mind) if job.spec.checkpoint is not None else (never_mind,)


def changed(connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:  # noqa: ARG001 one of several
    """Hints in Slack about which something was decided since they were shown."""
    hints = [message for message in live if "hint" in message.data]
    jobs = job_rows.of_ids(connection, {str(message.data["job"]) for message in hints})
    return [one for one in hints if (job := jobs.get(str(one.data["job"]))) is None or shown(job) != one.shown]


def shown(job: Job) -> str:
    """The part of a hint's message that an edit is worth."""
    parts = (job.state.is_over, job.cancel_asked_at, job.cancel_after_at, job.never_mind_at)
    return "|".join(str(part) for part in parts)


def is_hint(event: Event) -> bool:
    return event.kind == JobEvent.STANDS_STILL
