"""Errors planted in a drawn bill: each is found and named, and none is invented."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import pytest
from tests.bill.two_sides import EURO, TwoSides, credited, sku_id

from costguard.bill.lines import EXPLAINED, BillState, Reason

SEEDS = range(3)  # forty of each were tried on 22 November 2026
_RATES = (Decimal(1), EURO, Decimal("149.35"))
Plant = Callable[[TwoSides], set[tuple[str, Reason]]]


def _missing_vm(sides: TwoSides) -> set[tuple[str, Reason]]:
    sides.without("train-1")
    return {("train-1", Reason.MISSING)}


def _vm_unknown_to_the_ledger(sides: TwoSides) -> set[tuple[str, Reason]]:
    sides.uses = [use for use in sides.uses if use.name != "train-2"]
    return {("train-2", Reason.UNKNOWN_VM)}


def _an_hour_too_much(sides: TwoSides) -> set[tuple[str, Reason]]:
    thing = next(use.thing for use in sides.uses if use.name == "train-3")
    sides.rows.append(sides.row(thing, "train-3", thing.id, "n1:core", Fraction(8 * 3600), 3))
    return {("train-3", Reason.MORE)}


def _hours_too_few(sides: TwoSides) -> set[tuple[str, Reason]]:
    mine = [row for row in sides.rows if row.resource_name == "train-3" and row.sku_id == sku_id("n1:ram")]
    sides.rows.remove(mine[len(mine) // 2])
    return {("train-3", Reason.LESS)}


def _wrong_price(sides: TwoSides) -> set[tuple[str, Reason]]:
    """Two percent too dear."""
    sides.change(
        "train-4",
        "gpu:nvidia-tesla-t4",
        lambda row: replace(row, list_nanos=row.cost_nanos * 102 // 100, cost_nanos=row.cost_nanos * 102 // 100),
    )
    return {("train-4", Reason.PRICE)}


def _repeated_row(sides: TwoSides) -> set[tuple[str, Reason]]:
    """Repeats one row of the disk, as the stored sums say it."""
    mine = [row for row in sides.rows if row.resource_name == "train-5-disk"]
    sides.rows.append(replace(mine[0], repeated_count=1))
    sides.rows.append(replace(mine[3], repeated_count=1))
    return {("train-5-disk", Reason.REPEATED)}


def _other_project(sides: TwoSides) -> set[tuple[str, Reason]]:
    sides.rows = [
        replace(row, project_id="train-9", project_number="19") if row.resource_name.startswith("train-0") else row
        for row in sides.rows
    ]
    return {("train-0", Reason.OTHER_PROJECT), ("train-0-disk", Reason.OTHER_PROJECT)}


def _currency_rate(sides: TwoSides) -> set[tuple[str, Reason]]:
    """The rate of one VM's GPU is a tenth off; its costs are at the right one."""
    sides.change("train-2", "gpu:nvidia-tesla-t4", lambda row: replace(row, rate=row.rate * Decimal("1.1")))
    return {("train-2", Reason.CURRENCY_RATE)}


def _credit_twice(sides: TwoSides) -> set[tuple[str, Reason]]:
    """A commitment that covers all, credited twice."""
    kind = "COMMITTED_USAGE_DISCOUNT"
    sides.change("train-3", "n1:core", lambda row: credited(credited(row, kind, Fraction(1)), kind, Fraction(99, 100)))
    return {("train-3", Reason.CREDIT)}


_PLANTS: tuple[Plant, ...] = (
    _missing_vm,
    _vm_unknown_to_the_ledger,
    _an_hour_too_much,
    _hours_too_few,
    _wrong_price,
    _repeated_row,
    _other_project,
    _currency_rate,
    _credit_twice,
)


@pytest.mark.parametrize("rate", _RATES, ids=str)
def test_rounding_pieces_and_currency_make_no_difference(rate: Decimal) -> None:
    """Rows cut at six decimals, in pieces and in another currency, agree with the ledger on every line."""
    for seed in SEEDS:
        lines = TwoSides.drawn(seed, rate).compared().lines
        assert {line.state for line in lines} == {BillState.AGREED}, seed
        assert len(lines) == 6 * 4


@pytest.mark.parametrize("rate", _RATES, ids=str)
def test_agreed_vms_are_within_a_cent_a_month_at_list_price(rate: Decimal) -> None:
    """Thirty-one such days of a VM and its disk differ by less than $0.01, beyond what cutting euros takes off."""
    for seed in SEEDS:
        by_vm: dict[str, int] = {}
        for line in TwoSides.drawn(seed, rate).compared().lines:
            by_vm[line.vm_name] = by_vm.get(line.vm_name, 0) + line.difference
        # In euros the price itself is cut at six decimals: up to a millionth a unit and hour.
        allowed = 10_000_000 if rate == 1 else 40_000_000
        assert max(abs(nanos) * 31 for nanos in by_vm.values()) < allowed


@pytest.mark.parametrize("rate", _RATES, ids=str)
@pytest.mark.parametrize("plant", _PLANTS, ids=lambda plant: str(plant.__name__).strip("_"))
def test_planted_difference_is_found_and_named_and_none_is_invented(plant: Plant, rate: Decimal) -> None:
    """The planted lines of each seed's fleet alone differ, for the planted reason."""
    for seed in SEEDS:
        sides = TwoSides.drawn(seed, rate)
        planted = plant(sides)
        findings = sides.findings()
        disk = {(name, reason) for name, reason in findings if reason is Reason.UNKNOWN_DISK}
        assert findings - disk == planted, seed


def test_every_pair_of_planted_differences_is_named() -> None:
    """Two errors of one bill do not hide each other."""
    for seed, (first, second) in enumerate(combinations(_PLANTS, 2)):
        sides = TwoSides.drawn(seed, EURO)
        planted = first(sides)
        others = second(TwoSides.drawn(seed, EURO))
        if {name for name, _ in planted} & {name for name, _ in others}:
            continue
        planted |= second(sides)
        differing = {(name, reason) for name, reason in sides.findings() if reason not in EXPLAINED}
        assert differing == planted, (first.__name__, second.__name__)
