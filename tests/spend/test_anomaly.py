"""Spending far above the usual counts as an anomaly."""

from __future__ import annotations

import pytest

from costguard.model.money import Money
from costguard.spend.anomaly import unusual_burn


def dollars(*amounts: int) -> list[Money]:
    return [Money.of(amount) for amount in amounts]


@pytest.mark.parametrize(
    ("now", "before", "usual"),
    [
        (30, (10, 10, 10), 10),  # three times
        (29, (10, 10, 10), None),
        (6, (1, 1, 1), 1),  # five dollars more
        (5, (1, 1, 1), None),
        (40, (10, 10, 50), None),  # it has been so before
        (60, (10, 10, 50), 10),  # one odd hour does not make the usual
        (5, (0, 0, 0), 0),
        (0, (0, 0, 0), None),
        (100, (), None),  # nothing is known
    ],
)
def test_far_above_is_thrice_and_five_dollars_more_and_more_than_ever(
    now: int, before: tuple[int, ...], usual: int | None
) -> None:
    """The usual is the median of the same hours of past weeks."""
    unusual = unusual_burn(Money.of(now), dollars(*before))
    assert unusual == (None if usual is None else Money.of(usual))
