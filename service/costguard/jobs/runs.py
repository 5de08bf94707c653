"""The present run of an attempt: what its agent and the ledger tell of it, without what they told of runs before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.jobs.view import AttemptView, Circumstances, VmStanding
from costguard.model.attempt import Attempt, AttemptState, Heard, Interruption, Outcome
from costguard.model.instance import Status

NO_ROOM = frozenset({Outcome.STOCKOUT, Outcome.QUOTA})
NEVER_A_VM = NO_ROOM | {Outcome.REFUSED}
_AT_REST = frozenset({Status.STOPPED, Status.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Run:
    """`number` is the key of its interruption. A VM that is started again has had runs before this one."""

    attempt: Attempt
    number: int
    heard: Heard  # empty before the first word of this run
    vm: VmStanding | None  # None: not seen in this run

    before: datetime | None  # when the run before it ended; None for the first

    @property
    def began_at(self) -> datetime | None:
        """When its VM came up; None where that was not seen yet of a VM that was started again."""
        started = self.vm.started_at if self.vm is not None else None
        known = [each for each in (self.attempt.made_at, self.attempt.asked_at, started) if each is not None]
        known = [each for each in known if self.before is None or each > self.before]
        return max(known, default=self.attempt.intended_at if self.before is None else None)


def present_run(seen: AttemptView, interruptions: Sequence[Interruption]) -> Run:
    """What was heard and seen of a run that was interrupted stays written down until there is news of the next."""
    attempt, heard, vm = seen.attempt, seen.attempt.heard, seen.vm
    before = of_attempt(attempt, interruptions)
    if before and attempt.outcome is before[-1].outcome:
        before = before[:-1]  # that is how this run ended
    if not before:
        return Run(attempt, heard.run, heard, vm, None)
    last = before[-1].happened_at
    if heard.run in {each.run for each in before}:
        heard = Heard()
    if vm is not None and vm.gone_at is None and (vm.started_at is None or vm.started_at <= last):
        vm = None
    return Run(attempt, heard.run or -attempt.restarts, heard, vm, last)


def of_attempt(attempt: Attempt, interruptions: Sequence[Interruption]) -> list[Interruption]:
    """Its own, the oldest first."""
    mine = (each for each in interruptions if each.attempt_id == attempt.id)
    return sorted(mine, key=lambda each: each.happened_at)


def has_ended(vm: VmStanding | None) -> bool:
    """Whether it was seen to run no more; False where nobody could look."""
    if vm is None or not vm.is_known:
        return False
    return vm.gone_at is not None or vm.ended_at is not None or vm.status in _AT_REST


def may_write(seen: AttemptView, interruptions: Sequence[Interruption], about: Circumstances) -> datetime | bool:
    """Whether something on the VM of an attempt that ended can still write; a moment: until then, at the latest.

    A preempted VM is powered off 30 s after its notice. Of any other, nothing but its agent's last word, or the sight
    of it at rest or gone, proves that.
    """
    attempt = seen.attempt
    if attempt.state is AttemptState.OVER or attempt.outcome in NEVER_A_VM:
        return False
    run = present_run(seen, interruptions)
    if run.heard.exit is not None:
        return False
    if run.vm is not None and run.vm.is_known and (run.vm.gone_at is not None or run.vm.status in _AT_REST):
        return False
    if attempt.outcome is Outcome.PREEMPTED:
        known = [each.happened_at for each in of_attempt(attempt, interruptions)[-1:]]
        known += [run.heard.at] if run.heard.at is not None else []
        until = max(known, default=attempt.ended_at or about.now) + about.terms.dying
        return until if until > about.now else False
    return True
