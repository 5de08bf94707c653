"""Lets launches go ahead as far as limits on what is in use at once allow, in the order of their queue.

What one turn decides rests on the rows of that turn, which only the holder of the lease writes: each VM that is let go
ahead is an intended attempt before Google is called, and counts from then on, whatever becomes of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import Connection

from costguard.jobs.act.gather import Ceilings
from costguard.jobs.decide.actions import JobDecision, LaunchAttempt, RestartVm
from costguard.jobs.decide.gang.members import gang_of
from costguard.jobs.decide.limits.expected_starts import expected_starts
from costguard.jobs.decide.limits.in_use import limits_on, of_vm
from costguard.jobs.decide.limits.queue import Turn, Wanted
from costguard.jobs.decide.limits.queue_words import why_it_waits
from costguard.jobs.decide.view import JobView
from costguard.jobs.reports.limits.limit_state import QueueReader, QueueState
from costguard.jobs.rows.limits import limit_rows
from costguard.model.budget import FleetLimit
from costguard.model.reminder import Team

Decided = tuple[JobView, JobDecision]


@dataclass(frozen=True, slots=True)
class LimitWaitsNote:
    """Notes who waits for a limit from now on, and who does not any more."""

    waits: Sequence[Wanted]
    no_more: Sequence[str]

    @property
    def subject(self) -> str:
        return min([*(one.job for one in self.waits), *self.no_more])

    def write(self, connection: Connection, now: datetime) -> bool:  # noqa: ARG002 as all notes have it
        limit_rows.save(connection, self.waits, self.no_more)
        return False


@dataclass(frozen=True, slots=True)
class Admitted:
    """The decisions that may be carried out, what is noted, and the jobs whose turn has come: decide on them next."""

    decided: Sequence[Decided]
    notes: Sequence[LimitWaitsNote] = ()
    woken: frozenset[str] = frozenset()


class Admission:
    """Holds launches back where limits are set; without any it costs nothing."""

    def __init__(self, limits: Sequence[FleetLimit] = (), teams: Sequence[Team] = ()) -> None:
        self._limits = limits
        self._reader = QueueReader(limits, teams)

    def read(self, connection: Connection, now: datetime) -> QueueState:
        return self._reader.read(connection, now)

    def due(self, connection: Connection, now: datetime) -> set[str]:
        """Returns the jobs that wait and whose turn has come."""
        if not self._limits or not limit_rows.is_any_waiting(connection):
            return set()
        state = self._reader.read(connection, now)
        turns = state.line_up(self._limits, {}, now)
        return {turn.wanted.job for turn in turns if turn.count and turn.wanted.job in state.stored}

    def admitted(
        self,
        decided: Sequence[Decided],
        state: QueueState,
        again: Callable[[JobView], JobDecision | None],
        now: datetime,
    ) -> Admitted:
        """Decides once more, with `again`, on each job whose launch must wait.

        Jobs that wait and are not decided on now keep their places before later ones.
        """
        if not self._limits:
            return Admitted(decided)
        launches = {
            view.job.id: wanted
            for view, decision in decided
            if (wanted := self._wanted(view, decision, state.stored.get(view.job.id), now)) is not None
        }
        decided_ids = {view.job.id for view, _ in decided}
        absent = {job_id: one for job_id, one in state.stored.items() if job_id not in decided_ids}
        # Of a job that is decided on now only what it wants now counts, or nothing.
        queue = replace(state, stored=absent)
        turns = {turn.wanted.job: turn for turn in queue.line_up(self._limits, launches, now)}
        must_wait = any(turns[job_id].count == 0 for job_id in launches)
        # Playing the queue on costs more than the rest, and only sentences need it.
        starts = expected_starts(self._limits, state.uses, list(turns.values()), now, state.past) if must_wait else {}
        titles = {job_id: turn.wanted.title for job_id, turn in turns.items()}
        ready: list[Decided] = []
        waits: list[Wanted] = []
        for view, decision in decided:
            turn = turns.get(view.job.id) if view.job.id in launches else None
            if turn is None or turn.count == turn.wanted.most:
                ready.append((view, decision))
                continue
            if turn.count:
                ready.append((view, _trimmed(decision, turn)))
                continue
            if not turn.wanted.is_extra:
                waits.append(turn.wanted)
            held = replace(view, over_limit=why_it_waits(turn, starts.get(view.job.id), titles, now))
            if (instead := again(held)) is not None:
                ready.append((held, _without_launches(instead)))
        waiting = {one.job for one in waits}
        no_more = sorted((state.stored.keys() & decided_ids) - waiting)
        notes = [LimitWaitsNote(waits, no_more)] if waits or no_more else []
        woken = {job_id for job_id in absent if turns[job_id].count}
        return Admitted(ready, notes, frozenset(woken))

    def _wanted(self, view: JobView, decision: JobDecision, before: Wanted | None, now: datetime) -> Wanted | None:
        """Returns what the decision launches; None where that is nothing, or no limit applies to it."""
        launches = [one for one in decision.actions if isinstance(one, LaunchAttempt)]
        restarts = {one.attempt_id for one in decision.actions if isinstance(one, RestartVm)}
        if not launches and not restarts:
            return None
        job, spec = view.job, view.job.spec
        by = self._reader.attribution.by(spec.project, spec.preset, spec.owner)
        if not limits_on(self._limits, by):
            return None
        rates = [one.rate for one in launches]
        rates += [seen.attempt.rate for seen in view.attempts if seen.attempt.id in restarts]
        priced = [rate for rate in rates if rate is not None]
        rate = max(priced) if len(priced) == len(rates) else None
        open_count = len(gang_of(view).open) if job.is_gang else 0
        return Wanted(
            job=job.id,
            title=job.title,
            by=by,
            one=of_vm(job.recipe.gpu_count, rate),
            most=len(rates),
            least=_least(view, len(rates), open_count),
            created_at=job.created_at,
            since=before.since if before is not None else now,
            priority=spec.priority,
            is_recovering=any(seen.attempt.made_at is not None for seen in view.attempts),
            is_extra=any(one.follows is not None for one in launches)
            or (spec.is_elastic and open_count >= spec.fewest),
            takes=spec.work,
        )


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """The bounds of launches next to budgets: the common ceilings of sweeps, and limits on what is in use at once."""

    ceilings: Ceilings = lambda *_: {}
    admission: Admission = field(default_factory=Admission)


def _least(view: JobView, count: int, open_count: int) -> int:
    """Returns how many of so many VMs it needs at least to go ahead: of a range what it lacks to run."""
    spec = view.job.spec
    return min(count, max(1, spec.fewest - open_count)) if spec.is_elastic else count


def _trimmed(decision: JobDecision, turn: Turn) -> JobDecision:
    """Leaves out the VMs of a range for which there is no room."""
    launches = [one for one in decision.actions if isinstance(one, LaunchAttempt)]
    kept = launches[: turn.count]
    actions = tuple(one for one in decision.actions if not isinstance(one, LaunchAttempt) or one in kept)
    reason = (
        f"{decision.reason}; limits on what is in use at once leave room for {turn.count} of {turn.wanted.most} now"
    )
    return replace(decision, actions=actions, reason=reason)


def _without_launches(decision: JobDecision) -> JobDecision:
    """Makes sure that nothing is launched by a decision that was made again because its launch must wait."""
    kept = tuple(one for one in decision.actions if not isinstance(one, LaunchAttempt | RestartVm))
    return decision if len(kept) == len(decision.actions) else replace(decision, actions=kept)
