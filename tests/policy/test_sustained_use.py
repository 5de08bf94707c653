"""The estimate of sustained-use discounts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.on_demand import runs_of

from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit
from costguard.policy.price_book import PriceBook
from costguard.policy.sustained_use import estimate, is_eligible

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
APRIL = datetime(2026, 4, 1, tzinfo=UTC)  # thirty days: a quarter is 7.5 days
MAY = datetime(2026, 5, 1, tzinfo=UTC)
CPU = Shape("n1-standard-1", 1, 3840)
BOOK = PriceBook(
    Price(PriceKey(resource, "us-central1", STANDARD), unit, nanos, datetime(2026, 1, 1, tzinfo=UTC), "test")
    for resource, unit, nanos in (
        ("n1:core", Unit.HOUR, 1_000_000_000),
        ("n1:ram", Unit.GIB_HOUR, 0),
        ("gpu:nvidia-tesla-t4", Unit.HOUR, 1_000_000_000),
        ("gpu:nvidia-tesla-a100", Unit.HOUR, 1_000_000_000),
        ("a2:core", Unit.HOUR, 1_000_000_000),
        ("e2:core", Unit.HOUR, 1_000_000_000),
    )
)


def run(
    first_day: float,
    last_day: float,
    shape: Shape = CPU,
    model: ProvisioningModel = STANDARD,
    project: str = "p",
    zone: str = "us-central1-a",
) -> Lifetime:
    start, end = APRIL + timedelta(days=first_day), APRIL + timedelta(days=last_day)
    return Lifetime(InstanceKey(project, str(first_day)), start, shape, model, zone, end)


def discount(*lifetimes: Lifetime) -> Money:
    return Money(sum(one.discount.nanos for one in estimate(runs_of(*lifetimes), BOOK, APRIL.date(), MAY)))


@pytest.mark.parametrize(("days", "share"), [(7.5, 0), (15, 10), (22.5, 20), (30, 30)])
def test_google_s_published_tiers(days: float, share: int) -> None:
    """A quarter of the month earns nothing, a half 10 %, three quarters 20 % and the whole month 30 %."""
    assert discount(run(0, days)) == Money(int(days * 24) * 1_000_000_000 * share // 100)


def test_one_vm_after_another_makes_one_inferred_instance() -> None:
    """Two halves of a month by two VMs, of different machine types and zones, earn what one whole month does."""
    wide = Shape("n1-highmem-2", 2, 13 * 1024)
    assert discount(run(0, 15), run(15, 30, zone="us-central1-b")) == discount(run(0, 30))
    assert discount(run(0, 30, wide)) == discount(run(0, 30), run(0, 15), run(15, 30))


def test_two_vms_at_once_are_two_inferred_instances() -> None:
    """Side by side for half a month each earns 10 % and not 30 %."""
    assert discount(run(0, 15), run(0, 15)) == Money.of(2 * 360 // 10)


def test_projects_and_regions_do_not_add_up() -> None:
    """Use in another project earns apart."""
    assert discount(run(0, 15), run(15, 30, project="q")) == Money.of(2 * 360 // 10)


def test_only_the_month_counts() -> None:
    """Use before the month and after it earns nothing in it."""
    assert discount(run(-30, 60)) == discount(run(0, 30))


def test_an_open_run_counts_up_to_now() -> None:
    """The discount so far is told, not the one that the month may end with."""
    lifetime = Lifetime(InstanceKey("p", "1"), APRIL, CPU, STANDARD, "us-central1-a")
    (found,) = estimate(runs_of(lifetime), BOOK, date(2026, 4, 20), APRIL + timedelta(days=15))
    assert (found.month, found.resource, found.discount) == (date(2026, 4, 1), "n1:core", Money.of(36))


def test_spot_and_newer_families_earn_nothing() -> None:
    """Spot, A2 and E2 use is never discounted, nor is an A100."""
    assert discount(run(0, 30, model=SPOT)) == Money()
    assert discount(run(0, 30, Shape("a2-highgpu-1g", 12, 85 * 1024, "nvidia-tesla-a100", 1))) == Money()
    assert discount(run(0, 30, Shape("e2-standard-2", 2, 8192))) == Money()


def test_a_t4_earns_on_an_n1() -> None:
    """GPUs are discounted with their N1 hosts; L4, A100 and H100 are not."""
    t4 = Shape("n1-standard-1", 1, 3840, "nvidia-tesla-t4", 1)
    assert discount(run(0, 30, t4)) == Money.of(2 * 216)
    assert not any(is_eligible(f"gpu:{name}", "n1") for name in ("nvidia-l4", "nvidia-h100-80gb", "nvidia-a100-80gb"))


TICK = timedelta(hours=6)  # thirty of them are a quarter of April
ticks = st.integers(0, 120)
some_uses = st.lists(
    # From, to (None: it still runs), vCPUs and MiB of memory.
    st.tuples(ticks, ticks | st.none(), st.sampled_from([1, 2, 4]), st.sampled_from([1, 3, 7])),
    max_size=8,
)
some_rates = st.dictionaries(ticks, st.integers(0, 10**10), min_size=1, max_size=4)


def earned(heights: list[int], rates: list[int]) -> Fraction:
    """Slowly, tick by tick: each unit in use takes the share off its price that the ticks before have earned it."""
    total = Fraction(0)
    for level in range(max(heights)):
        used = 0
        for height, rate in zip(heights, rates, strict=True):
            if height > level:
                total += rate * 6 * Fraction((0, 20, 40, 60)[used // 30], 100)
                used += 1
    return total


@settings(max_examples=80, deadline=None)
@given(some_uses, some_rates, some_rates, ticks)
def test_any_use_earns_what_a_count_of_each_unit_gives(
    uses: list[tuple[int, int | None, int, int]], core: dict[int, int], ram: dict[int, int], now: int
) -> None:
    """To the nano-dollar, whatever runs beside or after what, and however prices change in mid-month."""
    runs = [
        Lifetime(
            InstanceKey("p", str(number)),
            APRIL + start * TICK,
            Shape("n1-standard-1", vcpus, memory_mib),
            STANDARD,
            "us-central1-a",
            None if end is None else APRIL + max(start, end) * TICK,
        )
        for number, (start, end, vcpus, memory_mib) in enumerate(uses)
    ]
    book = PriceBook(
        Price(PriceKey(resource, "us-central1", STANDARD), Unit.HOUR, rate, APRIL + tick * TICK, "test")
        for resource, rates in (("n1:core", core), ("n1:ram", ram))
        for tick, rate in rates.items()
    )
    found = {
        one.resource: one.discount.nanos for one in estimate(runs_of(*runs), book, APRIL.date(), APRIL + now * TICK)
    }
    cores, mib = [use[2] for use in uses], [use[3] for use in uses]
    for resource, rates, amounts, parts in (("n1:core", core, cores, 1), ("n1:ram", ram, mib, 1024)):
        prices = [rates[max((at for at in rates if at <= tick), default=min(rates))] for tick in range(120)]
        heights = [0] * 120
        for amount, (start, end, *_) in zip(amounts, uses, strict=True):
            for tick in range(start, min(now, 120 if end is None else end)):
                heights[tick] += amount
        assert found.get(resource, 0) == round(earned(heights, prices) / parts)
