"""The savings of Spot are added up by days or within the periods in which on-demand prices stay."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, SpotUse, Unit
from costguard.spend.spot import spot_saving

DAY = timedelta(days=1)
FIRST, LAST = date(2026, 3, 1), date(2026, 3, 20)
T0 = datetime.combine(FIRST, time(), UTC)
STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
RESOURCES = ("n1:core", "n1:ram")
# At midnights, right before and after, and in between.
MOMENTS = st.builds(
    lambda days, off: T0 + days * DAY + off,
    st.integers(-3, 22),
    st.sampled_from([timedelta(0), timedelta(microseconds=1), timedelta(microseconds=-1), timedelta(hours=7)]),
)
CHANGES = st.tuples(st.sampled_from(RESOURCES), st.sampled_from([STANDARD, SPOT]), MOMENTS, st.integers(1, 10**9))


@given(st.lists(CHANGES, max_size=8))
def test_periods_of_steady_prices_save_what_their_days_do(
    changes: list[tuple[str, ProvisioningModel, datetime, int]],
) -> None:
    """They tile the days, and a use added up within each comes to what it does day by day, to the nano-dollar."""
    keyed = {(resource, model, at): rate for resource, model, at, rate in changes}
    on_demand = [
        Price(PriceKey(resource, "us-east1", model), Unit.HOUR, rate, at, "test")
        for (resource, model, at), rate in keyed.items()
    ]
    prices = {
        number: Price(PriceKey(resource, "us-east1", SPOT), Unit.HOUR, 1, T0, "test", id=number)
        for number, resource in enumerate(RESOURCES, 1)
    }
    book = PriceBook([*prices.values(), *on_demand])
    days = [FIRST + back * DAY for back in range((LAST - FIRST).days + 1)]
    used = {(day, id_): day.toordinal() ** 2 * id_ for day in days for id_ in prices if day.day % 7 != id_}
    singly = [SpotUse(day, price_id, Fraction(many, 7), Money(many)) for (day, price_id), many in used.items()]
    periods = book.steady(STANDARD, FIRST, LAST)
    assert [day for first, last in periods for day in days if first <= day <= last] == days
    within: Counter[tuple[date, int]] = Counter()
    for (day, price_id), many in used.items():
        (begin,) = (first for first, last in periods if first <= day <= last)
        within[begin, price_id] += many
    together = [SpotUse(day, price_id, Fraction(many, 7), Money(many)) for (day, price_id), many in within.items()]
    assert spot_saving(together, prices, book) == spot_saving(singly, prices, book)


def test_days_are_cut_only_where_another_price_follows() -> None:
    """Neither by the first of a key, which holds for the time before as well, nor by the same again, nor by Spot's."""
    book = PriceBook(
        Price(PriceKey("n1:core", "us-east1", model), Unit.HOUR, rate, at, "test")
        for model, rate, at in (
            (STANDARD, 1, T0 + 2 * DAY),
            (STANDARD, 2, T0 + 5 * DAY),
            (STANDARD, 2, T0 + 7 * DAY),
            (STANDARD, 1, T0 + 8 * DAY + timedelta(hours=1)),
            (SPOT, 1, T0),
            (SPOT, 2, T0 + 3 * DAY),
        )
    )
    cut = [FIRST, FIRST + 5 * DAY, FIRST + 9 * DAY]
    assert book.steady(STANDARD, FIRST, LAST) == [
        (cut[0], cut[1] - DAY),
        (cut[1], cut[2] - DAY),
        (cut[2], LAST),
    ]
    assert book.steady(STANDARD, cut[2], cut[2]) == [(cut[2], cut[2])]
    assert PriceBook([]).steady(STANDARD, FIRST, LAST) == [(FIRST, LAST)]
