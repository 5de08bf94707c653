"""Makes a failing plan smaller, by delta debugging: fewer faults, jobs, VMs and days, while it fails as before."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.simulation.plan import PARTS, Plan

if TYPE_CHECKING:
    from tests.simulation.run import Outcome

_PATIENCE_S = 300.0  # of CPU


def shrunk(outcome: Outcome, live: Callable[[Plan], Outcome], patience_s: float = _PATIENCE_S) -> Plan:
    """The smallest plan found in time that breaks an invariant of the same kind."""
    wanted = kind_of(outcome.wrong[0])
    ends_s = time.process_time() + patience_s

    def fails(plan: Plan) -> bool:
        if time.process_time() > ends_s:
            return False
        return any(kind_of(sentence) == wanted for sentence in live(plan).wrong)

    plan = outcome.plan
    for part in reversed(PARTS):
        plan = _fewer(plan, part, fails)
    return plan


def kind_of(sentence: str) -> str:
    """A sentence without its numbers, names and moments."""
    return re.sub(r"[\w:/.+-]*\d[\w:/.+-]*", "#", sentence)


def _fewer(plan: Plan, part: str, fails: Callable[[Plan], bool]) -> Plan:
    """Zeller's ddmin: first without all, then without halves, quarters and so on."""
    numbers: Sequence[int] = plan.numbers(part)
    if not numbers:
        return plan
    if fails(none := plan.keeping(part, ())):
        return none
    pieces = 2
    while len(numbers) > 1:
        size = -(-len(numbers) // pieces)
        for begin in range(0, len(numbers), size):
            rest = [*numbers[:begin], *numbers[begin + size :]]
            if fails(smaller := plan.keeping(part, rest)):
                plan, numbers, pieces = smaller, rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(numbers), pieces * 2)
    return plan
