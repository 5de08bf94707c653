"""Two VMs of a job never write at once, whatever the notice, the clocks, and what is heard and seen."""

from __future__ import annotations

import pytest
from tests.jobs.two_vms import TwoVms

PARTS, SCHEDULES = 10, 10_000


@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_of_two_vms_has_two_writers(part: int) -> None:
    """Ten thousand are drawn: both notices, clocks that differ and jump, silent agents, looks that come late."""
    wrong: list[str] = []
    began = 0
    for seed in range(part, SCHEDULES, PARTS):
        played = TwoVms.of(seed).play()
        began += played.next_began is not None
        if played.wrong is not None:
            wrong.append(f"{seed}: {played.wrong}")
    assert not wrong, f"{len(wrong)} of {SCHEDULES // PARTS}, such as {wrong[0]}"
    assert began > SCHEDULES // PARTS * 0.7, "a guard that never goes on would pass, too"
