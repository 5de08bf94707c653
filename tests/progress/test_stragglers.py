"""Stragglers: a worker that changes against the others, not one that always differs."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from costguard_vm.progress.stragglers import StepTime, WorkerReading, read_workers

OUTSIDE = Path(__file__).parents[3] / "shared" / "outside" / "gpu-samples"


def _read(slow: dict[tuple[str, int], float], usual: dict[str, float], looks: int = 100) -> WorkerReading:
    return read_workers(
        [
            StepTime(worker, float(at), took * slow.get((worker, at), 1.0))
            for at in range(looks)
            for worker, took in usual.items()
        ]
    )


EVEN = {"0": 1.0, "1": 1.02, "2": 0.98, "3": 1.0}


def test_a_worker_that_is_slow_for_a_while_is_named_with_its_stretch() -> None:
    """The stretch is given as times and as shares of the run, with how much slower."""
    [only] = _read({("2", at): 1.6 for at in range(60, 70)}, EVEN).stragglings
    assert (only.worker, only.since, only.until) == ("2", 60.0, 69.0)
    assert only.times == pytest.approx(1.6, rel=0.01)
    assert 0.55 < only.begins < only.ends < 0.75


def test_a_worker_that_is_always_slower_is_uneven_and_no_straggler() -> None:
    """Nothing changed; all wait for it in every step."""
    reading = _read({}, {**EVEN, "3": 1.5})
    assert reading.stragglings == ()
    assert reading.uneven is not None
    assert reading.uneven.slowest == "3"


def test_a_phase_that_slows_all_of_them_is_no_straggler() -> None:
    """An evaluation or a save takes longer for every worker."""
    assert _read({(worker, at): 3.0 for worker in EVEN for at in range(40, 60)}, EVEN).stragglings == ()


def test_single_slow_steps_are_no_straggler() -> None:
    """The slow look is one in ten, all through the run."""
    assert _read({("1", at): 3.0 for at in range(0, 100, 10)}, EVEN).stragglings == ()


@pytest.mark.parametrize(("usual", "looks"), [({"0": 1.0, "1": 2.0}, 100), (EVEN, 10)])
def test_too_little_to_compare_says_so(usual: dict[str, float], looks: int) -> None:
    """The one of two workers that changed is unknown."""
    assert "are needed" in _read({}, usual, looks).why_none


@pytest.mark.skipif(not OUTSIDE.exists(), reason="the recordings of GPUs lie next to this repository only")
def test_alibabas_two_jobs_are_read_as_their_authors_say() -> None:
    """Job 1: worker 6 from about the middle, for a while. Job 2: workers that differ steadily, and no change."""
    one, two = (read_workers(_recorded(number)) for number in (1, 2))
    assert {straggling.worker for straggling in one.stragglings} == {"6"}
    assert all(0.5 < straggling.begins < straggling.ends < 0.7 for straggling in one.stragglings)
    assert one.uneven is None
    assert two.stragglings == ()
    assert two.uneven is not None
    assert two.uneven.useful == pytest.approx(0.89, abs=0.005)


def _recorded(number: int) -> list[StepTime]:
    with gzip.open(OUTSIDE / f"pai_minibatch_job{number}.csv.gz", "rt") as source:
        rows = list(csv.DictReader(source))
    return [StepTime(row["worker"], float(row["time"]), float(row["batch_time_norm"])) for row in rows]
