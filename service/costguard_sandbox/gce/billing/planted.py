"""Errors planted in an export: eight kinds, each on a VM, day or SKU of its own, so that none hides another."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from enum import StrEnum

from costguard_sandbox.gce.billing.usage import Billed, HourOfUse

_SHIFT = 600  # seconds too many or too few: far more than a second and a thousandth of a day
_DEARER = Decimal("1.25")
_LEAST_SECONDS = 2 * _SHIFT  # of the longest hour, so that every error is larger than what may differ


class BillError(StrEnum):
    MISSING_VM = "missing_vm"  # none of the VM's rows of the day
    UNKNOWN_VM = "unknown_vm"  # rows of a VM that there never was
    WRONG_SECONDS = "wrong_seconds"  # ten minutes of uptime too many or too few
    WRONG_PRICE = "wrong_price"  # a SKU a quarter dearer, on each of its rows of the day
    REPEATED_ROW = "repeated_row"  # one row twice in one append
    WRONG_PROJECT = "wrong_project"  # the VM's rows of the day carry another project's id and number
    WRONG_RATE = "wrong_rate"  # the rows' rate is 3 % off; their costs are as they should be
    REPEATED_CREDIT = "repeated_credit"  # a promotion that pays for each row stands on it twice


@dataclass(frozen=True, slots=True)
class Planted:
    """The place of a planted error:

    `resource_id` is empty for WRONG_PRICE, `sku_id` for an error in all of the VM's rows.
    """

    error: BillError
    pacific_day: date
    resource_id: str = ""
    sku_id: str = ""
    seconds: int = 0  # of WRONG_SECONDS, negative for too few


def plan(
    errors: Sequence[BillError], usages: Sequence[HourOfUse], days: Iterable[date], draw: random.Random
) -> list[Planted]:
    """Raises ValueError where there are too few VMs and SKUs to give each error its own."""
    allowed = set(days)
    longest: dict[tuple[str, date], int] = {}
    skus: dict[tuple[str, date], set[str]] = {}
    for use in usages:
        if use.billed.path == "instances" and use.is_uptime and use.pacific_day in allowed:
            place = use.billed.id, use.pacific_day
            longest[place] = max(longest.get(place, 0), use.seconds)
            skus.setdefault(place, set()).add(use.sku_id)
    places = sorted(place for place, seconds in longest.items() if seconds >= _LEAST_SECONDS)
    draw.shuffle(places)
    planted: list[Planted] = []
    taken: set[object] = set()
    for error in sorted(errors, key=lambda one: one is not BillError.WRONG_PRICE):
        for vm, day in places:
            of_day = {(sku, day) for sku in skus[vm, day]}
            if vm in taken or of_day & taken:
                continue
            if error is BillError.WRONG_PRICE:
                sku = draw.choice(sorted(skus[vm, day]))
                taken |= {(sku, day)}
                planted.append(Planted(error, day, sku_id=sku))
            elif error is BillError.UNKNOWN_VM:
                planted.append(Planted(error, day, str(draw.randrange(10**18, 9 * 10**18))))
            else:
                taken.add(vm)
                shift = draw.choice((_SHIFT, -_SHIFT)) if error is BillError.WRONG_SECONDS else 0
                planted.append(Planted(error, day, vm, seconds=shift))
            break
        else:
            raise ValueError(f"there are too few VMs to plant {error} where nothing else is planted")
    return planted


def with_wrong_usage(usages: Iterable[HourOfUse], planted: Sequence[Planted]) -> list[HourOfUse]:
    """The errors of usage and price; those of single rows come later."""
    right = list(usages)
    changed = right
    for one in planted:
        match one.error:
            case BillError.MISSING_VM:
                changed = [use for use in changed if not is_at(use, one)]
            case BillError.UNKNOWN_VM:
                changed = [*changed, *_made_up(right, one)]
            case BillError.WRONG_SECONDS:
                changed = _shifted(changed, one)
            case BillError.WRONG_PRICE:
                changed = [
                    replace(use, price=use.price * _DEARER)
                    if use.sku_id == one.sku_id and use.pacific_day == one.pacific_day
                    else use
                    for use in changed
                ]
            case _:
                pass
    return changed


def is_at(use: HourOfUse, planted: Planted) -> bool:
    return (use.billed.id, use.pacific_day) == (planted.resource_id, planted.pacific_day)


def _shifted(usages: Sequence[HourOfUse], planted: Planted) -> list[HourOfUse]:
    """The VM's longest hour of the day, longer or shorter on each SKU of its uptime."""
    here = [use for use in usages if is_at(use, planted) and use.is_uptime]
    hour = max(here, key=lambda use: (use.seconds, use.hour)).hour
    longest = {
        use.sku_id: use for use in sorted(here, key=lambda use: use.seconds) if use.hour == hour
    }  # the last of each SKU stays
    return [
        replace(use, seconds=use.seconds + planted.seconds) if longest.get(use.sku_id) is use else use for use in usages
    ]


def _made_up(usages: Sequence[HourOfUse], planted: Planted) -> list[HourOfUse]:
    """The day of some VM once more, under an id that no VM has."""
    model = min(
        (use for use in usages if use.pacific_day == planted.pacific_day and use.billed.path == "instances"),
        key=lambda use: (use.billed.project, use.billed.id),
    ).billed
    billed = Billed(model.project, "instances", planted.resource_id, "made-up-vm", model.zone)
    return [
        replace(use, billed=billed)
        for use in usages
        if use.billed == model and use.pacific_day == planted.pacific_day and use.is_uptime
    ]
