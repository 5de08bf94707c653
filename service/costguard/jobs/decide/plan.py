"""Plans where a job with a deadline runs next: its view becomes what a policy sees, and the answer a sentence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

from costguard.deadlines.hazards import NO_COUNTS, ZoneCounts, hazards_of, survival
from costguard.deadlines.situation import Act, Choice, HeldVM, Policy, Situation, Why, Zone
from costguard.jobs.decide.limits import max_run, remaining
from costguard.jobs.decide.placement import LaunchPlace, PlaceEvent
from costguard.jobs.decide.planned import AtRisk, JobPlan, Overhead, Risk, ShadowChoice, WorkLeft
from costguard.jobs.decide.rounds import Key, waited_for
from costguard.jobs.decide.view import NO_ROOM, JobContext, JobView
from costguard.jobs.decide.work_left import ENDS, INTERVAL, overspent, unsaved
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import clock_text
from costguard.model.money import Money

SPOT, ON_DEMAND = ProvisioningModel.SPOT, ProvisioningModel.STANDARD
_HOUR = timedelta(hours=1)
_NOTHING = timedelta()
FRESH = timedelta(minutes=10)  # a checkpoint that is no older loses little when the job is moved
_LIKELY_BACK = 0.5  # the chance that a zone has recovered, from which on it is tried from a VM that runs on demand
_UP_SINCE = 0.5  # of the time since it was last seen out, a zone that is up again has been up for
_UNKNOWN_SPOT, _UNKNOWN_ON_DEMAND = 1.0, 3.0  # where no price is known at all
_LONG_H = 24.0  # a Spot VM that lasts longer is expected to outlive the job
_TIED = frozenset({AttemptState.RESTING, AttemptState.RESTARTING})


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """The basis of a plan besides the job: places with their prices now, and their events."""

    places: Sequence[LaunchPlace]
    events: Sequence[PlaceEvent] = ()  # stockouts and preemptions, the oldest first
    work_left: WorkLeft | None = None
    overhead: Overhead | None = None
    counts: Mapping[str, ZoneCounts] = field(default_factory=dict)  # by zone


def plan(view: JobView, basis: PlanBasis, policy: Policy, context: JobContext) -> JobPlan | None:
    """Plans a job; None for a job without a deadline, or with an unknown amount of work."""
    deadline, work, cost, now = view.job.spec.deadline, basis.work_left, basis.overhead, context.now
    if deadline is None or work is None or cost is None:
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
    rates = [place.rate for place in spot if place.rate is not None]
    usual_rates = [_dollars(place.rate) for place in usual if place.rate is not None]
    most = max(map(_dollars, rates), default=_UNKNOWN_SPOT)
    on_demand = min(usual_rates, default=most * _UNKNOWN_ON_DEMAND) if usual else None
    held, waited = _held(view, cost, now), waited_for(view, context.terms, now)
    return Situation(
        work_left_h=_hours(work.most + _restarts(view, work.most) * cost.start),
        time_left_h=_hours(time_left),
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
    )


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
    if seen is None:
        return None
    attempt = seen.attempt
    began = attempt.made_at or attempt.asked_at or attempt.intended_at
    works = attempt.agent.started_at is not None and attempt.agent.exit is None
    left = _NOTHING if works else max(_NOTHING, cost.start - (now - attempt.intended_at))
    return HeldVM(
        "spot" if attempt.provisioning_model is SPOT else "on_demand", attempt.zone, _hours(now - began), _hours(left)
    )


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
    recipe = view.job.recipe
    return recipe.provisioning_model is ON_DEMAND or recipe.falls_back_to_on_demand


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


def reason_text(choice: Choice, situation: Situation, now: datetime, may_use_on_demand: bool = True) -> str:
    """`on demand until 14:20 UTC: 1.1 h behind, and no Spot zone is expected to last longer than 40 min`."""
    return f"{_act(choice, situation, now)}: {_why(choice, situation, now, may_use_on_demand)}"


def _act(choice: Choice, situation: Situation, now: datetime) -> str:
    held = situation.held
    match choice.act:
        case Act.START_SPOT:
            return f"Spot in {choice.zone}"
        case Act.START_ON_DEMAND:
            return f"on demand{_until(choice, now)}"
        case Act.WAIT:
            return f"no VM{_until(choice, now)}"
        case _ if held is not None and held.kind == "spot":
            return f"stays on Spot in {held.zone}"
        case _:
            return f"stays on demand{_until(choice, now)}"


def _until(choice: Choice, now: datetime) -> str:
    hours = choice.grounds.until_h
    if hours is None or hours <= 0 or hours > _LONG_H:
        return ""
    return f" until {clock_text(now + _HOUR * hours, now)}"


def _why(choice: Choice, situation: Situation, now: datetime, may_use_on_demand: bool) -> str:
    latest = clock_text(now + _HOUR * max(choice.latest_safe_h, 0.0), now)
    match choice.why:
        case Why.GUARD if choice.act is Act.WAIT:
            return f"{_slack(situation)}, and an on-demand VM can wait until {latest}"
        case Why.GUARD:
            return f"{_slack(situation)}, so Spot could miss the deadline"
        case Why.TOO_LATE:
            return f"{_slack(situation)}, so the deadline can no longer be kept for certain"
        case Why.NO_ON_DEMAND:
            return ", and ".join(part for part in (_life(choice, situation), _alone(may_use_on_demand)) if part)
        case Why.SPOT_FAILS:
            return "Spot VMs were lost so often that they cost more than they saved"
    parts = [part for part in (_behind(choice), _saves(choice), _life(choice, situation)) if part]
    if choice.act in (Act.WAIT, Act.START_SPOT) or (situation.held is not None and situation.held.kind == "spot"):
        is_possible = situation.on_demand_price is not None
        parts.append(f"on demand is not needed before {latest}" if is_possible else _alone(may_use_on_demand))
    return ", and ".join(parts) or "it costs the least that way"


def _slack(situation: Situation) -> str:
    if situation.slack_h < 0:
        return f"it takes {_hours_text(-situation.slack_h)} longer than there is time"
    return f"{_hours_text(situation.slack_h)} to spare, and a start can cost {_hours_text(situation.start_h)}"


def _alone(may_use_on_demand: bool) -> str:
    why = "no on-demand VM is to be had" if may_use_on_demand else "it may use no on-demand VM"
    return f"{why}, so it depends on Spot"


def _saves(choice: Choice) -> str:
    """Explains why it waits though Spot is available."""
    saves = choice.grounds.saves
    return f"a wait is expected to save {saves * 100:.0f} % of what the rest costs" if saves is not None else ""


def _behind(choice: Choice) -> str:
    behind = choice.grounds.behind_h
    if behind is None or abs(behind) < 0.05:
        return ""
    return f"{behind:.1f} h behind" if behind > 0 else f"{-behind:.1f} h ahead"


def _life(choice: Choice, situation: Situation) -> str:
    life = choice.grounds.expected_life_h
    open_zones = [zone for zone in situation.zones if zone.is_up is not False]
    if choice.act is Act.START_SPOT or (situation.held is not None and situation.held.kind == "spot"):
        return f"it is expected to last {_hours_text(life)}" if life is not None and life < _LONG_H else ""
    if not open_zones:
        return "no Spot zone has room" if situation.zones else "no Spot zone has a price that it can pay"
    if life is None:
        return ""
    return f"no Spot zone is expected to last longer than {_hours_text(life)}"


def _hours_text(hours: float) -> str:
    """Minutes below an hour, else tenths of hours."""
    return f"{max(0, round(hours * 60))} min" if hours < 1 else f"{hours:.1f} h"


def at_risk_text(
    risk: Risk, view: JobView, work: WorkLeft, finish: datetime, situation: Situation, now: datetime
) -> str:
    """Explains why the deadline may be missed, when it is expected to finish, and what would help."""
    deadline = view.job.spec.deadline
    assert deadline is not None, "only a job with a deadline is planned"
    return (
        f"{_because(risk, view, work, situation)}. It is expected to finish {clock_text(finish, now)} at the earliest, "
        f"and its deadline is {clock_text(deadline, now)}. {_help(risk, view)}"
    )


def _because(risk: Risk, view: JobView, work: WorkLeft, situation: Situation) -> str:
    match risk:
        case Risk.WORK:
            expected = view.job.spec.work
            grew = f", and {span_text(expected)} were expected in all" if expected is not None else ""
            return f"{span_text(work.most)} of work are left ({work.source}){grew}"
        case Risk.STOCK:
            return "No on-demand VM is to be had in any of its zones"
        case Risk.NO_ON_DEMAND:
            return f"Only {_hours_text(max(situation.slack_h, 0))} are left to spare, and it may not use on-demand VMs"
        case Risk.CEILING:
            return (
                f"It needs an on-demand VM now, and {_ceiling(view)} does not pay for the {span_text(work.most)} left"
            )
        case Risk.FAILURES:
            reason = view.last.attempt.reason if view.last is not None else "it fails"
            return f"Failures have used up its time: {reason}"
        case Risk.HELD:
            return f"It gets no VM now: {view.hold or view.pause or view.unknown}"
        case Risk.UNSAVED:
            return "A preemption now would undo more than there is time for, since it has saved nothing lately"


def _help(risk: Risk, view: JobView) -> str:
    then = "Then it stops." if view.job.spec.when_late == "stop" else "It goes on after that, within its ceiling."
    match risk:
        case Risk.STOCK:
            return f"More zones would help: launch another one like it with them. {then}"
        case Risk.NO_ON_DEMAND:
            return f"The fallback to on-demand would help: launch another one like it with --fallback. {then}"
        case Risk.CEILING:
            return f"A higher ceiling would help: launch another one like it, from its checkpoint. {then}"
        case Risk.FAILURES:
            return f"See its last output: costguard output {view.job.id}. {then}"
        case Risk.HELD:
            return f"It goes on once that is over: costguard budgets. {then}"
        case Risk.UNSAVED:
            return f"Save more often. {then}"
        case _:
            return f"A faster machine type or less work would help. {then}"


def _ceiling(view: JobView) -> str:
    return f"its ceiling of {view.job.spec.ceiling}" if view.job.spec.ceiling is not None else "its sweep's ceiling"
