"""Random queues: no limit is exceeded, nobody starves, and everyone is given at least half of their part."""

from __future__ import annotations

import pytest
from tests.jobs.decide.limits.queue_lives import QueueLife


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_no_limit_is_exceeded_and_nobody_starves(first: int) -> None:
    """Two replicas are killed at random between decision, intent and call; a recount of all VMs is the judge."""
    kills = 0
    for seed in range(first, first + 50):
        life = QueueLife(seed, fair=seed % 2 == 0).run()
        assert life.exceeded() == [], f"seed {seed}"
        assert life.starved() == [], f"seed {seed}"
        if life.fair:
            share, job = life.least_share()
            assert share >= 0.5, f"seed {seed}: the owner of {job} was given {share:.2f} of their part"
        kills += life.kills
    assert kills > 50
