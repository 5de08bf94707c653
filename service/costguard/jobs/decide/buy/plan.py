"""Plans where a job with a deadline runs next: its view becomes what a policy sees, and the answer a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

from costguard.deadlines.hazards import NO_COUNTS, ZoneCounts, hazards_of, survival
from costguard.deadlines.situation import (
    Act,
    Choice,
    FlexAsked,
    FlexOffer,
    HeldVM,
    Kind,
    Policy,
    Situation,
    Why,
    Zone,
)
from costguard.deadlines.waits import NO_WAITS, WaitCounts
from costguard.jobs.decide.buy.placement import LaunchPlace, PlaceEvent
from costguard.jobs.decide.buy.plan_words import at_risk_text, reason_text
from costguard.jobs.decide.buy.rounds import Key, waited_for
from costguard.jobs.decide.buy.ways import flex_offer
from costguard.jobs.decide.limits.ceiling import max_run, remaining, vm_time_left
from costguard.jobs.decide.measures.work_left import ENDS, INTERVAL, overspent, unsaved
from costguard.jobs.decide.planned import AtRisk, JobPlan, Overhead, Risk, ShadowChoice, WorkLeft
from costguard.jobs.decide.view import NO_ROOM, JobContext, JobView, width_of
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.buying import models_of
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money

SPOT, ON_DEMAND, FLEX = ProvisioningModel.SPOT, ProvisioningModel.STANDARD, ProvisioningModel.FLEX_START
_KINDS: Mapping[ProvisioningModel, Kind] = {SPOT: "spot", ON_DEMAND: "on_demand", FLEX: "flex"}
_REQUESTED = frozenset({AttemptState.INTENDED, AttemptState.ASKED, AttemptState.WAITING})
_GIVES_UP = timedelta(minutes=3)  # until the VM of a request that is given up is seen to be gone
_HOUR = timedelta(hours=1)
_NOTHING = timedelta()
FRESH = timedelta(minutes=10)  # a checkpoint that is no older loses little when the job is moved
_LIKELY_BACK = 0.5  # the chance that a zone has recovered, from which on it is tried from a VM that runs on demand
_UP_SINCE = 0.5  # of the time since it was last seen out, a zone that is up again has been up for
_UNKNOWN_SPOT, _UNKNOWN_ON_DEMAND = 1.0, 3.0  # where no price is known at all
_TIED = frozenset({AttemptState.RESTING, AttemptState.RESTARTING})


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """The basis of a plan besides the job: places with their prices now, and their events."""

    places: Sequence[LaunchPlace]
    events: Sequence[PlaceEvent] = ()  # stockouts and preemptions, the oldest first
    work_left: WorkLeft | None = None
    overhead: Overhead | None = None
    counts: Mapping[str, ZoneCounts] = field(default_factory=dict)  # by zone
    waits: WaitCounts = NO_WAITS  # of requests of flex-start for such VMs


def plan(view: JobView, basis: PlanBasis, policy: Policy, context: JobContext) -> JobPlan | None:
    """Plans a job; None for a job without a deadline, with an unknown amount of work, or on a reservation: of what is
    paid for anyway nothing is gained by waiting.
    """
    deadline, work, cost, now = view.job.spec.deadline, basis.work_left, basis.overhead, context.now
    if deadline is None or work is None or cost is None or view.job.recipe.reservation:
        return None
    situation = situation_of(view, basis, context)
    choice = _choice(view, policy, situation, cost, context)
    risk = _risk(view, situation, choice, cost, now)
    return JobPlan(
        act=choice.act,
        reason=reason_text(choice, situation, now, _may_use_on_demand(view)),
        zone=choice.zone or "" if choice.act is Act.START_SPOT else "",
        is_urgent=choice.why in (Why.GUARD, Why.TOO_LATE),
        work_left=work,
        overhead=cost,
        latest_safe_at=None if situation.on_demand_price is None else min(now + _span(choice.latest_safe_h), deadline),
        finishes_at=_finish(situation, work, now),
        behind=None if choice.grounds.behind_h is None else _span(choice.grounds.behind_h),
        at_risk=None
        if risk is None
        else AtRisk(risk, at_risk_text(risk, view, work, _finish(situation, work, now), situation, now)),
    )


def situation_of(view: JobView, basis: PlanBasis, context: JobContext) -> Situation:
    """Returns the situation in hours, and dollars of an hour.

    The work left is the most that is expected, with its restarts.
    """
    spec, work, cost, now = view.job.spec, basis.work_left, basis.overhead, context.now
    assert work is not None, "it was looked at before"
    assert cost is not None, "it was looked at before"
    time_left = (spec.deadline or now) - now - ENDS
    payable = [place for place in basis.places if max_run(view, place.rate) is not None and not place.passed_over]
    spot = [place for place in payable if place.provisioning_model is SPOT]
    usual = [place for place in payable if place.provisioning_model is ON_DEMAND]
    flex = _flex(view, payable, basis)
    rates = [place.rate for place in spot if place.rate is not None]
    usual_rates = [_dollars(place.rate) for place in usual if place.rate is not None]
    most = max(map(_dollars, rates), default=_UNKNOWN_SPOT)
    on_demand = min(usual_rates, default=most * _UNKNOWN_ON_DEMAND) if usual else None
    held, waited = _held(view, cost, now), waited_for(view, context.terms, now)
    return Situation(
        work_left_h=_hours(work.most + _restarts(view, work.most) * cost.start),
        # A request that is given up has a VM until that is deleted, and the next one waits for it.
        time_left_h=_hours(time_left - (_GIVES_UP if flex is not None else _NOTHING)),
        start_h=_hours(cost.whole),
        interval_h=_hours(INTERVAL),
        on_demand_price=on_demand,
        zones=tuple(
            _zone(place, _dollars(place.rate) if place.rate is not None else most, basis, held, waited, now)
            for place in spot
        ),
        held=held,
        elapsed_h=_hours(now - view.job.created_at),
        total_work_h=_hours(max(spec.work or work.most, work.most)),
        loss_h=_hours(max(cost.loss - INTERVAL, _NOTHING)),  # a decision's time is kept for the start after a loss
        overspent=overspent(view, on_demand) if on_demand is not None else 0.0,
        flex=flex,
        asked=_asked(view, now),
    )


def _flex(view: JobView, payable: Sequence[LaunchPlace], basis: PlanBasis) -> FlexOffer | None:
    """Returns the cheapest offer of flex-start; None where the job may have none, or knows no price of it."""
    if view.job.is_gang and not view.job.comes_by_group:
        return None
    rates = [_dollars(one.rate) for one in payable if one.provisioning_model is FLEX and one.rate is not None]
    return flex_offer(view.job.recipe, min(rates), basis.waits) if rates else None


def _asked(view: JobView, now: datetime) -> FlexAsked | None:
    """Returns its open request of flex-start, whether its VM was seen as PENDING yet or not."""
    for seen in (view.standby, view.last):
        if seen is not None and is_request(seen.attempt):
            return FlexAsked(_hours(now - (seen.attempt.asked_at or seen.attempt.intended_at)))
    return None


def is_request(attempt: Attempt) -> bool:
    """Says whether this is a request of flex-start that is open: it has no VM that bills yet."""
    return attempt.provisioning_model is FLEX and attempt.is_open and attempt.state in _REQUESTED


def _choice(view: JobView, policy: Policy, situation: Situation, cost: Overhead, context: JobContext) -> Choice:
    """The policy's, but where unsaved work makes a preemption more than it can afford."""
    choice = policy.choose(situation)
    if choice.why is Why.TOO_LATE and situation.slack_h >= _hours(cost.start):
        choice = choice._replace(why=Why.GUARD)  # nothing is at stake yet that a start on demand could lose
    held, last = situation.held, view.last
    if held is None or last is None or held.kind != "spot" or situation.on_demand_price is None:
        return choice
    if last.attempt.state in _TIED or choice.act is not Act.STAY:
        return choice
    loses = unsaved(view, context.now)
    left = situation.slack_h - _hours(loses) - situation.interval_h
    if loses <= cost.loss or left >= _hours(cost.start):
        return choice
    return choice._replace(act=Act.START_ON_DEMAND, why=Why.GUARD, zone=None)


def _held(view: JobView, cost: Overhead, now: datetime) -> HeldVM | None:
    seen = view.last if view.last is not None and view.last.attempt.is_open else view.standby
    if seen is None or is_request(seen.attempt):
        return None
    attempt = seen.attempt
    began = attempt.made_at or attempt.asked_at or attempt.intended_at
    works = attempt.agent.started_at is not None and attempt.agent.exit is None
    kind = _KINDS.get(attempt.provisioning_model, "on_demand")
    starts_at = began if kind == "flex" else attempt.intended_at  # what a request waited for is no start
    left = _NOTHING if works else max(_NOTHING, cost.start - (now - starts_at))
    return HeldVM(kind, attempt.zone, _hours(now - began), _hours(left))


def _restarts(view: JobView, work: timedelta) -> int:
    """Counts how often Google ends an on-demand VM at its time limit before the work is done."""
    longest = view.job.recipe.max_run
    return int(work / longest) if longest > _NOTHING else 0


def _zone(
    place: LaunchPlace, price: float, basis: PlanBasis, held: HeldVM | None, waited: Collection[Key], now: datetime
) -> Zone:
    counts = basis.counts.get(place.zone, NO_COUNTS)
    if held is not None and held.kind == "spot" and held.zone == place.zone:
        return Zone(place.zone, price, True, held.age_h, counts)
    down_since = _out_since(place.zone, basis.events)
    is_waited_for = (place.zone, SPOT) in waited
    if down_since is None:
        return Zone(place.zone, price, not is_waited_for, None, counts)
    age = _hours(now - down_since)
    if held is None:  # asking costs nothing while there is no VM
        return Zone(place.zone, price, not is_waited_for, age if is_waited_for else _UP_SINCE * age, counts)
    is_back = 1 - survival(hazards_of(counts).recovery, 0.0, age) >= _LIKELY_BACK
    return Zone(place.zone, price, is_back, _UP_SINCE * age if is_back else age, counts)


def _out_since(zone: str, events: Sequence[PlaceEvent]) -> datetime | None:
    """Returns the moment since which only stockouts and preemptions of Spot are known of it; None where there
    are none.
    """
    mine = [event for event in events if event.zone == zone and event.provisioning_model is SPOT]
    if not mine:
        return None
    out = list(takewhile(lambda event: event.outcome is Outcome.STOCKOUT, reversed(mine)))
    return out[-1].at if out and len(out) == 1 else (out[0].at if out else mine[-1].at)


def may_move(view: JobView, job_plan: JobPlan, attempt: Attempt, now: datetime) -> bool:
    """Says whether a running command may be stopped to run elsewhere: just after a checkpoint, unless the guard
    acts.
    """
    return may_be_moved(view, attempt) and (job_plan.is_urgent or unsaved(view, now) <= FRESH)


def may_be_moved(view: JobView, attempt: Attempt) -> bool:
    """Says whether what it saves can be read elsewhere, and its VM is there."""
    if view.job.spec.checkpoint is not None and view.job.spec.checkpoint.is_on_disk:
        return False
    return attempt.state not in _TIED and attempt.agent.exit is None


def _risk(view: JobView, situation: Situation, choice: Choice, cost: Overhead, now: datetime) -> Risk | None:
    """Explains why the deadline cannot be promised; None while it can."""
    held = situation.held
    start_left = _hours(cost.start) if held is None else held.start_left_h
    slack = situation.slack_h
    if (slack < start_left - situation.interval_h and (held is None or not held.is_ready)) or slack < 0:
        return _why_late(view, situation)
    if held is not None and held.kind == "spot" and held.is_ready and situation.on_demand_price is not None:
        loses = _hours(unsaved(view, now))
        if loses > 0 and slack - loses < _hours(cost.start) - situation.interval_h:
            return Risk.UNSAVED
    hours = vm_time_left(view)
    if hours is not None and situation.work_left_h * width_of(
        view.job, (seen.attempt for seen in view.attempts)
    ) > _hours(hours):
        return Risk.VM_HOURS
    if choice.why in (Why.GUARD, Why.TOO_LATE) and held is not None and held.kind == "spot" and _found_no_room(view):
        return Risk.STOCK  # it runs on where it is, until a VM on demand is ready
    if choice.why in (Why.GUARD, Why.TOO_LATE) and situation.on_demand_price is not None:
        left = remaining(view)
        is_short = left is not None and situation.on_demand_price * situation.work_left_h > _dollars(left)
        return Risk.CEILING if is_short else None
    if slack < situation.start_h and situation.on_demand_price is None:
        return Risk.STOCK if _may_use_on_demand(view) else Risk.NO_ON_DEMAND
    return None


def _why_late(view: JobView, situation: Situation) -> Risk:
    if view.hold or view.pause or view.unknown:
        return Risk.HELD
    if _found_no_room(view):
        return Risk.STOCK
    if situation.on_demand_price is None and not _may_use_on_demand(view):
        return Risk.NO_ON_DEMAND
    last = view.last.attempt if view.last is not None else None
    if last is not None and last.outcome in (Outcome.CRASHED, Outcome.NOT_STARTED, Outcome.LOST):
        return Risk.FAILURES
    return Risk.WORK


def _found_no_room(view: JobView) -> bool:
    """Says whether on-demand was tried in vain since the last VM; an attempt that is under way has not failed yet."""
    ended = (seen.attempt for seen in reversed(view.attempts) if not seen.attempt.is_open)
    tail = takewhile(lambda attempt: attempt.outcome in NO_ROOM, ended)
    return any(attempt.provisioning_model is ON_DEMAND for attempt in tail)


def _may_use_on_demand(view: JobView) -> bool:
    return ON_DEMAND in models_of(view.job.recipe)


def _finish(situation: Situation, work: WorkLeft, now: datetime) -> datetime:
    """Returns the expected end if nothing interrupts it from now on."""
    start = situation.start_h if situation.held is None else situation.held.start_left_h
    return now + _span(start) + work.likely


def _hours(span: timedelta) -> float:
    return span / _HOUR


def _span(hours: float) -> timedelta:
    return _HOUR * min(max(hours, -1e5), 1e5)


def _dollars(amount: Money) -> float:
    return amount.nanos / 1e9


def shadow_of(view: JobView, basis: PlanBasis, policy: Policy, context: JobContext) -> ShadowChoice:
    """Returns what this policy would do for the job now. It changes nothing."""
    situation = situation_of(view, basis, context)
    choice = policy.choose(situation)
    zone = choice.zone or "" if choice.act is Act.START_SPOT else ""
    reason = reason_text(choice, situation, context.now, _may_use_on_demand(view))
    return ShadowChoice(policy.name, choice.act.value, zone, reason)
