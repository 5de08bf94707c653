"""The times, prices and waits that `costguard replay` is given, read from their options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from costguard.model.duration import read_span

if TYPE_CHECKING:
    from costguard.deadlines.waits import Waits

_HOURS = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(h|m|s|d)")
_UNIT_H = {"d": 24.0, "h": 1.0, "m": 1 / 60, "s": 1 / 3600}
_PRICE = re.compile(r"(spot|flex|demand|reserved)=(\d{1,6}(?:\.\d{1,9})?)")


def hours_of(text: str, option: str) -> float:
    match = _HOURS.fullmatch(text)
    if match is not None:
        return float(match[1]) * _UNIT_H[match[2]]
    span = read_span(text)
    if span is None:
        raise typer.BadParameter(f"expected a time such as 48h, 0.2h or 12m, not {text!r}.", param_hint=option)
    return span.total_seconds() / 3600


def shares(
    prices: str | None, ratio: float | None, flex_price: float | None
) -> tuple[float | None, float | None, float | None]:
    """Returns on demand over Spot, and flex-start and a reservation as shares of on demand; None where not given."""
    if prices is None:
        return ratio, flex_price, None
    if ratio is not None or flex_price is not None:
        raise typer.BadParameter("give --price-ratio and --flex-price, or --prices.", param_hint="--prices")
    named: dict[str, float] = {}
    for part in prices.split(","):
        match = _PRICE.fullmatch(part.strip())
        if match is None or match[1] in named or not float(match[2]) > 0:
            raise typer.BadParameter(
                f"expected prices above zero such as spot=1.93,flex=2.02,demand=3.67, not {part!r}.",
                param_hint="--prices",
            )
        named[match[1]] = float(match[2])
    if not {"spot", "demand"} <= named.keys():
        raise typer.BadParameter("name spot and demand, such as spot=1.93,demand=3.67.", param_hint="--prices")
    demand = named["demand"]
    flex, reserved = named.get("flex"), named.get("reserved")
    return (
        demand / named["spot"],
        flex / demand if flex is not None else None,
        reserved / demand if reserved is not None else None,
    )


def waits_of(text: str) -> Waits:
    """`0h-2h,0.2`: even from none to two hours, and a fifth is never granted."""
    from costguard.deadlines.waits import LONGEST_WAIT_H, Waits

    span, _, never = text.partition(",")
    shortest, dash, longest = span.partition("-")
    share = _share(never) if never else 0.0
    if not dash or share is None:
        raise typer.BadParameter(f"expected times and a share such as 0h-2h,0.2, not {text!r}.", param_hint="--waits")
    shortest_h, longest_h = hours_of(shortest, "--waits"), hours_of(longest, "--waits")
    if not shortest_h <= longest_h <= LONGEST_WAIT_H:
        raise typer.BadParameter(
            f"a request waits for {LONGEST_WAIT_H:g} h at most, and the first time is no later than the second: not "
            f"{text!r}.",
            param_hint="--waits",
        )
    return Waits(shortest_h, longest_h, share)


def _share(text: str) -> float | None:
    """A number from 0 to below 1; None where it is none."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 <= share < 1 else None
