"""A training is launched over REST, loses its VM three times, and ends as if nothing had happened."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.scenario.training_ground import TrainingWorld, ground, uninterrupted

STEPS, EVERY, SLOW_AT = 240, 20, 160


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_three_preemptions_change_nothing_about_the_result(tmp_path: Path, seed: int) -> None:
    """Twice at a random step, once while a checkpoint is being written; the result is the uninterrupted one."""
    options = ("--steps", str(STEPS), "--every", str(EVERY))
    with ground(tmp_path) as place:
        job = place.launch(*options, "--slow-at", str(SLOW_AT))
        chosen = random.Random(seed)
        for low in (20, 100):
            step = chosen.randrange(low, low + 40, EVERY)
            place.wait((place.step(step) / "DONE").exists, f"step {step} is saved")
            place.preempt()
            _wait_for_preemptions(place, job, 1 if low == 20 else 2)
        place.wait((place.step(SLOW_AT) / "state.json").exists, "the slow checkpoint is begun")
        place.preempt()
        finished = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
    assert place.result.read_text() == uninterrupted(tmp_path, *options)
    attempts = finished["attempts"]
    assert [one["outcome"] for one in attempts] == ["preempted"] * 3 + ["succeeded"]
    assert attempts[3]["resume_step"] == SLOW_AT - EVERY
    assert finished["job"]["preemptions"] == 3
    assert finished["job"]["crashes"] == 0
    assert len(place.vms) == 4


def _wait_for_preemptions(place: TrainingWorld, job: str, count: int) -> None:
    place.wait(lambda: place.ask(f"jobs/{job}")["job"]["preemptions"] == count, f"{count} preemptions are counted")
