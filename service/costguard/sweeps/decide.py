"""Decides what comes next for a sweep: which members are launched, and whether it is over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from costguard.jobs.decide.limits.ceiling import LEAST_RUN
from costguard.model.job import JobState
from costguard.model.money import Money, Priced
from costguard.model.sweep import MemberJob, Sweep, SweepMember, SweepState
from costguard.model.words import count_text, list_text
from costguard.sweeps.ceiling import CeilingUse
from costguard.sweeps.halving import Loser, SweepCurves, losers

_FEW = 3  # failed members that a reason names


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member with its present job; None before its launch."""

    member: SweepMember
    job: MemberJob | None = None

    @property
    def is_open(self) -> bool:
        return self.job is not None and not self.job.state.is_over

    @property
    def is_stopped(self) -> bool:
        """Says whether halving has stopped its present job."""
        return self.job is not None and self.member.stop is not None and self.member.stop.job_id == self.job.id


@dataclass(frozen=True, slots=True)
class SweepView:
    """Everything about one sweep. `use` is None where it has no ceiling.

    `rate` is the least that an hour of a VM of it has cost; None before the first, or where no price is known.
    `curves` is None where halving stops none of its members.
    """

    sweep: Sweep
    members: Sequence[MemberView]
    cost: Priced = field(default_factory=Priced)
    use: CeilingUse | None = None
    rate: Money | None = None
    curves: SweepCurves | None = None

    @property
    def waiting(self) -> list[MemberView]:
        return [view for view in self.members if view.job is None]

    @property
    def open(self) -> list[MemberView]:
        return [view for view in self.members if view.is_open]

    def in_state(self, state: JobState) -> list[MemberView]:
        return [view for view in self.members if view.job is not None and view.job.state is state]


@dataclass(frozen=True, slots=True)
class SweepDecision:
    """`launch` are numbers of members, `cancel` ids of jobs, `stop` members that halving ends."""

    state: SweepState
    reason: str
    launch: tuple[int, ...] = ()
    cancel: tuple[str, ...] = ()
    stop: tuple[Loser, ...] = ()
    is_spent: bool = False  # its ceiling keeps members from being launched


def decide(view: SweepView) -> SweepDecision:
    """The sweep's state and reason, and what is done now. The same view gives the same decision."""
    decision = _going_on(view)
    return decision if decision.state.is_over else replace(decision, stop=tuple(_losers(view)))


def _losers(view: SweepView) -> list[Loser]:
    """Returns the members that halving stops now; none of those that are being cancelled already."""
    sweep, curves = view.sweep, view.curves
    if not sweep.halves or sweep.halving is None or curves is None or curves.total is None:
        return []
    return losers(sweep.halving.eta, curves.members, curves.total, len(view.members))


def _going_on(view: SweepView) -> SweepDecision:
    sweep = view.sweep
    if sweep.state.is_over:
        return SweepDecision(sweep.state, sweep.reason)
    if sweep.cancel_asked_at is not None:
        return _cancelled(view)
    if not view.waiting:
        return SweepDecision(SweepState.RUNNING, counts_text(view)) if view.open else _over(view)
    numbers = [one.member.number for one in view.waiting][: max(sweep.at_once - len(view.open), 0)]
    if view.use is None or not numbers:
        return _launching(view, numbers)
    payable = launchable(view)
    if payable or view.open:
        return _launching(view, numbers[:payable], is_held=not payable)
    # Nothing runs any more that could leave something over.
    left = count_text(len(view.waiting), "member")
    reason = f"its ceiling of {sweep.ceiling} is spent: {view.cost.amount} so far; {left} could not be launched"
    return SweepDecision(SweepState.FAILED, f"{reason}; {counts_text(view)}", is_spent=True)


def _launching(view: SweepView, numbers: Sequence[int], *, is_held: bool = False) -> SweepDecision:
    reason = counts_text(view, len(numbers))
    if is_held:
        reason += f"; what is left of its ceiling of {view.sweep.ceiling} is reserved by those that run"
    return SweepDecision(SweepState.RUNNING, reason, tuple(numbers), is_spent=is_held)


def launchable(view: SweepView) -> int:
    """Counts the members that may be launched now, by their number at once and by the ceiling."""
    wanted = min(max(view.sweep.at_once - len(view.open), 0), len(view.waiting))
    if view.use is None:
        return wanted
    with_vm = {reservation.job_id for reservation in view.use.reservations}
    needy = sum(one.job is not None and one.job.id not in with_vm for one in view.open)
    return max(min(wanted, _payable(view.use, view.rate, wanted + needy) - needy), 0)


def _payable(use: CeilingUse, rate: Money | None, wanted: int) -> int:
    """Counts the VMs that the free amount pays for, each for the shortest run that is worth a VM."""
    if not use.free:
        return 0
    if rate is None:
        return wanted if not use.reservations else min(wanted, 1)
    least = rate.over(LEAST_RUN)
    return wanted if not least else min(wanted, use.free.nanos // least.nanos)


def _cancelled(view: SweepView) -> SweepDecision:
    """A job that was launched while the sweep was being cancelled is cancelled, too."""
    cancel = tuple(one.job.id for one in view.open if one.job is not None and not one.job.is_being_cancelled)
    if view.open:
        being = count_text(len(view.open), "member")
        by = view.sweep.cancel_asked_by or "an unknown user"
        return SweepDecision(SweepState.RUNNING, f"{by} cancels it; {being} may save first", cancel=cancel)
    if not view.waiting and len(view.in_state(JobState.SUCCEEDED)) == len(view.members):
        return _over(view)
    reason = f"cancelled by {view.sweep.cancel_asked_by or 'an unknown user'}; {counts_text(view)}"
    return SweepDecision(SweepState.CANCELLED, reason)


def _over(view: SweepView) -> SweepDecision:
    failed = view.in_state(JobState.FAILED)
    if failed:
        named = [f"{one.member.number} ({one.job.reason})" for one in failed[:_FEW] if one.job is not None]
        more = f", and {len(failed) - _FEW} more" if len(failed) > _FEW else ""
        which = "member" if len(failed) == 1 else "members"
        return SweepDecision(SweepState.FAILED, f"{counts_text(view)}; failed: {which} {list_text(named)}{more}")
    if not view.in_state(JobState.SUCCEEDED):
        return SweepDecision(SweepState.CANCELLED, f"every member was cancelled; {counts_text(view)}")
    return SweepDecision(SweepState.SUCCEEDED, counts_text(view))


def counts_text(view: SweepView, launching: int = 0) -> str:
    """`9 of 24 members succeeded, 4 are open, 10 wait, 1 failed`."""
    parts = [f"{len(view.in_state(JobState.SUCCEEDED))} of {count_text(len(view.members), 'member')} succeeded"]
    opened, waiting = len(view.open) + launching, len(view.waiting) - launching
    parts += [f"{opened} {'is' if opened == 1 else 'are'} open"] if opened else []
    parts += [f"{waiting} {'waits' if waiting == 1 else 'wait'}"] if waiting else []
    failed, cancelled = len(view.in_state(JobState.FAILED)), view.in_state(JobState.CANCELLED)
    losing = [one for one in cancelled if one.is_stopped]
    rest = len(cancelled) - len(losing)
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{len(losing)} {'was' if len(losing) == 1 else 'were'} stopped by halving"] if losing else []
    parts += [f"{rest} {'was' if rest == 1 else 'were'} cancelled"] if rest else []
    return ", ".join(parts)
