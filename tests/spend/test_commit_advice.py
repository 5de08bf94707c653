"""The level to commit to is the best one by search, and its saving and risk are what a commitment would have done."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.model.money import Money
from costguard.model.price import committed
from costguard.spend.commit_advice import (
    FLEXIBLE,
    SCALE,
    CommitmentAdvice,
    CommitmentKind,
    Use,
    UseKey,
    advise,
    is_covered,
    level_of,
    unknown_prices,
)

HOUR = SCALE * 3600  # a unit for an hour
DAY = 24
DOLLAR = 10**9
CORES, MEMORY = UseKey("n2", "us-central1", "n2:core"), UseKey("n2", "us-central1", "n2:ram")
A100 = UseKey("a2", "us-central1", "gpu:nvidia-tesla-a100")


def cost(series: Sequence[int], level: int, discount: Fraction) -> Fraction:
    """Returns the cost of use with a commitment, as Google bills it: the fee each hour, and list price for the rest."""
    return level * (1 - discount) * len(series) + sum(max(0, use - level) for use in series)


def best_by_search(series: Sequence[int], discount: Fraction) -> Fraction:
    """The cost is a straight line between the levels of use, so its least is at one of them, or at none."""
    return min(cost(series, level, discount) for level in {0, *series})


@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=60),
    st.sampled_from([Fraction(17, 100), Fraction(28, 100), Fraction(38, 100), Fraction(46, 100), Fraction(55, 100)]),
)
def test_no_other_level_costs_less(series: list[int], discount: Fraction) -> None:
    """Searched over all levels of use; the level is exceeded in no more than a share (1 - discount) of the hours."""
    level = level_of(series, discount)
    assert cost(series, level, discount) == best_by_search(series, discount)
    assert Fraction(sum(use > level for use in series), len(series)) <= 1 - discount


def fleet(seed: int, hours: int = 30 * DAY) -> list[int]:
    """VMs that come and go: a base, working days, and bursts."""
    chance = random.Random(seed)
    base, daily, burst = chance.randrange(0, 40), chance.randrange(0, 200), chance.randrange(0, 500)
    series = []
    for hour in range(hours):
        works = 8 <= hour % DAY < 19 and hour // DAY % 7 < 5
        vcpus = base + (daily if works else 0) + (burst if chance.random() < 0.05 else 0) + chance.randrange(4)
        series.append(vcpus * HOUR - chance.randrange(HOUR))
    return [max(0, one) for one in series]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("years", [1, 3])
def test_advice_is_within_a_hundredth_of_the_best_level_by_search(seed: int, years: int) -> None:
    """Advice for a fleet's hours comes in the steps that commitments are sold in: cents of use an hour, whole vCPUs."""
    series, price = fleet(seed), Fraction(31_611_000)
    promised = {1: Fraction(19_915_000), 3: Fraction(14_225_000)}
    prices = {("n2:core", "us-central1"): price}
    prices |= {(committed("n2:core", term), "us-central1"): rate for term, rate in promised.items()}
    advice = advise(Use(len(series), {CORES: series}, prices))
    kinds = {CommitmentKind.FLEXIBLE: FLEXIBLE["n2"][years], CommitmentKind.RESOURCES: 1 - promised[years] / price}
    for kind, discount in kinds.items():
        unit = Fraction(price, HOUR)
        undiscounted = cost(series, 0, discount) * unit
        best = undiscounted - best_by_search(series, discount) * unit
        mine = [one for one in advice if (one.kind, one.years) == (kind, years)]
        month = Fraction(730, len(series))
        saved = mine[0].saved.nanos if mine else 0
        assert saved <= round(best * month) + DOLLAR // 100
        assert saved >= best * month * Fraction(99, 100) - DOLLAR // 100


def steady(units: int, hours: int = 100) -> list[int]:
    return [units * HOUR] * hours


def only(advice: Sequence[CommitmentAdvice], kind: CommitmentKind, years: int) -> CommitmentAdvice:
    (one,) = (one for one in advice if (one.kind, one.years) == (kind, years))
    return one


def test_a_flexible_commitment_of_steady_use_by_hand() -> None:
    """Ten vCPUs at 3 cents are $0.30 an hour of use: for a year the fee is 28 % less, $0.216 an hour."""
    use = Use(100, {CORES: steady(10)}, {("n2:core", "us-central1"): Fraction(30_000_000)})
    one = only(advise(use), CommitmentKind.FLEXIBLE, 1)
    assert (one.level, one.fee) == (Fraction(3, 10), Money.of("0.216"))
    assert (one.use, one.saved) == (Money.of("219"), Money.of("61.32"))  # of 730 hours
    # A fifth less use is $0.24 an hour: $0.024 more than the fee.
    assert one.after_fall == Money.of("17.52")
    assert one.exceeded == 0


def test_a_fall_by_a_fifth_can_cost_more_than_the_discount_saves() -> None:
    """A discount of 17 % becomes a loss of three hundredths where use falls by a fifth."""
    use = Use(100, {UseKey("h3", "us-central1", "h3:core"): steady(10)}, {("h3:core", "us-central1"): Fraction(10**8)})
    one = only(advise(use), CommitmentKind.FLEXIBLE, 1)
    assert (one.saved, one.after_fall) == (Money.of("124.10"), Money.of("-21.90"))


def test_gpus_are_committed_to_by_their_own_price_and_whole() -> None:
    """A100s have no flexible commitment; one in use for half of the hours is not worth 37 % off."""
    half = [(4 if hour % 2 else 3) * HOUR for hour in range(100)]
    prices = {
        ("gpu:nvidia-tesla-a100", "us-central1"): Fraction(2_933_908_000),
        (committed("gpu:nvidia-tesla-a100", 1), "us-central1"): Fraction(1_848_000_000),
        (committed("gpu:nvidia-tesla-a100", 3), "us-central1"): Fraction(1_026_868_000),
    }
    advice = advise(Use(100, {A100: half}, prices))
    assert {one.kind for one in advice} == {CommitmentKind.RESOURCES}
    assert only(advice, CommitmentKind.RESOURCES, 1).level == 3
    assert only(advice, CommitmentKind.RESOURCES, 3).level == 4  # 65 % off: two idle hours of four cost less


def test_what_is_bought_is_not_advised_again() -> None:
    """The level is what to buy in addition."""
    prices = {
        ("n2:core", "us-central1"): Fraction(30_000_000),
        (committed("n2:core", 1), "us-central1"): Fraction(19_000_000),
    }
    use = Use(100, {CORES: steady(10)}, prices, 10**8, {("n2:core", "us-central1"): Fraction(4)})
    advice = advise(use)
    assert only(advice, CommitmentKind.RESOURCES, 1).level == 6
    assert only(advice, CommitmentKind.FLEXIBLE, 1).level == Fraction(2, 10)
    full = Use(100, {CORES: steady(10)}, prices, 10**9, {("n2:core", "us-central1"): Fraction(10)})
    assert advise(full) == []


def test_flexible_commitments_are_advised_for_all_together_and_for_each_place() -> None:
    """They cover every region and family, so use that changes places is steady in sum."""
    days = [[10 * HOUR if (hour // DAY) % 2 == place else 0 for hour in range(100 * DAY)] for place in (0, 1)]
    other = UseKey("c3", "europe-west4", "c3:core")
    prices = {("n2:core", "us-central1"): Fraction(10**8), ("c3:core", "europe-west4"): Fraction(10**8)}
    advice = advise(Use(100 * DAY, {CORES: days[0], other: days[1]}, prices))
    assert only(advice, CommitmentKind.FLEXIBLE, 1).family == "all"  # each alone runs half of the time: too little
    assert only(advice, CommitmentKind.FLEXIBLE, 1).level == 1


def test_what_no_commitment_covers_is_named() -> None:
    """Nothing is said without a price; GPUs of A2, shared cores and families without a discount are not covered."""
    use = Use(1, {CORES: [HOUR], A100: [HOUR]}, {(committed("n2:core", 1), "us-central1"): Fraction(1)})
    assert unknown_prices(use) == [A100]
    assert not is_covered(A100)
    assert not is_covered(UseKey("n1", "us-central1", "f1-micro:whole"))
    assert not is_covered(UseKey("m3", "us-central1", "m3:core"))
    assert is_covered(UseKey("g2", "us-central1", "gpu:nvidia-l4"))
    assert is_covered(MEMORY)
