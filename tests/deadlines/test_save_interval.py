"""The checkpoint interval that costs least: against published formulas, random lives, and recorded Spot VMs."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest
from tests.deadlines.intervals import SAVES_S, compare, lives_of, recordings, zones

from costguard.deadlines.hazards import BIN_STARTS, BINS, PRIOR_PREEMPTIONS, ByAge
from costguard.deadlines.save_interval import SHORTEST_H, SaveTerms, best_interval, parts_of
from costguard.deadlines.series import ZoneSeries

EVEN: ByAge = (0.3,) * BINS
SPOT_TRACES = Path(__file__).resolve().parents[3] / "shared" / "spot-traces"

# Points of ten minutes for which Spot a3-highgpu-1g (one H100) of Google Cloud could and could not be had in turn, from
# 4 October 2025: https://github.com/andylizf/skynomad-artifact, commit 62b9aaa1942e (Apache-2.0), the first half of
# each series. us-central1-c begins up, us-east5-a down.
US_CENTRAL1_C = (
    "7 1 1 1 2 1 4 1 44 1 3 1 32 1 16 1 7 1 4 1 4 2 79 1 28 5 53 1 28 1 26 1 13 1 9 1 2 1 7 1 17 2 27 1 76 1 "
    "6 1 2 1 3 2 2 1 1 1 1 3 3 3 3 2 4 1 18 1 13 1 27 2 45 1 2 1 3 1 2 1 2 8 1 6 1 62 9 1 26 1 12 2 4 1 4 1 5 "
    "1 23 1 72 1 30 1 1 1 1 3 3 1 16 1 79"
)
US_EAST5_A = (
    "0 5 1 13 2 2 1 6 5 45 3 1 13 2 20 1 6 1 11 1 6 1 4 1 3 1 3 1 3 1 3 1 2 1 8 1 2 1 2 1 2 1 2 1 2 1 9 1 5 1 "
    "2 1 2 1 2 1 13 1 4 3 9 1 2 1 73 1 23 1 8 1 8 1 1 4 1 1 8 1 3 1 4 1 15 2 8 1 92 1 38 1 96 1 1 1 4 2 101 2 "
    "2 3 1 1 1 2 1 4 1 1 8 1 1 1 1 1 2 1 16 1 6 1 10 3 7 1 73 2 15 2 18 3 1 3 3 2 5 8 4 1 1 1 1 1 5 1 5 2 2 1 "
    "1 1 1 1 1 1 53"
)


def _series(name: str, runs: str) -> ZoneSeries:
    ups = [place % 2 == 0 for place, points in enumerate(map(int, runs.split())) for _ in range(points)]
    return ZoneSeries(name, "h100", 600, tuple(ups))


@pytest.mark.parametrize("save_s", [1, 10, 60, 300])
def test_one_hazard_gives_dalys_interval(save_s: float) -> None:
    """J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22 (2006),
    equation 37; the mean time between failures is 1 / 0.3 hours.
    """
    save_h, mean_h = save_s / 3600, 1 / 0.3
    daly = (
        math.sqrt(2 * save_h * mean_h) * (1 + math.sqrt(save_h / (2 * mean_h)) / 3 + (save_h / (2 * mean_h)) / 9)
        - save_h
    )
    assert best_interval(SaveTerms(save_h, 0.1, EVEN)) == pytest.approx(daly, rel=0.005)


@pytest.mark.parametrize("noticed", [0.0, 0.4, 1.0])
def test_parts_are_those_of_random_lives(noticed: float) -> None:
    """The shares of kept work, saves and starts are those of 40,000 simulated VMs, and add up to 1."""
    random = Random(7)
    terms = SaveTerms(120 / 3600, 0.15, PRIOR_PREEMPTIONS, upload_h=0.05, noticed=noticed)
    interval_h = 0.5
    lived = kept = saves = starts = 0.0
    for _ in range(40_000):
        life_h = _random_life(random)
        lived += life_h
        starts += min(life_h, terms.start_h)
        kept_h, saves_h = _spent(max(0.0, life_h - terms.start_h), interval_h, terms, random)
        kept += kept_h
        saves += saves_h
    parts = parts_of(terms, interval_h)
    assert parts.kept == pytest.approx(kept / lived, abs=0.004)
    assert parts.saves == pytest.approx(saves / lived, abs=0.002)
    assert parts.starts == pytest.approx(starts / lived, abs=0.002)
    assert sum(parts) == pytest.approx(1)


def _random_life(random: Random) -> float:
    left = random.expovariate(1)
    for hazard, start, end in zip(PRIOR_PREEMPTIONS, BIN_STARTS, (*BIN_STARTS[1:], math.inf), strict=True):
        if left < (end - start) * hazard:
            return start + left / hazard
        left -= (end - start) * hazard
    raise AssertionError("a life has an end")


def _spent(worked_h: float, interval_h: float, terms: SaveTerms, random: Random) -> tuple[float, float]:
    """Returns the hours of kept work and of saves of a VM that is preempted so many hours after its start."""
    cycle_h = interval_h + terms.save_h
    cycles, rest_h = divmod(worked_h, cycle_h)
    saves_h = cycles * terms.save_h + max(0.0, rest_h - interval_h)
    if random.random() >= terms.noticed:
        return max(0.0, worked_h - terms.upload_h) // cycle_h * interval_h, saves_h
    if worked_h < terms.save_h:
        return 0.0, saves_h
    cycles, rest_h = divmod(worked_h - terms.save_h, cycle_h)
    saves_h = cycles * terms.save_h + max(0.0, rest_h - interval_h) + terms.save_h
    return cycles * interval_h + min(rest_h, interval_h), saves_h


@pytest.mark.parametrize("save_s", [1, 20, 300])
def test_no_other_interval_keeps_more(save_s: float) -> None:
    """The search agrees with a scan of intervals from a minute to two days."""
    terms = SaveTerms(save_s / 3600, 0.2, PRIOR_PREEMPTIONS)
    best = parts_of(terms, best_interval(terms)).kept
    tried = [parts_of(terms, SHORTEST_H * 1.07**place).kept for place in range(118)]
    assert max(tried) <= best * (1 + 1e-4)


def test_old_vm_saves_less_often() -> None:
    """An old VM is preempted less often, so the interval grows with its age."""
    terms = SaveTerms(60 / 3600, 0.1, PRIOR_PREEMPTIONS)
    by_age = [best_interval(terms, age_h) for age_h in (0.1, 1.0, 4.0, 16.0)]
    assert by_age == sorted(by_age)
    assert by_age[-1] > 2 * by_age[0]


def test_saves_on_notice_lengthen_the_interval() -> None:
    """Where most preemptions save on their notice, hardly any work is lost between two saves."""
    silent = SaveTerms(60 / 3600, 0.1, PRIOR_PREEMPTIONS)
    announced = silent._replace(noticed=0.9)
    assert best_interval(announced) > 2 * best_interval(silent)
    assert parts_of(announced, 2.0).again < parts_of(silent, 2.0).again / 5


def test_longer_upload_keeps_less() -> None:
    """A checkpoint counts once it is uploaded: until then its work goes with the VM."""
    terms = SaveTerms(60 / 3600, 0.1, PRIOR_PREEMPTIONS)
    assert parts_of(terms._replace(upload_h=0.2), 0.5).kept < parts_of(terms, 0.5).kept


def test_vm_that_is_never_preempted_loses_saves_alone() -> None:
    """No work is done again without a hazard."""
    parts = parts_of(SaveTerms(0.1, 0.1, (0.0,) * BINS), 0.9)
    assert parts.kept == pytest.approx(0.9)
    assert parts.saves == pytest.approx(0.1)
    assert parts.again == 0


@pytest.mark.parametrize("save_s", [1, 60, 300])
def test_advice_is_within_a_twentieth_of_the_best_on_recorded_h100s(save_s: float) -> None:
    """The best fixed interval knows the whole record, the advice only what came before each VM."""
    lives = [*lives_of(_series("us-central1-c", US_CENTRAL1_C)), *lives_of(_series("us-east5-a", US_EAST5_A))]
    compared = compare("two zones", lives, save_s)
    assert compared.lives == 133
    assert compared.excess < 0.05
    assert compared.excess_by_age < 0.05


@pytest.mark.skipif(not SPOT_TRACES.is_dir(), reason="needs the recorded series in ../shared/spot-traces")
@pytest.mark.parametrize("save_s", [1, 60, 300])
def test_interval_of_a_known_hazard_is_within_a_twentieth_of_the_best_in_each_zone(save_s: float) -> None:
    """The formula by itself, without what the future holds: the hazards are those of the zone's whole record."""
    lives_by_name = zones(SPOT_TRACES, knows_all=True)
    assert len(lives_by_name) == 19
    worst = max(compare(name, lives, save_s).excess for name, lives in lives_by_name.items())
    assert worst < 0.05


@pytest.mark.skipif(not SPOT_TRACES.is_dir(), reason="needs the recorded series in ../shared/spot-traces")
def test_advice_is_within_a_twentieth_of_the_best_on_all_recordings() -> None:
    """It holds for each recording of at least 20 VMs, with saves of 1 and of 300 s."""
    lives_by_name = recordings(SPOT_TRACES)
    assert len(lives_by_name) == 5
    worse = [
        (compared.name, save_s, compared.excess, compared.excess_by_age)
        for name, lives in lives_by_name.items()
        for save_s in (SAVES_S[0], SAVES_S[-1])
        for compared in [compare(name, lives, save_s)]
        if max(compared.excess, compared.excess_by_age) >= 0.05
    ]
    assert worse == []
