"""The guard: what no policy may do, because the deadline could then be missed. Applied last, always.

Slack is the time left less the work left. Useful work leaves it as it is; waiting and starts use it up. A start costs
at most `start_h`: whatever has that much slack can still finish on demand. A Spot VM may be lost with all the work that
a preemption can undo, and one on demand must be started after that.

A request for a flex-start VM uses up slack as waiting does. Its VM, once granted, is as safe as one on demand: nobody
takes it before its end, which is known. So a grant needs the slack of its start, and of another if it ends too early.
"""

from __future__ import annotations

import math

from costguard.deadlines.situation import Act, Choice, Grounds, Situation, Why

TINY = 1e-9  # hours: rounding of sums
MOVE_SLACK = 3.0  # starts' worth of slack that a move needs: to go, to be lost, and to come back
_KEEP = frozenset({Act.STAY, Act.START_FLEX, Act.DROP_FLEX})  # a VM that is held runs on


def latest_safe_h(situation: Situation) -> float:
    """Hours from now until an on-demand VM must be started, if nothing is gained before then."""
    return max(0.0, situation.slack_h - situation.start_h)


def may_wait(situation: Situation) -> bool:
    """Until the next decision, without a VM."""
    return situation.slack_h - situation.interval_h >= situation.start_h - TINY


def may_start_spot(situation: Situation) -> bool:
    """The VM may be lost at the worst moment, and then one on demand must still fit."""
    return situation.slack_h >= situation.spot_needs_h - TINY


def may_move(situation: Situation) -> bool:
    """Says whether the job may move from a Spot VM that works to one in another zone."""
    held = situation.held
    return held is not None and held.kind == "spot" and held.is_ready and has_slack_to_move(situation)


def has_slack_to_move(situation: Situation) -> bool:
    return situation.slack_h >= MOVE_SLACK * situation.start_h - TINY


def may_start_on_demand(situation: Situation) -> bool:
    return situation.slack_h >= situation.start_h - situation.loss_h - TINY


def may_await_flex(situation: Situation) -> bool:
    """Says whether a request may be open until the next decision: it may be granted at any moment before that."""
    return _grant_fits_h(situation) >= situation.interval_h - TINY


def _grant_fits_h(situation: Situation) -> float:
    """The hours for which a grant still fits and, without a VM, one on demand; a VM that works uses up none."""
    held = situation.held
    if held is None:
        return _fits_without_vm_h(situation)
    left_h = situation.slack_h - situation.flex_needs_h
    return math.inf if held.is_ready and left_h >= -TINY else left_h


def _fits_without_vm_h(situation: Situation) -> float:
    """The hours for which a job without a VM, or that gives up its own, may wait with a request."""
    return situation.slack_h - max(situation.start_h, situation.flex_needs_h)


def guarded(situation: Situation, wish: Choice) -> Choice:
    """The wish where it is safe, and what must be done instead where it is not.

    Without on-demand VMs nothing is safe: then Spot where there is any, at once, and waiting where there is none.
    """
    wish = _without_idle_request(situation, wish)
    if situation.on_demand_price is None:
        return _without_on_demand(situation, wish)
    choice = _chosen(situation, wish)
    return choice._replace(holds_h=min(choice.holds_h, _holds_h(situation, choice.act)))


def _without_idle_request(situation: Situation, wish: Choice) -> Choice:
    """A request that is open is not made again, and one that is not open cannot be dropped."""
    is_idle = wish.act is Act.START_FLEX and (situation.asked is not None or situation.flex is None)
    if is_idle or (wish.act is Act.DROP_FLEX and situation.asked is None):
        return wish._replace(act=Act.WAIT if situation.held is None else Act.STAY)
    return wish


def _holds_h(situation: Situation, act: Act) -> float:
    """Returns the hours until the guard must look again: a job that waits, or a VM that is not ready, uses up slack."""
    held = situation.held
    awaits = act is Act.START_FLEX or (situation.asked is not None and act in (Act.STAY, Act.WAIT))
    fits_h = _fits_without_vm_h(situation) if act is Act.WAIT else _grant_fits_h(situation)
    grant_h = max(0.0, fits_h) if awaits else math.inf
    waits = held is None and act in (Act.WAIT, Act.START_FLEX, Act.DROP_FLEX)
    if waits or act is Act.WAIT or (act in _KEEP and held is not None and held.kind == "spot" and not held.is_ready):
        return min(grant_h, latest_safe_h(situation))
    return min(grant_h, max(0.0, situation.time_left_h))


def _chosen(situation: Situation, wish: Choice) -> Choice:
    held = situation.held
    if held is None:
        return wish if _is_safe(situation, wish.act) else _on_demand(situation, wish)
    if held.kind == "spot" and not held.is_ready and not _may_go_on_starting(situation):
        return _on_demand(situation, wish)
    if wish.act in _KEEP:
        return _kept(situation, wish)
    again = held.kind == "on_demand" and wish.act is Act.START_ON_DEMAND
    return wish if not again and _is_safe(situation, wish.act) else _kept(situation, _stay(situation, wish))


def _kept(situation: Situation, wish: Choice) -> Choice:
    """The VM stays; a request that could be granted too late is not made, or dropped."""
    if wish.act is Act.DROP_FLEX or may_await_flex(situation):
        return wish
    if situation.asked is not None:
        return _stay(situation, wish)._replace(act=Act.DROP_FLEX)
    return _stay(situation, wish) if wish.act is Act.START_FLEX else wish


def _is_safe(situation: Situation, act: Act) -> bool:
    """Says so of an act other than to keep the VM."""
    if act is Act.START_SPOT:
        return may_start_spot(situation)
    if act is Act.START_FLEX:
        return may_await_flex(situation)
    if act is Act.WAIT and situation.asked is not None:
        return _fits_without_vm_h(situation) >= situation.interval_h - TINY
    if act in (Act.WAIT, Act.DROP_FLEX):
        return may_wait(situation)
    return may_start_on_demand(situation) and act is not Act.STAY


def _may_go_on_starting(situation: Situation) -> bool:
    """A Spot VM that is not ready may be waited for while on demand still fits at the next decision."""
    held = situation.held
    assert held is not None
    passed_h = min(situation.interval_h, held.start_left_h)
    least_h = situation.start_h - situation.loss_h
    return situation.slack_h - passed_h >= least_h - TINY or not may_start_on_demand(situation)


def _on_demand(situation: Situation, wish: Choice) -> Choice:
    if wish.act is Act.START_ON_DEMAND and may_start_on_demand(situation):
        return wish
    why = Why.GUARD if may_start_on_demand(situation) else Why.TOO_LATE
    return Choice(Act.START_ON_DEMAND, why, wish.grounds, 0.0)


def _stay(situation: Situation, wish: Choice) -> Choice:
    why = Why.GUARD if situation.slack_h >= -TINY else Why.TOO_LATE
    return Choice(Act.STAY, why, wish.grounds, latest_safe_h(situation), holds_h=wish.holds_h)


def _without_on_demand(situation: Situation, wish: Choice) -> Choice:
    held = situation.held
    if held is not None:
        moves = wish.act is Act.START_SPOT and wish.zone != held.zone and may_move(situation)
        keeps = wish.act in _KEEP
        return wish if keeps or moves else Choice(Act.STAY, Why.NO_ON_DEMAND, wish.grounds, 0.0)
    if wish.act is Act.START_SPOT:
        return wish
    open_zones = [zone for zone in situation.zones if zone.is_up is not False]
    if not open_zones and situation.flex is not None and situation.asked is None:
        return Choice(Act.START_FLEX, Why.NO_ON_DEMAND, wish.grounds, 0.0)
    if not open_zones:
        return Choice(Act.WAIT, Why.NO_ON_DEMAND, wish.grounds, 0.0)
    zone = min(open_zones, key=lambda zone: zone.price)
    return Choice(Act.START_SPOT, Why.NO_ON_DEMAND, wish.grounds, 0.0, zone.name)


def grounds_of(situation: Situation) -> Grounds:
    """The slack, and how far behind the straight line of progress the job is, where its whole work is known."""
    return Grounds(situation.slack_h, behind_line_h(situation))


def behind_line_h(situation: Situation) -> float | None:
    """Hours of work behind the straight line from the launch to the deadline; below zero, ahead of it."""
    if situation.total_work_h is None:
        return None
    whole_h = situation.elapsed_h + situation.time_left_h
    if whole_h <= 0:
        return None
    done_h = situation.total_work_h - situation.work_left_h
    return situation.elapsed_h * situation.total_work_h / whole_h - done_h
