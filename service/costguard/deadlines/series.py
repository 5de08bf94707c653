"""Recorded availability of Spot VMs: series in the format of the Spot traces of "Can't Be Late" (NSDI 2024).

A file is one zone: `{"metadata": {"gap_seconds": 195}, "data": [1, 1, 0, ...], "prices": [...]}`. A point counts as up
where all VMs that the file ever had at a time could be had. The prices of an hour are those of each point, or the ones
that `metadata.price_info` names for Spot and on demand. Files in one folder with one gap are the same moments.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from costguard.errors import Invalid

MOST_POINTS = 5_000_000
MOST_BYTES = 200_000_000


class ZoneSeries(NamedTuple):
    """The series of one zone.

    `prices` are of an hour on Spot, at each point or one for all; empty where the file has none.
    """

    name: str
    folder: str
    gap_s: float
    ups: tuple[bool, ...]
    prices: tuple[float, ...] = ()
    on_demand_price: float | None = None

    @property
    def gap_h(self) -> float:
        return self.gap_s / 3600

    @property
    def hours(self) -> float:
        return len(self.ups) * self.gap_h

    def price_at(self, point: int) -> float:
        return self.prices[min(point, len(self.prices) - 1)]


def read_folder(folder: Path) -> list[ZoneSeries]:
    """Every series in the folder and below it, sorted by path. Invalid where there is none, or a file is torn."""
    if not folder.is_dir():
        raise Invalid(f"{folder} is not a folder.", "Name the folder that holds the series, one JSON file for a zone.")
    files = sorted(path for path in folder.rglob("*.json") if path.is_file())
    if not files:
        raise Invalid(f"{folder} has no series in it.", "Put one JSON file for each zone there.")
    return [read_series(path, folder) for path in files]


def read_series(path: Path, above: Path | None = None) -> ZoneSeries:
    """Reads one file. `above`: the folder below which its own folder is named."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _torn(path, f"is larger than {MOST_BYTES // 1_000_000} MB")
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.", "Name a file that you may read.") from None
    except (ValueError, RecursionError) as error:
        raise _torn(path, f"is not whole JSON: {error}") from None
    folder = path.parent.relative_to(above) if above is not None else path.parent
    return series_of(document, path.stem, str(folder), path)


def series_of(document: object, name: str, folder: str = "", path: object = None) -> ZoneSeries:
    """Checks a document as it stands in a file; Invalid, with the file's name, where it is torn."""
    where = name if path is None else path
    if not isinstance(document, dict):
        raise _torn(where, "is no JSON object")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise _torn(where, 'has no object "metadata"')
    gap_s = _number(metadata.get("gap_seconds"))
    if gap_s is None or gap_s <= 0:
        raise _torn(
            where, f"has the gap {metadata.get('gap_seconds')!r} in metadata.gap_seconds, not seconds above zero"
        )
    ups = _ups(document.get("data"), where)
    prices = _prices(document.get("prices"), len(ups), where)
    spot, on_demand = _price_info(metadata.get("price_info"), where)
    if not prices and spot is not None:
        prices = (spot,)
    return ZoneSeries(name, folder, gap_s, ups, prices, on_demand)


def together(series: Iterable[ZoneSeries]) -> list[list[ZoneSeries]]:
    """Groups the zones of one recording: one folder, one gap, and one VM, which the file's name says after the zone."""
    groups: dict[tuple[str, float, str], list[ZoneSeries]] = {}
    for one in series:
        groups.setdefault((one.folder, one.gap_s, one.name.partition("_")[2]), []).append(one)
    return list(groups.values())


def _ups(data: object, where: object) -> tuple[bool, ...]:
    if not isinstance(data, list):
        raise _torn(where, 'has no list "data"')
    if len(data) < 2:
        raise _torn(where, f'has {len(data)} points in "data", and needs two or more')
    if len(data) > MOST_POINTS:
        raise _torn(where, f'has {len(data):,} points in "data", and may have {MOST_POINTS:,}')
    counts = []
    for place, value in enumerate(data):
        count = _number(value)
        if count is None or count < 0:
            raise _torn(where, f"has {value!r} in data[{place}], which is no number of VMs")
        counts.append(count)
    whole = max(1.0, max(counts))
    return tuple(count >= whole for count in counts)


def _prices(prices: object, points: int, where: object) -> tuple[float, ...]:
    if prices is None:
        return ()
    if not isinstance(prices, list) or len(prices) != points:
        count = len(prices) if isinstance(prices, list) else "no list"
        raise _torn(where, f'has {count} for "prices" and {points} points: one price a point is needed')
    checked = []
    for place, value in enumerate(prices):
        price = _number(value)
        if price is None or price <= 0:
            raise _torn(where, f"has {value!r} in prices[{place}], which is no price above zero")
        checked.append(price)
    return tuple(checked) if len(set(checked)) > 1 else tuple(checked[:1])


def _price_info(info: Any, where: object) -> tuple[float | None, float | None]:
    if info is None:
        return None, None
    if not isinstance(info, dict):
        raise _torn(where, "has a metadata.price_info that is no object")
    prices = []
    for key in ("price", "on_demand_price"):
        price = _number(info.get(key))
        if info.get(key) is not None and (price is None or price <= 0):
            raise _torn(where, f"has {info[key]!r} in metadata.price_info.{key}, which is no price above zero")
        prices.append(price)
    return prices[0], prices[1]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _torn(where: object, what: str) -> Invalid:
    return Invalid(f"{where} {what}.", "Copy the file again, or leave it out; its format is in docs/deadlines.md.")
