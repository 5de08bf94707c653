"""Zones for replayed runs: made up, random, or hostile to the job that uses them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from costguard.deadlines.hazards import TogetherCounts
from costguard.deadlines.market import RecordedMarket
from costguard.deadlines.series import ZoneSeries
from costguard.deadlines.situation import Act, Choice, Policy, Situation, Zone

GAP_H = 0.1


def series_of(
    ups: str, name: str = "us-east1-b_a100_1", gap_h: float = GAP_H, prices: tuple[float, ...] = ()
) -> ZoneSeries:
    """Makes a series from a drawing: "11100" is three points up and two out."""
    return ZoneSeries(name, "drawn", gap_h * 3600, tuple(up == "1" for up in ups), prices)


def drawn_market(*zones: str, spot_price: float = 1.0, prices: tuple[float, ...] = ()) -> RecordedMarket:
    """`prices` are the zones' own."""
    series = [
        series_of(ups, f"zone-{place}_a100_1", prices=prices[place : place + 1]) for place, ups in enumerate(zones)
    ]
    return RecordedMarket(series, spot_price)


def random_ups(random: Random, points: int, mean_up_h: float, mean_out_h: float) -> str:
    """Periods with exponential lengths."""
    ups = ""
    is_up = random.random() < mean_up_h / (mean_up_h + mean_out_h)
    while len(ups) < points:
        length = random.expovariate(1 / (mean_up_h if is_up else mean_out_h)) / GAP_H
        ups += ("1" if is_up else "0") * max(1, round(length))
        is_up = not is_up
    return ups[:points]


class HostileMarket:
    """Zones that are always up, until one is used: it is lost after the next of `lives`, and out for as many points.

    Give the policy to `watching`, so that the market learns what is used.
    """

    def __init__(self, zones: int, lives: Sequence[int], spot_price: float = 1.0, gap_h: float = GAP_H) -> None:
        self.gap_h = gap_h
        self.points = 10**9
        self._names = [f"zone-{place}" for place in range(zones)]
        self._lives = lives
        self._price = spot_price
        self._used = 0
        self._down_until = dict.fromkeys(self._names, 0)
        self._lost_at: dict[str, int] = {}

    def is_up(self, name: str, point: int) -> bool:
        if name in self._lost_at and point >= self._lost_at[name]:
            life = self._lives[self._used % len(self._lives)]
            self._down_until[name] = self._lost_at.pop(name) + life
        return point >= self._down_until[name]

    def price(self, name: str, point: int) -> float:
        return self._price

    def next_change(self, point: int) -> int:
        return point + 1

    def zones(self, point: int) -> tuple[Zone, ...]:
        return tuple(Zone(name, self._price, point >= self._down_until[name], 30.0) for name in self._names)

    def together(self, point: int) -> TogetherCounts | None:
        return None

    def use(self, name: str, point: int) -> None:
        self._used += 1
        self._lost_at[name] = point + self._lives[self._used % len(self._lives)]

    def watching(self, policy: Policy) -> Policy:
        return _Watched(policy, self)


class _Watched:
    def __init__(self, policy: Policy, market: HostileMarket) -> None:
        self.name = policy.name
        self._policy = policy
        self._market = market

    def choose(self, situation: Situation) -> Choice:
        choice = self._policy.choose(situation)
        if choice.act is Act.START_SPOT and choice.zone is not None:
            self._market.use(choice.zone, round(situation.elapsed_h / self._market.gap_h))
        return choice
