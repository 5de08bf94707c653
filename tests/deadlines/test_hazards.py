"""Preemptions and recoveries have chances by age."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.deadlines.hazards import (
    BIN_STARTS,
    NO_COUNTS,
    PRIOR_PREEMPTIONS,
    PRIOR_RECOVERIES,
    Hazards,
    SeenPeriod,
    added,
    bin_of,
    counts_of,
    expected_life,
    follow,
    hazards_of,
    survival,
    together_of,
)


@pytest.mark.parametrize(("age_h", "place"), [(0, 0), (0.15, 0), (0.16, 1), (1.49, 3), (1.5, 4), (15.9, 6), (400, 7)])
def test_ages_fall_into_bins_by_their_start(age_h: float, place: int) -> None:
    """A bin holds the ages from its start to the next one's; the last has no end."""
    assert bin_of(age_h) == place


def test_prior_gives_the_published_expected_lives() -> None:
    """The prior was published with its expected lives: 2.7 hours when new, about 9.4 at an age of 4 hours."""
    assert expected_life(PRIOR_PREEMPTIONS, 0) == pytest.approx(2.7, abs=0.05)
    assert expected_life(PRIOR_PREEMPTIONS, 4) == pytest.approx(9.4, abs=0.15)


def test_unseen_zone_has_the_prior() -> None:
    """The estimate without history is the prior itself."""
    hazards = hazards_of(NO_COUNTS)
    assert hazards.preemption == pytest.approx(Hazards().preemption)
    assert hazards.recovery == pytest.approx(Hazards().recovery)


def test_counts_split_a_period_by_age() -> None:
    """Two hours up that end in a preemption: hours in each bin as they passed, the preemption in the last of them."""
    counts = counts_of([SeenPeriod(True, 10, 12)], now_h=12)
    assert counts.up_hours == pytest.approx((0.16, 0.17, 0.33, 0.84, 0.5, 0, 0, 0))
    assert list(counts.preemptions) == [0, 0, 0, 0, 1, 0, 0, 0]
    assert sum(counts.recoveries) == sum(counts.down_hours) == 0


def test_period_that_was_cut_counts_its_hours_and_no_event() -> None:
    """A VM that was given up, or a record that ends, was neither preempted nor did its zone recover."""
    counts = counts_of([SeenPeriod(True, 0, 2, is_cut=True), SeenPeriod(False, 5, 9)], now_h=7)
    assert sum(counts.up_hours) == pytest.approx(2)
    assert sum(counts.down_hours) == pytest.approx(2)
    assert sum(counts.preemptions) == sum(counts.recoveries) == 0


def test_age_known_at_the_first_sight_of_a_zone_counts() -> None:
    """A zone that had been up for 8 hours before it was watched adds nothing to the bins of young VMs."""
    counts = counts_of([SeenPeriod(True, 0, 1, age_h=8)], now_h=1)
    assert counts.up_hours == pytest.approx((0, 0, 0, 0, 0, 0, 1, 0))
    assert counts.preemptions[6] == 1


def test_history_draws_the_estimate_away_from_the_prior() -> None:
    """Five preemptions within an hour raise the hazard of young VMs; a day without one lowers that of old ones."""
    bad = hazards_of(counts_of([SeenPeriod(True, place / 5, (place + 1) / 5) for place in range(5)], now_h=1))
    good = hazards_of(counts_of([SeenPeriod(True, 0, 24, is_cut=True)], now_h=24))
    assert bad.preemption[1] > PRIOR_PREEMPTIONS[1]
    assert good.preemption[5] < PRIOR_PREEMPTIONS[5]


def test_prior_counts_for_twenty_hours() -> None:
    """The estimate moves half of the way after as many hours of history as the prior stands for."""
    calm = counts_of([SeenPeriod(True, 0, 20, is_cut=True, age_h=16)], now_h=20)
    assert hazards_of(calm).preemption[7] == pytest.approx(PRIOR_PREEMPTIONS[7] / 2)


@given(st.floats(0, 40), st.floats(0, 40), st.floats(0, 20))
def test_survival_multiplies_over_time(first_h: float, second_h: float, age_h: float) -> None:
    """Living through two spans in a row is living through the first, and then, older, through the second."""
    both = survival(PRIOR_PREEMPTIONS, age_h, first_h + second_h)
    assert both == pytest.approx(
        survival(PRIOR_PREEMPTIONS, age_h, first_h) * survival(PRIOR_PREEMPTIONS, age_h + first_h, second_h)
    )


@settings(max_examples=10)
@given(st.floats(0, 30))
def test_expected_life_is_the_area_under_survival(age_h: float) -> None:
    """Summed in small steps, survival gives the same hours."""
    step = 0.05
    area = sum(survival(PRIOR_RECOVERIES, age_h, place * step) * step for place in range(int(150 / step)))
    assert expected_life(PRIOR_RECOVERIES, age_h) == pytest.approx(area, rel=0.02, abs=0.1)


def test_zone_that_never_fails_lives_for_ever() -> None:
    """No hazard in the last bin means no end to expect."""
    assert expected_life((0.0,) * len(BIN_STARTS), 3) == math.inf


def test_counts_of_parts_add_up_to_the_counts_of_the_whole() -> None:
    """A period cut at any moment, its age kept, gives the same events and hours, wherever it is cut."""
    whole = [SeenPeriod(True, 0, 5), SeenPeriod(False, 5, 7), SeenPeriod(True, 7, 9)]
    first = counts_of([SeenPeriod(True, 0, 4, is_cut=True)], now_h=4)
    rest = counts_of([SeenPeriod(True, 4, 5, age_h=4), *whole[1:]], now_h=9)
    for part, both in zip(added(first, rest), counts_of(whole, now_h=9), strict=True):
        assert part == pytest.approx(both)


def test_job_follows_the_oldest_zone_until_it_is_lost() -> None:
    """Zone 0 is held until 4, though zone 1 came at 1; then zone 1, aged 3, until 6, when all are out."""
    zones = [
        [SeenPeriod(True, 0, 4), SeenPeriod(False, 4, 8), SeenPeriod(True, 8, 9, is_cut=True)],
        [SeenPeriod(False, 0, 1), SeenPeriod(True, 1, 6), SeenPeriod(False, 6, 9, is_cut=True)],
    ]
    followed = follow(zones)
    assert [(one.period.is_up, one.period.began_h, one.period.ended_h) for one in followed] == [
        (True, 0, 4), (True, 4, 6), (False, 6, 8), (True, 8, 9),
    ]  # fmt: skip
    assert followed[0].found_age_h == 3
    counts = together_of(followed, now_h=9)
    assert counts.lost == 2
    assert sum(counts.found_ages) == 1
    assert sum(counts.held.recoveries) == 1
    assert sum(counts.held.up_hours) == pytest.approx(4 + 2 + 1)


def test_what_follows_now_is_not_counted() -> None:
    """The second zone is still held at hour 5 of the same zones, and nothing of its end is known."""
    zones = [[SeenPeriod(True, 0, 4), SeenPeriod(False, 4, 9)], [SeenPeriod(True, 1, 6), SeenPeriod(False, 6, 9)]]
    counts = together_of(follow(zones), now_h=5)
    assert counts.lost == 1
    assert sum(counts.held.up_hours) == pytest.approx(5)
