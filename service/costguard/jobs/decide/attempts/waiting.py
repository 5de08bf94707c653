"""Requests of flex-start that wait: when they are looked at, when they are given up, and what people are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from costguard.jobs.decide.actions import AskAgain, Proposal
from costguard.jobs.decide.view import AttemptView, JobContext, JobView, earliest, is_due
from costguard.model.attempt import Attempt
from costguard.model.launch import SHORTEST_WAIT
from costguard.model.moments import clock_text


def wait_of(view: JobView, attempt: Attempt) -> timedelta:
    """Returns how long the request may wait. No resize request is granted at once: Google accepts it first."""
    return max(view.job.recipe.wait, SHORTEST_WAIT) if attempt.vm_group else view.job.recipe.wait


def given_up_at(view: JobView, attempt: Attempt) -> datetime | None:
    """Returns when the guard gives a request up: a resize request waits without end. None: Google ends it itself."""
    return (attempt.asked_at or attempt.intended_at) + wait_of(view, attempt) if attempt.vm_group else None


def look_at_waiting(seen: AttemptView, step: Proposal, context: JobContext) -> Proposal:
    """Adds the next look at a request that waits to the step of its job."""
    attempt = seen.attempt
    if is_due(attempt.try_after, context.now):
        return replace(step, actions=(*step.actions, AskAgain(attempt.id, step.reason)))
    return replace(step, next_at=earliest(step.next_at, attempt.try_after))


def waits_text(view: JobView, attempt: Attempt, context: JobContext) -> str:
    """`waits in us-central1-a for flex-start since 12:10 UTC, until 14:10 UTC at the latest; it does not bill`."""
    since = attempt.asked_at or attempt.intended_at
    until = clock_text(since + wait_of(view, attempt), context.now)
    count = view.job.spec.nodes if attempt.number == attempt.formation or attempt.formation == 0 else 1
    what = f"{count} flex-start VMs at once" if count > 1 else "a flex-start VM"
    return (
        f"waits in {attempt.zone} for {what} since {clock_text(since, context.now)}, until {until} at the latest; "
        "a VM that waits does not bill"
    )
