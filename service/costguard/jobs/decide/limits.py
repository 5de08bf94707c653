"""Decides whether a job is over, and what its ceiling, its deadline and its failures leave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from costguard.jobs.decide.failures import START, Failure, failure_of, failure_of_earlier
from costguard.jobs.decide.view import NEVER_A_VM, NO_ROOM, JobContext, JobView, of_attempt
from costguard.model.attempt import HUNG, SETUP_FAILED, Attempt, AttemptState, Interruption, Outcome
from costguard.model.backoff import Backoff
from costguard.model.buying import longest_run
from costguard.model.duration import span_text
from costguard.model.job import Job, JobKind, JobState, OnHang, Terms, WhenLate
from costguard.model.money import ZERO, Money
from costguard.model.words import count_text

Verdict = tuple[JobState, str]


def verdict(view: JobView, context: JobContext) -> Verdict | None:
    """The final state and its reason; None where the job goes on. Only for jobs without an open attempt."""
    job, last = view.job, view.last
    if last is not None and last.attempt.outcome is Outcome.SUCCEEDED:
        return JobState.SUCCEEDED, f"{last.attempt.reason}{_after(view)}"
    if job.cancel_asked_at is not None:
        return JobState.CANCELLED, f"cancelled by {job.cancel_asked_by or 'an unknown user'}{_after(view)}"
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


DEADLINE_NOTICE = timedelta(minutes=3)  # before its deadline, a job that stops then is given its notice


def is_stopped_by_deadline(job: Job, now: datetime) -> bool:
    """Says whether it may use no VM any more, because it was to stop rather than finish late."""
    spec = job.spec
    return spec.deadline is not None and spec.when_late is WhenLate.STOP and now >= spec.deadline - DEADLINE_NOTICE


def came_to_its_limit_in_vain(view: JobView) -> bool:
    """Says whether the last run had all the time that its recipe gives, and saved nothing new."""
    if view.last is None or view.last.attempt.outcome is not Outcome.TIME_LIMIT:
        return False
    attempt = view.last.attempt
    longest = longest_run(view.job.recipe, attempt.provisioning_model)
    is_recipes = attempt.stop_why not in ("ceiling", "deadline") and attempt.max_run >= longest
    # A member of a sweep had its share, and another VM would use up what is left to others.
    return (is_recipes or view.common is not None) and not (has_saved(view, attempt) or saves_unseen(view))


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


_WHOLE_SECOND = timedelta(seconds=1)
_FAILURES = frozenset({Outcome.CRASHED, Outcome.NOT_PUBLISHED, Outcome.LOST, Outcome.NOT_STARTED})


def wait(terms: Terms, job_id: str, number: int, failures: int) -> timedelta:
    """Doubled with every failure in a row, and a little different for each job, so that not all ask at once.

    The same attempt always waits equally long: a decision made twice is the same.
    """
    backoff = Backoff(terms.first_wait, terms.longest_wait)
    return backoff.after(failures, jitter=_jitter(f"{job_id}/{number}")) // _WHOLE_SECOND * _WHOLE_SECOND


def after_failures(view: JobView, terms: Terms) -> datetime | None:
    """Returns when it may be tried again: a command that fails, or VMs that come to nothing, are not tried again at
    once.
    """
    failures, ended = failures_in_a_row(view), ended_runs(view)
    if not failures or view.last is None or ended[-1].outcome not in _FAILURES or ended[-1].ended_at is None:
        return None
    return ended[-1].ended_at + wait(terms, view.job.id, view.last.attempt.number, failures)


def _jitter(key: str) -> float:
    """Returns a factor between three and five quarters."""
    return 0.75 + int.from_bytes(sha256(key.encode()).digest()[:4]) / 2**33


_NO_TIME = timedelta(0)


LEAST_RUN = timedelta(minutes=10)  # a VM for less would only boot
_IN_VAIN = 3  # VMs in a row that were lost before anything new was saved
_VAIN = frozenset({Outcome.LOST, Outcome.HOST_ERROR, Outcome.NOT_STARTED, Outcome.NOT_PUBLISHED})
_RESTARTS = 3  # after hangs, where a job asks for restarts and does not say how many
_SECOND = timedelta(seconds=1)


def remaining(view: JobView) -> Money | None:
    """Returns the amount that its ceiling and its sweep's leave it, never below zero; None where there is neither."""
    ceiling, common = view.job.spec.ceiling, view.common
    own = None if ceiling is None else max(ceiling - view.spent, ZERO)
    if common is None:
        return own
    return common.share if own is None else min(own, common.share)


def is_held_by_sweep(view: JobView) -> bool:
    """Says whether it is its sweep's ceiling that leaves it the least."""
    ceiling, common = view.job.spec.ceiling, view.common
    return common is not None and (ceiling is None or common.share < ceiling - view.spent)


def ceiling_text(view: JobView) -> str:
    """`its ceiling of $60`, or `its sweep's ceiling of $200`, whichever leaves it less."""
    if view.common is not None and is_held_by_sweep(view):
        return f"its sweep's ceiling of {view.common.amount}"
    return f"its ceiling of {view.job.spec.ceiling}"


def time_left(view: JobView, rate: Money, first: Money = ZERO) -> timedelta | None:
    """Returns the time for which its ceiling pays this rate after `first`, in whole seconds; None where nothing bounds
    it.
    """
    left = remaining(view)
    left = None if left is None else max(left - first, ZERO)
    if left is None or rate <= ZERO:
        return None
    return timedelta(seconds=left.nanos * 3600 // rate.nanos)


def max_run(view: JobView, rate: Money | None) -> timedelta | None:
    """Returns the time that its next VM may run at this rate; None where that is too short, or the ceiling could not be
    held.
    """
    longest = view.job.recipe.max_run // _WHOLE_SECOND * _WHOLE_SECOND
    if remaining(view) is None:
        return longest
    if rate is None:
        return None
    left = time_left(view, rate, view.job.spec.download_cost)
    if left is None:
        return longest
    return min(longest, left) if left >= LEAST_RUN else None


def preemptions(view: JobView) -> int:
    """Runs interrupted by preemption, each once."""
    return sum(run.outcome is Outcome.PREEMPTED for run in ended_runs(view))


def crashes(view: JobView) -> int:
    """Commands that failed by themselves; not those that could not be started, nor outputs that were not published."""
    return sum(run.outcome is Outcome.CRASHED for run in ended_runs(view))


def failures(view: JobView, terms: Terms) -> list[Failure | None]:
    """Returns the meaning of each ended run's failure, in the order of `ended_runs`; None of runs that ended
    otherwise.
    """
    has_worked, meanings = False, list[Failure | None]()
    for run in ended_runs(view):
        if run.outcome is not Outcome.CRASHED:
            meanings.append(None)
        elif run.attempt is None:
            meanings.append(failure_of_earlier(run.ran, has_worked, terms))
        else:
            meanings.append(failure_of(run.attempt, has_worked, terms))
        has_worked = has_worked or run.came_past_start
    return meanings


def failures_in_a_row(view: JobView) -> int:
    """Runs at the end that did not come far: crashes, lost VMs, commands that did not start."""
    return _length(view, lambda run: run.outcome in _FAILURES | _VAIN)


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
    if (vain := _length(view, lambda run: run.outcome in _VAIN and not run.has_saved(view))) >= _IN_VAIN:
        return f"{vain} times in a row its VM ended before it saved anything new; the last time {reason}"
    return ""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run of the command that ended; a VM that is started again has several. `began_at` is when it was requested.

    `ran` is None where the command was never seen to run.
    """

    outcome: Outcome
    began_at: datetime
    ended_at: datetime | None
    ran: timedelta | None
    attempt: Attempt | None = None  # where this is its last run, with the end that its agent reported, or a hang

    def is_quick(self, terms: Terms) -> bool:
        return self.ran is None or self.ran < terms.quick_crash

    @property
    def came_past_start(self) -> bool:
        """Says whether its command worked: it made a step, or ran for longer than a wrong option takes to show."""
        has_step = self.attempt is not None and self.attempt.agent.step is not None
        return has_step or (self.ran is not None and self.ran >= START)

    def has_saved(self, view: JobView) -> bool:
        """Says whether a newer checkpoint was seen since it began."""
        seen = view.checkpoint
        return seen is not None and seen.advanced_at is not None and seen.advanced_at > self.began_at


def ended_runs(view: JobView) -> list[EndedRun]:
    """All that ended before the work was done, each once, the oldest first; where there was no room, none ran."""
    tried = (seen.attempt for seen in view.attempts if seen.attempt.took_over)
    return [run for attempt in tried for run in _runs_of(attempt, view.interruptions)]


def has_saved(view: JobView, attempt: Attempt) -> bool:
    """Says whether a newer checkpoint was seen since the last run of this attempt began."""
    runs = _runs_of(attempt, view.interruptions)
    return bool(runs) and runs[-1].has_saved(view)


def saves_unseen(view: JobView) -> bool:
    """Says whether nobody could look at what it saved, so that nothing can be said about progress."""
    return view.job.spec.checkpoint is not None and (view.checkpoint is None or view.checkpoint.error != "")


def stop_at(view: JobView, attempt: Attempt, notice: timedelta, now: datetime) -> datetime | None:
    """When the command must be asked to stop, so that it has saved by the time its ceiling is reached."""
    left = time_left(view, attempt.rate) if attempt.rate is not None else None
    return None if left is None else now + left - notice


def _runs_of(attempt: Attempt, interruptions: Sequence[Interruption]) -> list[EndedRun]:
    runs: list[EndedRun] = []
    began_at, agent = attempt.intended_at, attempt.agent
    mine = of_attempt(attempt, interruptions)
    for one in mine:
        started_at = one.started_at or (agent.started_at if agent.run == one.run else None)
        ran = one.happened_at - started_at if started_at is not None else None
        is_reported = agent.exit is not None or attempt.stop_why == HUNG
        last = attempt if one is mine[-1] and is_reported and agent.run == one.run else None
        runs.append(EndedRun(one.outcome, began_at, one.noticed_at, ran, last))
        began_at = one.happened_at
    # The interruption of its last run and its own outcome are one end.
    is_known = any(one.outcome is attempt.outcome and one.happened_at == mine[-1].happened_at for one in mine)
    if attempt.outcome is None or attempt.outcome in NO_ROOM or is_known:
        return runs
    ran = None
    if agent.started_at is not None and agent.exit is not None:
        ran = agent.exit.at - agent.started_at
    last = attempt if agent.exit is not None else None
    return [*runs, EndedRun(attempt.outcome, began_at, attempt.ended_at, ran, last)]


def _crash_loop(view: JobView, meanings: Sequence[Failure | None], terms: Terms) -> int:
    """Counts the runs at the end that failed one after the other, soon after their start or not by their own fault."""
    length = 0
    for run, meaning in zip(reversed(ended_runs(view)), reversed(meanings), strict=True):
        if run.outcome is not Outcome.CRASHED or not (run.is_quick(terms) or meaning is Failure.NOT_ITS_OWN):
            break
        length += 1
    return length


def _length(view: JobView, holds: Callable[[EndedRun], bool]) -> int:
    """Counts the runs at the end for which this holds."""
    length = 0
    for run in reversed(ended_runs(view)):
        if not holds(run):
            break
        length += 1
    return length
