"""A drill's conclusions from saves and steps are tables."""

from __future__ import annotations

import pytest

from costguard_vm.agent.drill_rules import DrillLimits, Save, Steps, goes_on, is_old, judged

ON_DISK, TRAVELS = DrillLimits(22, 30, uploads=False), DrillLimits(22, 30, uploads=True)
STEPS = Steps(before=500, first=502, last=540)


@pytest.mark.parametrize(
    ("step", "steps", "expected"),
    [
        (540, STEPS, False),
        (539, STEPS, False),  # printed one ahead of what it saves
        (538, STEPS, True),
        (500, STEPS, True),  # nothing since the checkpoint before
        (480, STEPS, True),
        (None, STEPS, False),
        (540, Steps(None, None, 540), False),
        (505, Steps(500, 4010, 4080), False),  # eight batches a step: the command's count is another
        (500, Steps(500, 4010, 4080), True),
        (500, Steps(500, 502, 502), False),  # no step was done since
        (510, Steps(500, None, None), False),
    ],
)
def test_a_save_of_what_was_done_before_is_old(step: int | None, steps: Steps, expected: bool) -> None:
    """A save is compared with the checkpoint before; with the command's own steps only where both count alike."""
    assert is_old(step, steps) is expected


@pytest.mark.parametrize(
    ("saves", "limits", "expected"),
    [
        ([Save("a", 540, 21.9)], ON_DISK, "saved"),
        ([Save("a", 540, 22.1)], ON_DISK, "too_late"),
        ([Save("a", 540, 5.0, 29.9)], TRAVELS, "saved"),
        ([Save("a", 540, 5.0, 30.1)], TRAVELS, "too_late"),
        ([Save("a", 540, 5.0)], TRAVELS, "too_late"),
        ([Save("a", 500, 5.0)], ON_DISK, "old"),
        ([Save("a", 540, why="no marker")], ON_DISK, "torn"),
        ([Save("a", 540, 4.0), Save("b", 541)], ON_DISK, "saved"),
        ([Save("a", 540, 40.0), Save("b", 541, 9.0)], ON_DISK, "saved"),
        ([Save("a", 500, 4.0), Save("b", 541)], ON_DISK, "old"),
        ([], ON_DISK, "never"),
    ],
)
def test_the_first_complete_save_of_the_work_decides(saves: list[Save], limits: DrillLimits, expected: str) -> None:
    """Complete by the kill, and at the location by the power cut."""
    assert judged(saves, limits, STEPS)[0] == expected


@pytest.mark.parametrize(
    ("readings", "wanted", "speed", "expected"),
    [
        ([(0.0, 540)], 540, 1.0, True),
        ([(0.0, 1)], 540, 1.0, None),
        ([(0.0, 1), (15.0, 16), (30.0, 31)], 540, 1.0, False),
        ([(0.0, 1), (1.0, 300), (2.0, 541)], 540, 1.0, True),  # over the batches that it skips
        ([(0.0, 1), (1.0, 200), (2.0, 400)], 540, 1.0, None),
        ([(0.0, 1), (40.0, 41)], 40, 1.0, False),  # trained its way back to where it was
        ([(0.0, 1), (15.0, 16), (30.0, 31)], 540, None, False),
        ([(0.0, 7)], None, 1.0, None),
        ([], 540, 1.0, None),
    ],
)
def test_a_run_goes_on_from_where_it_was(
    readings: list[tuple[float, int]], wanted: int | None, speed: float | None, expected: bool | None
) -> None:
    """A run that trains its way up from zero does not go on; batches that are skipped go by faster than training."""
    assert goes_on(readings, wanted, speed) is expected
