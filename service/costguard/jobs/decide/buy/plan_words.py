"""Words a plan: what a job does next and why, and why its deadline may be missed."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.deadlines.situation import Act, Choice, Situation, Why
from costguard.jobs.decide.limits.ceiling import vm_hours_text, vm_time_left
from costguard.jobs.decide.planned import Risk, WorkLeft
from costguard.jobs.decide.view import JobView, width_of
from costguard.model.duration import span_text
from costguard.model.moments import clock_text
from costguard.model.words import count_text

_HOUR = timedelta(hours=1)
_HELD = {"spot": "on Spot", "on_demand": "on demand", "flex": "on flex-start"}
_LONG_H = 24.0  # a Spot VM that lasts longer is expected to outlive the job


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
        case Act.START_FLEX:
            return "a request of flex-start" if held is None else f"stays {_HELD[held.kind]}, and asks for flex-start"
        case Act.DROP_FLEX:
            return f"{'no VM' if held is None else f'stays {_HELD[held.kind]}'}, and gives its request of flex-start up"
        case Act.WAIT if situation.asked is not None:
            return "waits for flex-start"
        case Act.WAIT:
            return f"no VM{_until(choice, now)}"
        case _ if held is not None and held.kind == "flex":
            return "stays on flex-start"
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
        case Why.FLEX_ENDS:
            return "Google ends its VM before its work is done, so that the next one is needed by then"
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
        case Risk.VM_HOURS:
            left = span_text(vm_time_left(view) or timedelta())
            return f"{span_text(work.most)} of work are left on {_vms(view)}, and {vm_hours_text(view)} leaves {left}"
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
        case Risk.VM_HOURS:
            return "More VM hours would help: launch another one like it, from its checkpoint. It stops at its limit."
        case Risk.FAILURES:
            return f"See its last output: costguard output {view.job.id}. {then}"
        case Risk.HELD:
            return f"It goes on once that is over: costguard budgets. {then}"
        case Risk.UNSAVED:
            return f"Save more often. {then}"
        case _:
            return f"A faster machine type or less work would help. {then}"


def _vms(view: JobView) -> str:
    return count_text(width_of(view.job, (seen.attempt for seen in view.attempts)), "VM")


def _ceiling(view: JobView) -> str:
    return f"its ceiling of {view.job.spec.ceiling}" if view.job.spec.ceiling is not None else "its sweep's ceiling"
