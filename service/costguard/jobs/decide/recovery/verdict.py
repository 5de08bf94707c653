"""Decides whether a job is over once its last run has ended, and why."""

from __future__ import annotations

from collections.abc import Sequence

from costguard.jobs.decide.limits.ceiling import is_stopped_by_deadline
from costguard.jobs.decide.recovery.ended_runs import (
    VAIN,
    crashes,
    ended_runs,
    failures,
    has_saved,
    length_at_end,
    preemptions,
    saves_unseen,
)
from costguard.jobs.decide.recovery.failures import Failure
from costguard.jobs.decide.view import NEVER_A_VM, NO_ROOM, JobContext, JobView
from costguard.model.attempt import FINAL_STOPS, SETUP_FAILED, Attempt, AttemptState, Outcome
from costguard.model.buying import longest_run
from costguard.model.duration import span_text
from costguard.model.job import EarlyEnd, JobKind, JobState, OnHang, Terms
from costguard.model.words import count_text

_IN_VAIN = 3  # VMs in a row that were lost before anything new was saved
_RESTARTS = 3  # after hangs, where a job asks for restarts and does not say how many


Verdict = tuple[JobState, str]


def verdict(view: JobView, context: JobContext) -> Verdict | None:
    """The final state and its reason; None where the job goes on. Only for jobs without an open attempt."""
    job, last = view.job, view.last
    if last is not None and last.attempt.outcome is Outcome.SUCCEEDED:
        return JobState.SUCCEEDED, f"{last.attempt.reason}{_after(view)}"
    if job.cancel_asked_at is not None:
        state = JobState.SUCCEEDED if job.early is EarlyEnd.FLAT else JobState.CANCELLED
        is_lost = last is not None and last.attempt.outcome is Outcome.NOT_PUBLISHED
        lost = f"; {last.attempt.reason}" if last is not None and is_lost else ""
        return state, f"{job.cancel_text}{lost}{_after(view)}"
    if is_stopped_by_deadline(job, context.now):
        saved = f"; what it saved stays at {job.spec.checkpoint.location}" if job.spec.checkpoint is not None else ""
        return JobState.FAILED, f"stopped because its deadline has passed{saved}{_after(view)}"
    if last is None:
        return None
    attempt = last.attempt
    match attempt.outcome:
        case Outcome.REFUSED:
            return JobState.FAILED, f"Google refused its VM: {attempt.reason}"
        case Outcome.REMOVED | Outcome.CANCELLED:
            return JobState.CANCELLED, f"{attempt.reason}{_after(view)}"
    if job.spec.kind is JobKind.DEV:
        return _dev(attempt)
    if would_repeat(view, attempt, context.terms) or setup_would_repeat(view, attempt):
        return (
            JobState.FAILED,
            f"{attempt.reason}; another attempt would fail in the same way{_after(view)}{_said(attempt)}",
        )
    if (why := too_many(view, context.terms)) != "":
        return JobState.FAILED, f"{why}{_after(view)}"
    if came_to_its_limit_in_vain(view):
        return JobState.FAILED, f"{attempt.reason}, and no newer checkpoint was saved: another VM would do no better"
    if attempt.state is AttemptState.KEPT:  # another VM would begin without what its disk holds
        return JobState.FAILED, f"{attempt.reason}{_after(view)}"
    return None


def came_to_its_limit_in_vain(view: JobView) -> bool:
    """Says whether the last run had all the time that its recipe gives, and saved nothing new."""
    if view.last is None or view.last.attempt.outcome is not Outcome.TIME_LIMIT:
        return False
    attempt = view.last.attempt
    longest = longest_run(view.job.recipe, attempt.provisioning_model)
    is_recipes = attempt.stop_why not in FINAL_STOPS and attempt.max_run >= longest
    # A member of a sweep had its share, and another VM would use up what is left to others.
    return (is_recipes or view.common is not None) and not (has_saved(view, attempt) or saves_unseen(view))


def would_repeat(view: JobView, attempt: Attempt, terms: Terms) -> bool:
    """Says whether another attempt would fail in the same way: the agent says so, or how its command failed."""
    end = attempt.agent.exit
    if end is None or end.asked:
        return False
    if attempt.outcome in (Outcome.NOT_STARTED, Outcome.NOT_PUBLISHED):
        return end.repeats
    return attempt.outcome is Outcome.CRASHED and failures(view, terms)[-1] is Failure.REPEATS


def setup_would_repeat(view: JobView, attempt: Attempt) -> bool:
    """A setup that failed before it ever succeeded would fail on every VM; later it may be the network's fault."""
    end = attempt.agent.exit
    if attempt.outcome is not Outcome.NOT_STARTED or end is None or end.reason != SETUP_FAILED:
        return False
    began = [seen.attempt.agent.started_at for seen in view.attempts] + [one.started_at for one in view.interruptions]
    return all(moment is None for moment in began)


def too_many(view: JobView, terms: Terms) -> str:
    """Explains why it is not tried again, such as a crash loop; "" where it is."""
    spec = view.job.spec
    reason = view.last.attempt.reason if view.last is not None else ""
    if (preempted := preemptions(view)) > spec.max_preemptions:
        return f"preempted {count_text(preempted, 'time')}, and {spec.max_preemptions} were allowed"
    meanings = failures(view, terms)
    loop = _crash_loop(view, meanings, terms)
    if loop >= terms.crash_loop:
        return f"a crash loop: {loop} times in a row {reason}, soon after its start; see its last output"
    allowed = spec.max_crashes or (_RESTARTS if spec.on_hang is OnHang.RESTART else 0)
    if (crashed := meanings.count(Failure.CRASH)) > allowed:
        how = f"it was crash {crashed}, and {allowed} were allowed" if allowed else "none is allowed (--max-crashes)"
        return f"{reason}; {how}; see its last output"
    if (vain := length_at_end(view, lambda run: run.outcome in VAIN and not run.has_saved(view))) >= _IN_VAIN:
        return f"{vain} times in a row its VM ended before it saved anything new; the last time {reason}"
    return ""


def _dev(attempt: Attempt) -> Verdict | None:
    """A VM for development is never replaced; only the search for a place goes on."""
    if attempt.outcome in NO_ROOM:
        return None
    if attempt.outcome is Outcome.TIME_LIMIT:
        return JobState.SUCCEEDED, f"its {span_text(attempt.max_run)} have passed; launch another one to continue"
    return JobState.FAILED, f"{attempt.reason}; a development VM is not replaced: launch another one"


def _after(view: JobView) -> str:
    """` (on 4 VMs, with 2 preemptions, 1 crash)`. What it cost is not said: the last seconds are not billed yet."""
    vms = sum(attempt.attempt.outcome not in NEVER_A_VM for attempt in view.attempts)
    if not vms:
        return ", before it had a VM"
    parts = [f"on {count_text(vms, 'VM')}"]
    parts += [f"with {count_text(number, 'preemption')}" for number in [preemptions(view)] if number]
    parts += [f"{count_text(number, 'crash', 'crashes')}" for number in [crashes(view)] if number]
    return f" ({', '.join(parts)})"


def _said(attempt: Attempt) -> str:
    end = attempt.agent.exit
    return f'; its output ends with "{end.last_line}"' if end is not None and end.last_line else ""


def _crash_loop(view: JobView, meanings: Sequence[Failure | None], terms: Terms) -> int:
    """Counts the runs at the end that failed one after the other, soon after their start or not by their own fault."""
    length = 0
    for run, meaning in zip(reversed(ended_runs(view)), reversed(meanings), strict=True):
        if run.outcome is not Outcome.CRASHED or not (run.is_quick(terms) or meaning is Failure.NOT_ITS_OWN):
            break
        length += 1
    return length
