"""Submits, cancels and resumes sweeps. All is recorded; the daemon's next turn acts on it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from datetime import timedelta

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.errors import Conflict, Forbidden, Invalid, Missing, Unavailable
from costguard.events import audit_log
from costguard.jobs.submit import intake, submission
from costguard.jobs.submit.code import CodeArchives
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Authority
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.model.ports import Clock, GoOn, always
from costguard.model.sweep import MOST_MEMBERS, Sweep, SweepState
from costguard.model.words import count_text, list_text
from costguard.sweeps import gather, stopping, sweep_events, sweep_rows
from costguard.sweeps.cancelling import cancel_jobs
from costguard.sweeps.decide import SweepView
from costguard.sweeps.members import SweepOrder
from costguard.sweeps.quote import SweepAssessor, SweepQuote
from costguard.sweeps.sweep_rows import NewMember

_ENDED_BADLY = frozenset({JobState.FAILED, JobState.CANCELLED})


class SweepService:
    """Submits, quotes, cancels and resumes sweeps. `new_id` makes ids such as s7k2m9q4; `wake` asks for a turn."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        rules: Rules,
        assessor: SweepAssessor,
        new_id: Callable[[], str],
        wake: Callable[[], None],
        code: CodeArchives,
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._assessor = assessor
        self._new_id = new_id
        self._wake = wake
        self._code = code

    def submit(
        self,
        order: SweepOrder,
        ceiling: Money | None,
        idempotency_key: str | None,
        via: str,
        authority: Authority | None = None,
        go_on: GoOn = always,
    ) -> tuple[Sweep, bool]:
        """The sweep, and whether it is new. Raises Invalid, Conflict where the key came with something else, and what
        `go_on` does.

        A repeat under its key is answered with the sweep, even where it would be refused by now.
        """
        digest = intake.digest_of([asdict(order), None if ceiling is None else ceiling.nanos])
        if idempotency_key is not None:
            with self._database.read() as connection:
                earlier = _of_key(connection, idempotency_key, digest)
            if earlier is not None:
                return earlier, False
        sweep_id = self._new_id()
        case = self._assessor.assess(order, sweep_id, ceiling, authority, go_on)
        if case.refusals:
            raise intake.refused("sweep", case.refusals, "Nothing was launched.")
        spec = case.cases[0].spec
        sweep = Sweep(
            id=sweep_id,
            name=order.name,
            owner=spec.owner,
            project=spec.project,
            preset=spec.preset,
            at_once=order.at_once,
            ceiling=ceiling,
            state=SweepState.RUNNING,
            halving=case.order.halving,
            reason=f"Submitted; the first of {count_text(len(case.plans), 'member')} are launched within seconds.",
            created_at=self._clock.now(),
            via=via,
        )
        members = [
            NewMember(plan.number, plan.parameters, one.priced, one.recipe)
            for plan, one in zip(case.plans, case.cases, strict=True)
            if one.recipe is not None
        ]
        with self._database.write() as connection:
            # Another request with this key may have come in meanwhile.
            earlier = _of_key(connection, idempotency_key, digest) if idempotency_key is not None else None
            if earlier is not None:
                return earlier, False
            sweep_rows.add(connection, sweep, members, idempotency_key, digest)
            event = sweep_events.submitted(sweep, len(members), case.warnings)
            audit_log.append(connection, [event], sweep.created_at)
        self._wake()
        return sweep, True

    def quote(
        self,
        order: SweepOrder,
        ceiling: Money | None,
        hours: timedelta,
        authority: Authority | None = None,
        go_on: GoOn = always,
    ) -> SweepQuote:
        """Quotes each member and all of it, with the reasons to refuse it. Nothing is stored."""
        return self._assessor.quote(order, ceiling, hours, authority, go_on)

    def cancel(self, sweep_id: str, by: str, reason: str, authority: Authority | None = None) -> tuple[Sweep, bool]:
        """The sweep, and whether this request is the first. Raises Missing, Forbidden, or Conflict.

        No member is launched any more, and each open one is cancelled as its job alone would be.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            sweep = self._theirs(connection, sweep_id, by, "cancel", authority)
            if sweep.state in (SweepState.SUCCEEDED, SweepState.FAILED):
                message = f"Sweep {sweep.title} is over: it {sweep.state.value}."
                raise Conflict(message, "There is nothing to cancel.", kind="sweep-over")
            why = f": {reason.rstrip('.')}" if reason else ""
            words = f"{by} cancels it{why}; its open members may save first"
            is_new = sweep_rows.ask_cancel(connection, sweep_id, by, words, now)
            sweep = sweep_rows.read(connection, sweep_id) or sweep
            if is_new:
                audit_log.append(connection, [sweep_events.cancel_asked(sweep, by, reason, now)], now)
                members = sweep_rows.members(connection, [sweep_id])[sweep_id]
                cancel_jobs(connection, sweep, [member.job_id for member in members if member.job_id], now)
        if is_new:
            self._wake()
        return sweep, is_new

    def keep(
        self, sweep_id: str, by: str, numbers: Collection[int] = (), authority: Authority | None = None
    ) -> tuple[Sweep, bool]:
        """Keeps members from being stopped by halving; with no numbers ends halving.

        The sweep, and whether that is new. Members that were stopped before are resumed by their number instead.
        Raises Missing, Forbidden, Conflict, or Invalid.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            sweep = self._theirs(connection, sweep_id, by, "change", authority)
            view = gather.views(connection, accrual_at(connection, now), [sweep_id])[sweep_id]
            _check_keep(view, numbers)
            is_new = stopping.keep(connection, view, numbers, by, now)
            return sweep_rows.read(connection, sweep_id) or sweep, is_new

    def resume(
        self,
        sweep_id: str,
        by: str,
        numbers: Collection[int] = (),
        ceiling: Money | None = None,
        at_once: int | None = None,
        authority: Authority | None = None,
    ) -> tuple[Sweep, list[int]]:
        """The sweep, and the members that get another job: those that failed, or `numbers` of them.

        Members of a cancelled sweep that it cancelled go on as well. What was never launched is launched now. A higher
        ceiling, or another number at once, holds from now on. Raises Missing, Forbidden, Conflict, or Invalid; and
        Missing or Unavailable where its code is gone, or cannot be looked for.
        """
        now = self._clock.now()
        with self._database.read() as connection:
            code = sweep_rows.code_of(connection, sweep_id)
        if code is not None:
            self._code.find(code.sha256)
        with self._database.write() as connection:
            sweep = self._theirs(connection, sweep_id, by, "resume", authority)
            view = gather.views(connection, accrual_at(connection, now), [sweep_id])[sweep_id]
            again = _again(view, numbers)
            changed = replace(sweep, ceiling=ceiling or sweep.ceiling, at_once=at_once or sweep.at_once)
            _check(view, changed, again, numbers)
            words = f"{by} resumed it; {count_text(len(again), 'member')} to be launched again"
            sweep_rows.resume(connection, changed, again, words)
            stopped = [one.member.number for one in view.members if one.member.number in again and one.is_stopped]
            sweep_rows.keep(connection, sweep_id, stopped, by, now)  # or halving would stop them at once
            audit_log.append(connection, [sweep_events.resumed(sweep, by, again, ceiling, now)], now)
            sweep = sweep_rows.read(connection, sweep_id) or sweep
        self._wake()
        return sweep, again

    def _theirs(self, connection: Connection, sweep_id: str, by: str, verb: str, authority: Authority | None) -> Sweep:
        sweep = sweep_rows.read(connection, sweep_id)
        if sweep is None:
            raise Missing(f"There is no sweep {sweep_id!r}.", "GET /api/v1/sweeps lists all of them.")
        if refusal := submission.cancel_refusal(by, sweep.owner, sweep.project, self._rules, authority, verb):
            raise Forbidden(refusal, "Ask one of them.", kind="not-yours")
        return sweep


def _again(view: SweepView, numbers: Collection[int]) -> list[int]:
    """Members that get another job. Those that a person cancelled by themselves, or that halving stopped, only where
    they are named.
    """
    wanted = {JobState.FAILED}
    if numbers or view.sweep.cancel_asked_at is not None:
        wanted = set(_ENDED_BADLY)
    ended = [
        one.member.number
        for one in view.members
        if one.job is not None and one.job.state in wanted and (numbers or not one.is_stopped)
    ]
    return [number for number in ended if not numbers or number in numbers]


def _check_keep(view: SweepView, numbers: Collection[int]) -> None:
    """Raises Conflict where halving stops nothing any more, and Invalid where there is no such member."""
    sweep = view.sweep
    if sweep.halving is None:
        message = f"Sweep {sweep.title} has no halving: none of its members is stopped as a loser."
        raise Conflict(message, "There is nothing to keep a member from.", kind="no-halving")
    if sweep.state.is_over:
        raise Conflict(
            f"Sweep {sweep.title} is over: it {sweep.state.value}.", "Nothing is stopped any more.", kind="sweep-over"
        )
    if unknown := sorted(set(numbers) - {one.member.number for one in view.members}):
        message = f"Sweep {sweep.title} has no member {unknown[0]}: it has {len(view.members)}."
        raise Invalid(message, "Nothing was changed.", kind="sweep-refused", fields=[("members", message)])
    if stopped := sorted(one.member.number for one in view.members if one.member.number in numbers and one.is_stopped):
        message = f"Member {stopped[0]} of sweep {sweep.title} was stopped by halving before."
        again = f"Let it go on from its checkpoint: costguard sweep resume {sweep.id} --member {stopped[0]}"
        raise Conflict(message, again, kind="member-stopped")


def _check(view: SweepView, changed: Sweep, again: Collection[int], numbers: Collection[int]) -> None:
    """Raises Conflict and Invalid where it cannot be resumed so."""
    sweep = view.sweep
    if sweep.cancel_asked_at is not None and not sweep.state.is_over:
        message = f"Sweep {sweep.title} is being cancelled, and some of its members still run."
        raise Conflict(message, "Resume it once it is cancelled.", kind="sweep-open")
    if unknown := sorted(set(numbers) - {one.member.number for one in view.members}):
        message = f"Sweep {sweep.title} has no member {unknown[0]}: it has {len(view.members)}."
        raise Invalid(message, "Nothing was resumed.", kind="sweep-refused", fields=[("members", message)])
    if unfit := sorted(set(numbers) - set(again)):
        some = list_text([str(number) for number in unfit])
        message = f"Of sweep {sweep.title}, {some} did not fail: what runs or has succeeded is not launched again."
        raise Conflict(message, "Name members that failed or were cancelled.", kind="nothing-to-resume")
    if not 1 <= changed.at_once <= MOST_MEMBERS:
        message = f"Between 1 and {MOST_MEMBERS} members may run at once."
        raise Invalid(message, "Nothing was resumed.", kind="sweep-refused", fields=[("at_once", message)])
    if changed.ceiling is not None and changed.ceiling <= view.cost.amount:
        message = f"Its ceiling of {changed.ceiling} is spent: its members came to {view.cost.amount}."
        fields = [("ceiling", message)]
        raise Invalid(message, "Give a higher one: --ceiling.", kind="sweep-refused", fields=fields)
    has_new_limits = (changed.ceiling, changed.at_once) != (sweep.ceiling, sweep.at_once)
    is_unfinished = bool(view.waiting) and sweep.state.is_over
    if not again and not is_unfinished and not (has_new_limits and not sweep.state.is_over):
        message = f"Nothing of sweep {sweep.title} failed or was left over."
        raise Conflict(message, "There is nothing to resume.", kind="nothing-to-resume")


def _of_key(connection: Connection, key: str, digest: str) -> Sweep | None:
    """The sweep that came with this key; None where the key is new. Raises Conflict."""
    earlier = sweep_rows.of_key(connection, key)
    if earlier is None:
        return None
    sweep, stored_digest = earlier
    intake.check_same(stored_digest, digest, "sweep")
    return sweep


def available_sweeps(sweeps: SweepService | None) -> SweepService:
    """Raises Unavailable where this server takes no sweeps."""
    if sweeps is None:
        raise Unavailable("This server takes no sweeps.", "Ask the one that was started with `costguard serve`.")
    return sweeps
