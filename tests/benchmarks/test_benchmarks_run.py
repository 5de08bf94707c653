"""The benchmarks' own parts, on a fleet and a table small enough for every test run."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from tests.benchmarks import pages
from tests.benchmarks.bill import bill
from tests.benchmarks.feed import feed
from tests.benchmarks.look import looks
from tests.benchmarks.measure import Measured, write
from tests.benchmarks.served import served_fleet
from tests.benchmarks.storm import storm
from tests.benchmarks.storm_served import served

from costguard.db.transaction import Database


def test_both_ways_of_looking_see_the_fleet() -> None:
    """Costguard and the plain client it is held against read the same served VMs, over several pages."""
    with served_fleet(600) as url:
        for how in ("costguard", "full"):
            figures = looks(how, url, 600)
            assert len(figures["seconds"]) == 4
            assert figures["peak_mb"] > 0


def test_a_missed_goal_is_written_down(tmp_path: Path) -> None:
    """A goal that is missed says so, one that is met says so, and none set says nothing."""
    path = tmp_path / "bench.json"
    write([Measured("a", "s", [3, 1, 2], 1.5), Measured("b", "s", [1], 1), Measured("c", "MB", [1])], path)
    assert json.loads(path.read_text()) == [
        {"name": "a", "value": 2, "unit": "s", "goal": 1.5, "holds": False},
        {"name": "b", "value": 1, "unit": "s", "goal": 1, "holds": True},
        {"name": "c", "value": 1, "unit": "MB", "goal": None, "holds": None},
    ]


def test_peak_memory_is_that_of_the_process_itself() -> None:
    """The memory of the process that started it does not count, though the kernel's `ru_maxrss` has it in."""
    held = b"x" * 300_000_000
    command = [sys.executable, "-c", "from tests.benchmarks.memory import peak_mb; print(peak_mb())"]
    peak = float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert 5 < peak < 200 < len(held) / 1_000_000


def test_a_small_storm_in_the_simulated_cloud(tmp_path: Path) -> None:
    """The storm goes through Google's own client, with few calls a minute: calls are refused, and every job gets
    another VM.
    """
    with served(tmp_path, calls_per_minute=15) as ground:
        figures = storm(ground, 12)
    assert figures.refused > 0
    assert figures.until_requested <= figures.until_replaced < timedelta(minutes=15)


def test_every_page_and_list_has_an_address_to_measure(sqlite_database: Database) -> None:
    """A route with parameters that nobody named an address for would be missing from the table of page times."""
    assert "/jobs/j5" in pages.addresses(pages.app_over(sqlite_database)[0])


def test_a_bill_is_read_within_its_goals(tmp_path: Path) -> None:
    """A thousand rows come through the file, and memory is that of the process, not of the rows."""
    assert [one.holds for one in bill(tmp_path, 1000)] == [True, True]


def test_every_event_of_a_small_feed_comes_into_the_ledger(tmp_path: Path) -> None:
    """A real guard pulls up to 223 first entries from Pub/Sub while it lists the same VMs; each is timed once."""
    late, slowest, rate, cores, memory, _load = feed(tmp_path, projects=2, vms=10, seconds=2, on=("SQLite",))
    assert slowest.name.startswith(f"Slowest of {len(late.samples)} events")
    assert rate.value * 2 <= len(late.samples) <= 2 * 111 + 1
    assert 0 < min(late.samples) <= slowest.value
    assert (rate.value, cores.value, memory.value) > (0, 0, 0)
