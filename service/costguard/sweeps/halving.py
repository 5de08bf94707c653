"""Decides which members of a sweep are stopped as losers, by their curves at equal steps. Pure.

Successive halving (Jamieson and Talwalkar 2016; asynchronously Li et al. 2020) with a margin: a member outside of the
best part is stopped only where what it may still gain on the leader, by how much their difference has moved so far, is
no more than noise. How the figures were chosen and what the rule did on recorded curves: `service/docs/proven.md`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from costguard_vm.progress.curve import noise

LOOKS = 40  # a run is looked at after each fortieth of its steps...
_FIRST_LOOK = 4  # ...from a tenth on
_LATE_LOOK = 24  # from 60 % on fewer are sure to go on, and those that are stopped must be behind by more
_FEWEST = 5  # evaluations up to a look
_EARLY_POWER, _LATE_POWER = 1, 2  # of `eta`, by which the number of members is divided
_EARLY_ERRORS, _LATE_ERRORS = 0.75, 2.5  # standard deviations of what a difference may still move
_TREND = 0.5  # of the rate at which a difference closes, which goes on
_NO_GAIN = 0.005  # of the leader's gain: less counts as equal, as in the rule for standstills


@dataclass(frozen=True, slots=True)
class MemberCurve:
    """A member's evaluations by step, both ascending. Lower values are better: those of other metrics are negated.

    `leads`: it runs or has succeeded, so that others may be stopped for it. `counts`: so it does, or halving stopped
    it, and others have their places after it. `may_stop`: it runs, its curve is of now, and no one keeps it.
    """

    number: int
    steps: Sequence[float]
    values: Sequence[float]
    leads: bool = True
    counts: bool = True
    may_stop: bool = True

    @property
    def reached(self) -> float:
        """Returns the step of its last evaluation; 0 where it has none."""
        return self.steps[-1] if self.steps else 0.0

    def until(self, step: float) -> int:
        """Counts its evaluations up to this step."""
        return bisect_right(self.steps, step)


@dataclass(frozen=True, slots=True)
class SweepCurves:
    """The curves of a sweep's members, and the steps of the longest; None where no member's length is known.

    `unit` is what steps count. `waits` says why nothing can be compared yet; "" where it can.
    """

    members: Sequence[MemberCurve]
    total: float | None
    unit: str = "step"
    waits: str = ""


@dataclass(frozen=True, slots=True)
class Loser:
    """A member to be stopped, as it stood at `step`: its best value by then, its place, and how many were compared."""

    number: int
    step: float
    value: float
    place: int  # 1 is the best
    compared: int
    kept: int  # the best so many go on in any case


class _Moves(NamedTuple):
    """The movement of a difference from one evaluation to the next: the root of the mean of squares, and the mean."""

    spread: float
    closing: float  # above zero where the member comes nearer


def losers(eta: int, curves: Sequence[MemberCurve], total: float, size: int) -> list[Loser]:
    """Returns the members of a sweep of `size` to be stopped now. `total`: the steps of the longest of them.

    Each is compared at the last look that it has passed, with those that have passed it too. Its place there can only
    become worse when others come, so that nobody is waited for. Those that are farthest are decided first, and the
    worst of them before the better: none is stopped for one that is.
    """
    stopped: dict[int, Loser] = {}
    ready = [(look, curve) for curve in curves if curve.may_stop and (look := _look(curve, total)) is not None]
    for look, curve in sorted(ready, key=lambda one: (one[0], min(one[1].values), one[1].number), reverse=True):
        others = [one for one in curves if one.counts and one.number != curve.number]
        leads = {one.number for one in others if one.leads} - set(stopped)
        if (loser := _judged(eta, curve, others, leads, look, total, size)) is not None:
            stopped[curve.number] = loser
    return sorted(stopped.values(), key=lambda one: one.number)


def _look(curve: MemberCurve, total: float) -> int | None:
    """Returns the last look that it has passed; None before the first, and at its end."""
    look = math.floor(LOOKS * curve.reached / total + 1e-9) if total > 0 else 0
    return look if _FIRST_LOOK <= look < LOOKS else None


def _judged(
    eta: int,
    curve: MemberCurve,
    others: Sequence[MemberCurve],
    leads: Set[int],
    look: int,
    total: float,
    size: int,
) -> Loser | None:
    step, is_late = total * look / LOOKS * (1 + 1e-9), look >= _LATE_LOOK
    seen = {
        one.number: best
        for one in others
        if one.reached >= step * (1 - 2e-9) and (best := _best(one, step)) is not None
    }
    mine = _best(curve, step)
    if mine is None:
        return None
    ahead_of_it = {number for number, best in seen.items() if (best, number) < (mine, curve.number)}
    if not ahead_of_it & leads:
        return None
    kept = max(math.ceil(size / eta ** (_LATE_POWER if is_late else _EARLY_POWER)), 1)
    place = 1 + len(ahead_of_it)
    if place <= kept:
        return None
    best = min(ahead_of_it & leads, key=lambda number: (seen[number], number))
    lead = next(one for one in others if one.number == best)
    moves = _moves(curve, lead, step)
    if moves is None:
        return None
    ahead = lead.values[: lead.until(step)]
    gain = max(ahead[:3]) - min(ahead)
    equal = max(noise(ahead[len(ahead) // 3 :]), _NO_GAIN * gain)
    count = curve.until(step)
    to_come = count * (total - step) / step  # evaluations
    errors = _LATE_ERRORS if is_late else _EARLY_ERRORS
    catches_up = max(errors * moves.spread * math.sqrt(to_come), _TREND * moves.closing * to_come)
    if seen[lead.number] - mine + catches_up > equal:
        return None
    return Loser(curve.number, curve.steps[count - 1], mine, place, len(seen) + 1, kept)


def _best(curve: MemberCurve, step: float) -> float | None:
    """Returns its best value up to a step; None where it has too few to be compared."""
    count = curve.until(step)
    return min(curve.values[:count]) if count >= _FEWEST else None


def _moves(curve: MemberCurve, lead: MemberCurve, step: float) -> _Moves | None:
    """Measures their difference over the last half of the evaluations; None where it has moved less than twice."""
    count = curve.until(step)
    differences = [curve.values[place] - _at(lead, curve.steps[place]) for place in range(count // 2, count)]
    changes = [after - before for before, after in pairwise(differences)]
    if len(changes) < 2:
        return None
    spread = math.sqrt(sum(change * change for change in changes) / len(changes))
    return _Moves(spread, (differences[0] - differences[-1]) / len(changes))


def _at(curve: MemberCurve, step: float) -> float:
    """Returns its value at a step, between two evaluations by the line between them, and beyond them the next one's."""
    place = curve.until(step)
    if place == 0:
        return curve.values[0]
    if place == len(curve.steps) or curve.steps[place - 1] == step:
        return curve.values[place - 1]
    before, after = curve.steps[place - 1], curve.steps[place]
    share = (step - before) / (after - before)
    return curve.values[place - 1] + share * (curve.values[place] - curve.values[place - 1])
