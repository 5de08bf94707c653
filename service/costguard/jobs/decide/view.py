"""The inputs of a decision about one job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard.jobs.decide.planned import JobPlan
from costguard.model.attempt import AgentState, Attempt, AttemptState, GangRound, Interruption, Outcome
from costguard.model.generation import Generation
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.job import Job, JobState, SeenCheckpoint, Terms
from costguard.model.launch import LONGEST_NOTICE, PlacementPolicy
from costguard.model.lifetime import EndReason
from costguard.model.money import ZERO, Money, Priced, rate_text


def place_of(attempt: Attempt) -> str:
    """`us-central1-a (Spot)`."""
    return f"{attempt.zone} ({attempt.provisioning_model.in_words})"


def an_hour(rate: Money | None) -> str:
    return f"{rate_text(rate)} an hour" if rate is not None else "a price that is not known"


NO_ROOM = frozenset({Outcome.STOCKOUT, Outcome.QUOTA})
NEVER_A_VM = NO_ROOM | {Outcome.REFUSED}
# Whether Google was asked, or has done it, is found out before anything else: nobody can delete what may not be there.
UNSETTLED = frozenset({AttemptState.INTENDED, AttemptState.ASKED, AttemptState.RESTARTING})
_NOT_RUNNING = frozenset({Status.STOPPED, Status.SUSPENDED})


@dataclass(frozen=True, slots=True)
class PresentRun:
    """`number` is the key of its interruption. A VM that is started again has had runs before this one."""

    attempt: Attempt
    number: int
    agent: AgentState  # empty before the first word of this run
    vm: VmState | None  # None: not seen in this run

    before: datetime | None  # when the run before it ended; None for the first

    @property
    def began_at(self) -> datetime | None:
        """Returns when its VM came up; None where that was not seen yet of a VM that was started again."""
        started = self.vm.started_at if self.vm is not None else None
        moments = [moment for moment in (self.attempt.made_at, self.attempt.asked_at, started) if moment is not None]
        moments = [moment for moment in moments if self.before is None or moment > self.before]
        return max(moments, default=self.attempt.intended_at if self.before is None else None)


def present_run(seen: AttemptView, interruptions: Sequence[Interruption]) -> PresentRun:
    """Returns the present run.

    Reports and observations of an interrupted run stay stored until there is news of the next.
    """
    attempt, agent, vm = seen.attempt, seen.attempt.agent, seen.vm
    if attempt.formation:  # an interrupted round of a gang ends no VM
        taken = [one.run for one in of_attempt(attempt, interruptions)]
        return PresentRun(attempt, -len(taken) if agent.run in taken else agent.run, agent, vm, None)
    before = of_attempt(attempt, interruptions)
    if before and attempt.outcome is before[-1].outcome:
        before = before[:-1]  # that is how this run ended
    if not before:
        return PresentRun(attempt, agent.run, agent, vm, None)
    last = before[-1].happened_at
    if agent.run in {one.run for one in before}:
        agent = AgentState()
    if vm is not None and vm.gone_at is None and (vm.started_at is None or vm.started_at <= last):
        vm = None
    return PresentRun(attempt, agent.run or -attempt.restarts, agent, vm, last)


def of_attempt(attempt: Attempt, interruptions: Sequence[Interruption]) -> list[Interruption]:
    """Returns the attempt's own interruptions, the oldest first."""
    mine = (interruption for interruption in interruptions if interruption.attempt_id == attempt.id)
    return sorted(mine, key=lambda one: one.happened_at)


def has_ended(vm: VmState | None) -> bool:
    """Says whether it was seen to run no more; False where nobody could look."""
    if vm is None or not vm.is_known:
        return False
    return vm.gone_at is not None or vm.ended_at is not None or vm.status in _NOT_RUNNING


def dies_within(attempt: Attempt, terms: Terms) -> timedelta:
    """Returns how long after the announcement of a preemption something on its VM can write, at most.

    Google cuts the power 30 s after the notice that the VM was asked for; what it was asked for may not be known.
    """
    return (LONGEST_NOTICE if attempt.notice is None else attempt.notice) + terms.dying


def may_write(seen: AttemptView, interruptions: Sequence[Interruption], context: JobContext) -> datetime | bool:
    """Says whether something on the VM of an attempt that ended can still write; a moment: until then, at the latest.

    A preempted VM is powered off at the end of its notice and 30 s more: see `dies_within`. Of any other, nothing but
    its agent's last word, or the sight of it stopped or gone, proves that.
    """
    attempt = seen.attempt
    # A request of flex-start that was given up has a VM until it is deleted, and may be granted meanwhile.
    # So has one whose resize request was not seen to end.
    was_asked = attempt.provisioning_model is ProvisioningModel.FLEX_START and bool(attempt.gce_id or attempt.vm_group)
    if attempt.state is AttemptState.OVER or (attempt.outcome in NEVER_A_VM and not was_asked):
        return False
    run = present_run(seen, interruptions)
    if run.agent.exit is not None:
        return False
    if run.vm is not None and run.vm.is_known and (run.vm.gone_at is not None or run.vm.status in _NOT_RUNNING):
        return False
    if attempt.outcome is Outcome.PREEMPTED:
        moments = [one.happened_at for one in of_attempt(attempt, interruptions)[-1:]]
        moments += [run.agent.at] if run.agent.at is not None else []
        until = max(moments, default=attempt.ended_at or context.now) + dies_within(attempt, context.terms)
        return until if until > context.now else False
    return True


def may_any_write(
    seen: Sequence[AttemptView], interruptions: Sequence[Interruption], context: JobContext
) -> datetime | bool:
    """Says whether something on a VM of these attempts, all of which ended, can still write, as `may_write` does for
    one; a moment: until then, at the latest.
    """
    writers = [writer for one in seen if (writer := may_write(one, interruptions, context))]
    moments = [until for until in writers if isinstance(until, datetime)]
    return max(moments) if moments and len(moments) == len(writers) else bool(writers)


HOLD_AGAIN = timedelta(minutes=5)  # until budgets are looked at again: a new period may have begun


def rate_of(tried: Iterable[Attempt]) -> Money | None:
    """Returns the hourly cost of the VMs of these attempts together; None where that of one is not known."""
    rates = [one.rate for one in tried]
    return None if None in rates else sum((rate for rate in rates if rate is not None), ZERO)


def width_of(job: Job, tried: Iterable[Attempt]) -> int:
    """Counts the VMs that ran the last round that began: those that did its work together."""
    rounds = [(one.formation, one.round) for one in tried if one.round]
    return rounds.count(max(rounds)) if rounds else job.spec.nodes


def without_vm(view: JobView) -> JobState:
    """Queued until it has had a VM, recovering after that."""
    had_one = any(attempt.attempt.made_at is not None for attempt in view.attempts)
    return JobState.RECOVERING if had_one else JobState.QUEUED


def is_due(try_after: datetime | None, now: datetime) -> bool:
    return try_after is None or try_after <= now


def wait_stably(view: JobView, due: datetime, now: datetime) -> datetime:
    """The moment that is written down already, where it is still to come and not later: it need not be moved."""
    planned = view.job.next_at
    return planned if planned is not None and now < planned <= due else due


def earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


@dataclass(frozen=True, slots=True)
class VmState:
    """An attempt's VM as the ledger shows it. `is_known` is false where its zone could not be read."""

    status: Status
    is_known: bool = True
    gone_at: datetime | None = None
    ended_at: datetime | None = None  # of its last lifetime; None while it runs, or before it ever ran
    end_reason: EndReason | None = None
    ended_by: str = ""
    started_at: datetime | None = None  # of its last lifetime


@dataclass(frozen=True, slots=True)
class AttemptView:
    attempt: Attempt
    vm: VmState | None = None  # None: the ledger has not seen it


@dataclass(frozen=True, slots=True)
class CommonCeiling:
    """The share of a sweep's common ceiling for one of its jobs.

    `share` is what this job may still spend of it. `may_grow`: other members have VMs, which may leave more.
    """

    amount: Money
    share: Money
    may_grow: bool = False


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything about one job. `attempts` are all of it, the oldest first; at most the last one is open.

    In a move, `standby` is the attempt whose VM is made ready to take over from the last one; it is none of these.
    `cost` is what all attempts came to so far, and `spent` the same with their downloads, which its ceiling counts.
    `hold` is why no VM may be launched for it now ("" lets it), such as a budget that is spent; `pause` why a running
    Spot VM of it is to be stopped once it has saved.
    """

    job: Job
    attempts: tuple[AttemptView, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    cost: Priced = field(default_factory=Priced)
    downloads: Money = ZERO  # what its VMs paid so far for its inputs, on another bill
    checkpoint: SeenCheckpoint | None = None
    hold: str = ""
    pause: str = ""
    pause_at: datetime | None = None  # None: since nobody knows when, so nothing is waited for
    unknown: str = (
        ""  # why nothing may be launched at all: another VM may be at work on it, or none could be looked for
    )
    common: CommonCeiling | None = None  # of its sweep
    plan: JobPlan | None = None  # of a job with a deadline
    rest: timedelta | None = None  # how long its work still takes, of a gang that may grow; None: unknown
    standby: AttemptView | None = None
    budget_left: Money | None = None  # of the budget that leaves it the least; None: none bounds it
    budget_name: str = ""
    policies: tuple[PlacementPolicy, ...] = ()  # of its VMs, where they are to stand close together
    rounds: tuple[GangRound, ...] = ()  # of a gang, those that are over, the oldest first
    over_limit: str = ""  # why a limit on what is in use at once lets it have no more VMs now

    @property
    def spent(self) -> Money:
        return self.cost.amount + self.downloads

    @property
    def held_up(self) -> str:
        """Explains why no VM of it may begin now; "" where nothing speaks against it."""
        return self.no_work or self.over_limit

    @property
    def no_work(self) -> str:
        """Explains why its command may not begin now, also on VMs that it has; "" where nothing speaks against it."""
        return self.unknown or self.hold or self.pause

    @property
    def last(self) -> AttemptView | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def next_number(self) -> int:
        """Returns the number of its next attempt."""
        every = (*self.attempts, *([self.standby] if self.standby is not None else []))
        return max((seen.attempt.number for seen in every), default=0) + 1


@dataclass(frozen=True, slots=True)
class JobContext:
    """The context of all jobs at one moment.

    `listening_since`: from then on this guard heard agents without a gap; silence before that was its own.
    `all_silent`: of several agents none is heard, so the guard itself may be out of reach, and silence proves nothing.
    """

    terms: Terms
    now: datetime
    listening_since: datetime
    all_silent: bool = False
    generation: Generation = field(default_factory=Generation)
