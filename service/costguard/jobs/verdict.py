"""Whether a job is over once its last attempt has ended, and how."""

from __future__ import annotations

from costguard.jobs.certain import would_repeat
from costguard.jobs.limits import crashes, has_saved, preemptions, saves_unseen, too_many
from costguard.jobs.runs import NEVER_A_VM, NO_ROOM
from costguard.jobs.view import Circumstances, JobView
from costguard.jobs.words import count, span
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.job import JobKind, JobState

Verdict = tuple[JobState, str]


def verdict(view: JobView, about: Circumstances) -> Verdict | None:
    """The final state and its reason; None where the job goes on. Only for jobs without an open attempt."""
    job, last = view.job, view.last
    if last is not None and last.attempt.outcome is Outcome.SUCCEEDED:
        return JobState.SUCCEEDED, f"{last.attempt.reason}{_after(view)}"
    if job.cancel_asked_at is not None:
        return JobState.CANCELLED, f"cancelled by {job.cancel_asked_by or 'somebody'}{_after(view)}"
    if last is None:
        return None
    attempt = last.attempt
    match attempt.outcome:
        case Outcome.REFUSED:
            return JobState.FAILED, f"Google refuses its VM: {attempt.reason}"
        case Outcome.REMOVED | Outcome.CANCELLED:
            return JobState.CANCELLED, f"{attempt.reason}{_after(view)}"
    if job.spec.kind is JobKind.DEV:
        return _dev(attempt)
    if would_repeat(attempt, about.terms):
        return JobState.FAILED, f"{attempt.reason}; another VM would end in the same way{_after(view)}"
    if (why := too_many(view, about.terms)) != "":
        return JobState.FAILED, f"{why}{_after(view)}"
    if came_to_its_limit_in_vain(view):
        return JobState.FAILED, f"{attempt.reason}, and no newer checkpoint was saved: another VM would do no better"
    if attempt.state is AttemptState.KEPT:  # another VM would begin without what its disk holds
        return JobState.FAILED, f"{attempt.reason}{_after(view)}"
    return None


def came_to_its_limit_in_vain(view: JobView) -> bool:
    """Whether the last run had all the time that its recipe gives, and saved nothing new."""
    if view.last is None or view.last.attempt.outcome is not Outcome.TIME_LIMIT:
        return False
    attempt = view.last.attempt
    is_recipes = attempt.stop_why != "ceiling" and attempt.max_run >= view.job.recipe.max_run
    return is_recipes and not (has_saved(view, attempt) or saves_unseen(view))


def _dev(attempt: Attempt) -> Verdict | None:
    """A VM for development is never replaced; only the search for a place goes on."""
    if attempt.outcome in NO_ROOM:
        return None
    if attempt.outcome is Outcome.TIME_LIMIT:
        return JobState.SUCCEEDED, f"its {span(attempt.max_run)} are over; launch another one to go on"
    return JobState.FAILED, f"{attempt.reason}; a VM for development is not replaced: launch another one"


def _after(view: JobView) -> str:
    """` after 2 preemptions, 1 crash, on 4 VMs, for $12.30`."""
    vms = sum(each.attempt.outcome not in NEVER_A_VM for each in view.attempts)
    if not vms:
        return ", before there was a VM"
    parts = [f"on {count(vms, 'VM')}"]
    parts += [f"with {count(number, 'preemption')}" for number in [preemptions(view)] if number]
    parts += [f"{count(number, 'crash', 'crashes')}" for number in [crashes(view)] if number]
    parts += [f"for {view.cost.amount}{'' if view.cost.whole else ' and more'}"]
    return f" ({', '.join(parts)})"
