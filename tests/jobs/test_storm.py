"""The storm of the benchmarks, small enough for every test run."""

from __future__ import annotations

from datetime import timedelta

from tests.benchmarks.storm import in_memory, storm
from tests.jobs.world import world


def test_a_region_is_preempted_at_once(sqlite_url: str) -> None:
    """Every job has another VM soon, none has two, and an idle turn costs next to nothing."""
    with world(sqlite_url) as w:
        result = storm(in_memory(w.database), 12)
    assert result.until_replaced < timedelta(minutes=5)
    assert result.calls > 24
