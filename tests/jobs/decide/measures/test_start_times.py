"""VMs' start times are summarised honestly where few were seen."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from tests.builders import at
from tests.jobs.world import world

from costguard.jobs.decide.measures.start_times import VmStart, by_preset, slowest, start_of, start_times
from costguard.jobs.rows.history import start_rows

MINUTE = timedelta(minutes=1)


def _start(zone: str = "a", minutes: float = 6, preset: str = "t4") -> VmStart:
    """Makes a start: made after one minute, up after two, the command a minute before the first step."""
    noon = at("12:00")
    end = noon + minutes * MINUTE
    return VmStart(preset, zone, noon, noon + MINUTE, noon + 2 * MINUTE, end - MINUTE, end)


def test_phases_of_a_start_are_separate() -> None:
    """Medians of each, and of the whole to the first step."""
    times = start_times([_start(minutes=6), _start(minutes=8), _start(minutes=30)])
    assert times is not None
    assert (times.count, times.usual, times.slowest) == (3, 8 * MINUTE, None)
    assert times.phases == {"requested": MINUTE, "boot": MINUTE, "prepare": 5 * MINUTE, "load": MINUTE}


def test_what_was_not_seen_is_left_out() -> None:
    """A command without steps counts to its start, and has no load."""
    noon = at("12:00")
    times = start_times([VmStart("t4", "a", noon, None, None, noon + 5 * MINUTE)])
    assert times is not None
    assert (times.usual, times.phases) == (5 * MINUTE, {})
    assert start_times([]) is None


@pytest.mark.parametrize("count", [5, 8, 20, 60])
def test_few_starts_still_bound_the_next(count: int) -> None:
    """The next of lognormal starts is within the bound 99 times in 100, however few there were."""
    random = Random(count)
    kept = 0
    for _ in range(1500):
        *seen, following = (timedelta(minutes=random.lognormvariate(2, 0.4)) for _ in range(count + 1))
        bound = slowest(seen)
        kept += bound is not None and following <= bound
    assert kept >= 0.98 * 1500


def test_many_starts_show_their_99th_percentile() -> None:
    """The percentile goes by rank, whatever their distribution; of four starts nothing is said."""
    assert slowest([number * MINUTE for number in range(1, 201)]) == 198 * MINUTE
    assert slowest([MINUTE] * 4) is None


def test_equal_starts_are_bounded_by_themselves() -> None:
    """Nothing varied, so that nothing is added."""
    bound = slowest([6 * MINUTE] * 6)
    assert bound is not None
    assert abs(bound - 6 * MINUTE) < timedelta(seconds=1)


def test_a_zone_with_few_starts_counts_as_its_preset() -> None:
    """The slowest of several zones counts; nothing measured is nothing known."""
    times = by_preset([*(_start("a", 6) for _ in range(6)), *(_start("b", 20) for _ in range(6)), _start("c", 3)])["t4"]
    fast, slow, few = (start_of(times, [zone]) for zone in ("a", "b", "c"))
    assert fast is not None
    assert slow is not None
    assert few == times[""].slowest
    assert start_of(times, ["a", "b"]) == slow > fast
    assert start_of({}, ["a"]) is None


def test_starts_are_read_from_attempts(sqlite_url: str) -> None:
    """The time is from the request to the first run's start; later runs of one VM are none."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.clock.advance(5 * MINUTE)
        w.start()
        w.step()
        (attempt,) = w.attempts()
        with w.database.read() as connection:
            times = start_rows.read(connection, w.clock.now())["t4"]
        assert attempt.agent.started_at is not None
        assert times[attempt.zone].usual == attempt.agent.started_at - attempt.intended_at
        assert times[""].count == 1
