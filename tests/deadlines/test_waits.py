"""Waits for flex-start: counted, drawn towards the prior, and drawn the same each time."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from costguard.deadlines.waits import (
    LONGEST_WAIT_H,
    NO_WAITS,
    WAIT_STARTS,
    SeenWait,
    Waits,
    counts_of_waits,
    expected_waits,
    grant_hazards,
)


def granted_by_end(hazards: tuple[float, ...], longest_h: float = LONGEST_WAIT_H) -> float:
    """The share of requests that are granted before they end."""
    ends = (*WAIT_STARTS[1:], longest_h)
    passed = sum(
        hazard * max(0.0, min(end_h, longest_h) - start_h)
        for hazard, start_h, end_h in zip(hazards, WAIT_STARTS, ends, strict=True)
    )
    return 1 - math.exp(-passed)


def test_prior_grants_four_of_five_requests_evenly_over_two_hours() -> None:
    """Nothing seen: a fifth is never granted, and half of the others within the first hour."""
    hazards = grant_hazards(NO_WAITS)
    assert granted_by_end(hazards) == pytest.approx(0.8)
    assert granted_by_end((*hazards[:3], 0.0)) == pytest.approx(0.4)


def test_requests_that_were_seen_outweigh_the_prior() -> None:
    """Forty that were refused leave hardly a chance, and forty that were granted at once make it nearly sure."""
    refused = counts_of_waits([SeenWait(2.0, is_refused=True)] * 40)
    assert granted_by_end(grant_hazards(refused)) < 0.2
    granted = counts_of_waits([SeenWait(0.02, is_granted=True)] * 40)
    assert granted_by_end((grant_hazards(granted)[0], 0.0, 0.0, 0.0)) > 0.9


def test_request_counts_in_the_ages_that_it_outlasted_and_where_it_was_granted() -> None:
    """A request was granted after 42 min, one dropped after 12, and one refused after a minute, as a whole refusal."""
    waits = [SeenWait(0.7, is_granted=True), SeenWait(0.2), SeenWait(1 / 60, is_refused=True)]
    counts = counts_of_waits(waits)
    assert counts.granted == (0.0, 0.0, 1.0, 0.0)
    assert counts.outlasted == (3.0, 2.0, 1.0, 1.0)


def test_waits_that_are_expected_give_back_their_own_chance() -> None:
    """A policy that has seen many requests knows the share that is never granted."""
    counts = expected_waits(Waits(0.0, 1.0, 0.5), 1e6)
    assert granted_by_end(grant_hazards(counts)) == pytest.approx(0.5, abs=1e-3)
    assert grant_hazards(counts)[3] == pytest.approx(0.0, abs=1e-4)


def test_waits_are_drawn_by_run_and_point_alone() -> None:
    """The draws are even between their limits, a fifth is never granted, and the same run asks in vain again."""
    waits = Waits(0.5, 2.0, 0.2)
    drawn = [waits.drawn(run, point) for run in range(40) for point in range(100)]
    assert drawn == [waits.drawn(run, point) for run in range(40) for point in range(100)]
    granted = [hours for hours in drawn if hours is not None]
    assert len(granted) / len(drawn) == pytest.approx(0.8, abs=0.02)
    assert fmean(granted) == pytest.approx(1.25, abs=0.03)
    assert 0.5 <= min(granted) < 0.51 < 1.99 < max(granted) <= 2.0


def test_shorter_requests_have_shorter_ages() -> None:
    """A request that may wait for 20 min is granted as the prior says of that long, or it is not."""
    hazards = grant_hazards(NO_WAITS, 1 / 3)
    assert hazards[2:] == (0.0, 0.0)
    assert granted_by_end(hazards, 1 / 3) == pytest.approx(0.8)
