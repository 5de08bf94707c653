"""The planner's plain prototype: on time like all policies, and no dearer than on demand."""

from __future__ import annotations

from random import Random

import pytest
from tests.deadlines.markets import drawn_market, random_ups
from tests.deadlines.prototype import Prototype

from costguard.deadlines.run import Task, replay_run


@pytest.mark.parametrize("zones", [1, 2])
def test_prototype_is_on_time_and_uses_spot(zones: int) -> None:
    """Six hours of work by ten, in zones that come and go."""
    random = Random(zones)
    market = drawn_market(*(random_ups(random, 300, 2.0, 1.0) for _ in range(zones)))
    result = replay_run(Task(6.0, 10.0, 0.2, 3.14), market, 20, Prototype())
    assert result.is_on_time
    assert result.spot_h > 0
    assert result.cost < 6.2 * 3.14
