"""Lists the ended runs of a job's command, the meaning of each failure, counts of them, and the wait after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from costguard.jobs.decide.recovery.failures import START, Failure, failure_of, failure_of_earlier
from costguard.jobs.decide.view import NO_ROOM, JobView, of_attempt
from costguard.model.attempt import HUNG, Attempt, Interruption, Outcome
from costguard.model.backoff import Backoff
from costguard.model.job import Terms

FAILED = frozenset({Outcome.CRASHED, Outcome.NOT_PUBLISHED, Outcome.LOST, Outcome.NOT_STARTED})
VAIN = frozenset({Outcome.LOST, Outcome.HOST_ERROR, Outcome.NOT_STARTED, Outcome.NOT_PUBLISHED})
_WHOLE_SECOND = timedelta(seconds=1)


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
    tried = [seen.attempt for seen in view.attempts if seen.attempt.took_over]
    if view.job.is_gang:
        return _ends_of_rounds(tried, view.interruptions)
    return [run for attempt in tried for run in _runs_of(attempt, view.interruptions)]


def has_saved(view: JobView, attempt: Attempt) -> bool:
    """Says whether a newer checkpoint was seen since the last run of this attempt began."""
    runs = _runs_of(attempt, view.interruptions)
    return bool(runs) and runs[-1].has_saved(view)


def saves_unseen(view: JobView) -> bool:
    """Says whether nobody could look at what it saved, so that nothing can be said about progress."""
    return view.job.spec.checkpoint is not None and (view.checkpoint is None or view.checkpoint.error != "")


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
    return length_at_end(view, lambda run: run.outcome in FAILED | VAIN)


def length_at_end(view: JobView, holds: Callable[[EndedRun], bool]) -> int:
    """Counts the runs at the end for which this holds."""
    length = 0
    for run in reversed(ended_runs(view)):
        if not holds(run):
            break
        length += 1
    return length


def _ends_of_rounds(tried: Sequence[Attempt], interruptions: Sequence[Interruption]) -> list[EndedRun]:
    """Returns the runs of a gang that ended, each round once, however many of its VMs were lost; the earliest of each.

    VMs that were lost before a round began count once each time that the same node lost one.
    """
    first: dict[tuple[int, ...], EndedRun] = {}
    lost = Counter[tuple[int, int, int]]()
    for attempt in sorted(tried, key=lambda one: one.number):
        runs = _runs_of(attempt, interruptions)
        mine = (attempt.formation, attempt.node, attempt.round)
        for place, run in enumerate(runs):
            is_last = place == len(runs) - 1 and not attempt.is_open
            key = (attempt.formation, attempt.round, lost[mine]) if is_last else (attempt.id, -1, place)
            before = first.get(key)
            if before is None or _moment_of(run) < _moment_of(before):
                first[key] = run
        lost[mine] += 0 if attempt.is_open else 1
    return sorted(first.values(), key=_moment_of)


def _moment_of(run: EndedRun) -> datetime:
    return run.ended_at or run.began_at


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
    if not failures or view.last is None or ended[-1].outcome not in FAILED or ended[-1].ended_at is None:
        return None
    return ended[-1].ended_at + wait(terms, view.job.id, view.last.attempt.number, failures)


def _jitter(key: str) -> float:
    """Returns a factor between three and five quarters."""
    return 0.75 + int.from_bytes(sha256(key.encode()).digest()[:4]) / 2**33
