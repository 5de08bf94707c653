"""Reports what the rules did, or would have done, in a span: which VMs, whose, and their cost after it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.access.rules import Rules
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime, rate_per_hour
from costguard.model.delivery.person import AccountLookup
from costguard.model.instance import InstanceKey, region_of
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money, Priced
from costguard.model.preset import Preset
from costguard.model.price import HOURS_A_MONTH
from costguard.model.reminder import Enforcement
from costguard.model.utilisation import Evidence, GpuUse, IdleState
from costguard.reminders import enforcement, ladder
from costguard.reminders.context import PlanContext
from costguard.reminders.decide import due_of
from costguard.reminders.ladder import DueMoment
from costguard.reminders.not_stopped import StopBlocker, why_not_stopped
from costguard.reminders.watched import WatchedVm, subject_of

FIRST_DAY = timedelta(days=1)  # what is known of less says nothing about a month
_HOUR, _MICROSECOND = timedelta(hours=1), timedelta(microseconds=1)
_NOTHING = Priced()

METHOD = (
    "Costs are from the ledger, without disks, which bill on while a VM is stopped: what each VM cost in this span "
    "after it was due (past its limit, or idle), and after the moment of its stop. That moment is the one that shadow "
    "mode recorded; where a preset only reminds, it is the earliest that its reminders, its grace and the quiet hours "
    "allow, had nobody answered. A month is that cost scaled from this span to 730 hours, once a day was watched."
)


class RuleOutcome(StrEnum):
    """The outcome of the rules for a VM."""

    STOPPED = "stopped"  # a rule stopped it
    WOULD_STOP = "would_stop"  # in shadow mode, or had its preset said `stop`
    REMINDED = "reminded"  # it is due, and the moment of a stop has not come


@dataclass(frozen=True, slots=True)
class ShadowStop:
    """A stop that shadow mode recorded for a run."""

    at: datetime
    due_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """A run that ended in the span, or goes on, as the rules saw it last: at its end, or now.

    `shadow` is the first stop that was recorded of it; `busy` what is measured of one that goes on.
    """

    vm: WatchedVm
    run: Lifetime
    shadow: ShadowStop | None = None
    busy: Evidence | None = None


@dataclass(frozen=True, slots=True)
class ReportedVm:
    """A VM that was due. `rate` is an hour of its machine; None: it has no price.

    `due_cost` and `left_cost` are what it cost in the span after it was due, and after `stop_at`. `asks` is who is
    reminded; "" where nobody can be. `saved` is only of a stop that was carried out.
    """

    key: InstanceKey
    name: str
    zone: str
    preset: str
    owner: str
    asks: str
    step: RuleOutcome
    why: str
    due_at: datetime
    stop_at: datetime | None
    ended_at: datetime | None
    reminders: int
    rate: Money | None
    due_cost: Priced
    left_cost: Priced = _NOTHING
    saved: Priced | None = None

    @property
    def month_at_rate(self) -> Money | None:
        """Returns its cost of 730 hours, if it ran on; None where it ended, or has no price."""
        return None if self.rate is None or self.ended_at is not None else Money(self.rate.nanos * HOURS_A_MONTH)


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A count of running VMs that no rule would stop now, for one reason in words: `kept by GKE`."""

    count: int
    words: str


@dataclass(frozen=True, slots=True)
class FleetReport:
    """The report of [since, until). `watched_since` is None before the first look at any project."""

    since: datetime
    until: datetime
    watched_since: datetime | None
    is_shadow: bool
    channel: str  # "" where Slack is not set up, and nobody can be reminded
    running: int
    gpu_use: GpuUse
    vms: tuple[ReportedVm, ...] = ()
    left_alone: tuple[LeftAlone, ...] = ()
    only_remind: tuple[str, ...] = ()  # presets of reported VMs that only remind
    unread: tuple[str, ...] = ()  # projects that the last look could not read whole

    @property
    def watched_for(self) -> timedelta:
        return timedelta() if self.watched_since is None else max(timedelta(), self.until - self.watched_since)

    @property
    def is_early(self) -> bool:
        """Less than a day was watched."""
        return self.watched_for < FIRST_DAY

    def of(self, step: RuleOutcome) -> tuple[ReportedVm, ...]:
        return tuple(vm for vm in self.vms if vm.step is step)

    @property
    def people(self) -> tuple[str, ...]:
        """Returns everybody who is reminded about these VMs: addresses and channels."""
        return tuple(sorted({vm.asks for vm in self.vms if vm.asks}))

    @property
    def due_cost(self) -> Priced:
        return _sum(vm.due_cost for vm in self.vms)

    @property
    def left_cost(self) -> Priced:
        return _sum(vm.left_cost for vm in self.vms)

    @property
    def saved(self) -> Priced:
        return _sum(vm.saved for vm in self.vms if vm.saved is not None)

    @property
    def due_month(self) -> Priced | None:
        return self._month(self.due_cost)

    @property
    def left_month(self) -> Priced | None:
        return self._month(self.left_cost)

    def _month(self, cost: Priced) -> Priced | None:
        """Scales a cost in the span to 730 hours; None before a day was watched, and of less than one."""
        span = self.until - self.since
        if self.is_early or span < FIRST_DAY:
            return None
        scaled = cost.amount.nanos * (HOURS_A_MONTH * _HOUR // _MICROSECOND) // (span // _MICROSECOND)
        return Priced(Money(scaled), cost.whole)


class ReportMaker:
    """Judges runs by the rules with every preset set to stop, so that a preset which reminds says what it would do."""

    def __init__(
        self,
        rules: Rules,
        people: Mapping[str, AccountLookup],
        book: PriceBook,
        since: datetime,
        until: datetime,
    ) -> None:
        self._rules = replace(rules, presets={name: _stops(preset) for name, preset in rules.presets.items()})
        self._people = people
        self._book = book
        self._since, self._until = since, until

    def blocker(self, one: ReportedRun) -> StopBlocker:
        """Returns what kept it from being stopped when the rules saw it last."""
        return why_not_stopped(one.vm, self._rules, self._people, one.busy, self._seen_at(one)).cause

    def vm(self, one: ReportedRun) -> ReportedVm | None:
        """Reports a run that was due, or was to be stopped; None of one that was left alone."""
        context = PlanContext(self._rules, self._people, self._seen_at(one))
        due = due_of(one.vm, subject_of(one.vm), context)
        if one.shadow is None and (due is None or self.blocker(one) not in _DUE):
            return None
        end = min(one.run.ended_at or self._until, self._until)
        stop_at: datetime | None
        if one.shadow is not None:
            due_at, stop_at, why = one.shadow.due_at, one.shadow.at, one.shadow.reason
        else:
            assert due is not None  # else it was left alone above
            due_at, stop_at, why = due.at, self._stop_at(one.vm, due, context), due.why
        would_stop = stop_at is not None and stop_at < end
        region = region_of(one.run.zone)
        return ReportedVm(
            key=one.vm.key,
            name=one.vm.name,
            zone=one.vm.zone,
            preset=one.vm.preset,
            owner=one.vm.owner,
            asks=(one.vm.owner or context.channel(one.vm)) if self._rules.channel else "",
            step=RuleOutcome.WOULD_STOP if would_stop else RuleOutcome.REMINDED,
            why=why,
            due_at=due_at,
            stop_at=stop_at if would_stop or one.run.is_open else None,
            ended_at=one.run.ended_at,
            reminders=_accepted(one.vm),
            rate=rate_per_hour(one.run.shape, region, one.run.provisioning_model, self._book, end),
            due_cost=self.cost(one.run, due_at, end),
            left_cost=self.cost(one.run, stop_at, end) if stop_at is not None and would_stop else Priced(),
        )

    def _seen_at(self, one: ReportedRun) -> datetime:
        return one.run.ended_at or self._until

    def cost(self, run: Lifetime, moment: datetime, end: datetime) -> Priced:
        """Returns what a run cost in the span from this moment on, up to `end`."""
        begin = max(moment, self._since)
        if begin >= end:
            return Priced()
        bill = bill_lifetime(run, self._book, end, begin)
        return Priced(bill.amount, not bill.unpriced)

    def _stop_at(self, vm: WatchedVm, due: DueMoment, context: PlanContext) -> datetime | None:
        """Returns the earliest moment at which silence would be enough for a stop, by the reminders that were accepted;
        those still to come are expected as early as the rule and the quiet hours allow.
        """
        preset = context.preset(vm)
        if preset is None or due.firm_at is None:
            return None
        rule, firm_at = preset.reminders, due.firm_at
        standing = ladder.standing_of(vm.sent, vm.cycle)
        stages = enforcement.counted_of(rule, standing, due)
        if stages:
            return stages[-1].at + rule.grace
        # With Slack, a reminder that was not accepted by now comes later; without, all would have come since then.
        earliest = max(firm_at, context.now if self._rules.channel else self._since)
        accepted = [stage.at for stage in standing.warned if stage.at >= firm_at]
        at = max(accepted[-1] + rule.every, earliest) if accepted else earliest
        for number in range(len(accepted), max(1, rule.stop_after)):
            at = context.quiet_until(vm, at) or at
            if number + 1 < max(1, rule.stop_after):
                at += rule.every
        return at + rule.grace


_DUE = frozenset(
    {
        *(StopBlocker.NO_SLACK, StopBlocker.WEAK_EVIDENCE, StopBlocker.WARNINGS, StopBlocker.GRACE),
        *(StopBlocker.SHADOW, StopBlocker.DUE_NOW, StopBlocker.FAILED),
    }
)


def _stops(preset: Preset) -> Preset:
    return replace(preset, reminders=replace(preset.reminders, enforcement=Enforcement.STOP))


def _accepted(vm: WatchedVm) -> int:
    return len({(one.cycle, one.stage) for one in vm.sent if one.accepted_at is not None})


_WORDS = {
    StopBlocker.JOB: "at work on a job, which has limits of its own",
    StopBlocker.PROTECTED: "protected by a label or the settings",
    StopBlocker.NO_LIMIT: "of a preset without a limit",
    StopBlocker.NO_PRESET: "of a preset that the settings do not have",
    StopBlocker.KEPT: "kept by a person for now",
    StopBlocker.NOT_READ: "where the last look could not read",
    StopBlocker.STOPPING: "being stopped already",
    StopBlocker.REQUESTED: "being stopped already",
}


def left_alone(runs: Iterable[tuple[ReportedRun, StopBlocker]]) -> tuple[LeftAlone, ...]:
    """Counts the VMs that run and are left alone, by the reason, the most first."""
    counts = Counter(_words(one, blocker) for one, blocker in runs)
    return tuple(
        LeftAlone(count, words) for words, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _words(one: ReportedRun, blocker: StopBlocker) -> str:
    if blocker is StopBlocker.KEEPER:
        keeper = one.vm.keeper
        return "of which it is not known who keeps them" if keeper is None else f"kept by {keeper.kind.in_words}"
    if blocker is StopBlocker.NOT_DUE:
        state = IdleState.UNKNOWN if one.busy is None else one.busy.state
        return _WITHIN[state]
    return _WORDS.get(blocker, "that no rule stops")


_WITHIN = {
    IdleState.BUSY: "busy and within their limits",
    IdleState.IDLE: "within their limits and not idle for long enough",
    IdleState.UNKNOWN: "within their limits (whether they are busy is not known)",
}


def in_order(vms: Iterable[ReportedVm]) -> tuple[ReportedVm, ...]:
    """Ranks VMs by what the rules came to, then unpriced ones first, then the most expensive."""
    steps = list(RuleOutcome)

    def key(vm: ReportedVm) -> tuple[int, bool, int, str]:
        cost = vm.left_cost if vm.step is RuleOutcome.WOULD_STOP else vm.due_cost
        return steps.index(vm.step), cost.whole, -cost.amount.nanos, vm.name

    return tuple(sorted(vms, key=key))


def only_remind(vms: Sequence[ReportedVm], rules: Rules) -> tuple[str, ...]:
    """Returns the presets of these VMs that only remind, in the settings' order."""
    there = {vm.preset for vm in vms}
    return tuple(
        name
        for name, preset in rules.presets.items()
        if name in there and preset.reminders.enforcement is Enforcement.REMIND
    )


def _sum(amounts: Iterable[Priced]) -> Priced:
    return sum(amounts, Priced())
