"""Compares each VM's bill with the ledger, and tells of each that differs what either side holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Part:
    """The whole seconds and nano-dollars of one resource, and the spans that they are of, in words."""

    resource: str
    seconds: int
    nanos: int
    spans: str


@dataclass(frozen=True, slots=True)
class Side:
    """Holds a VM's account on one side. `notes` say what it rests on: the cloud's operations, or the ledger's spans."""

    name: str = ""
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def nanos(self) -> int:
        return sum(part.nanos for part in self.parts)


def of_meter(vm: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]) -> Side:
    """Reads a VM from the answer of /sandbox/meter, and its own among these operations of the simulated cloud."""
    parts = [
        Part(resource, one["seconds"], one["nanos"], ", ".join(_lasted(span) for span in one["times"]))
        for resource, one in vm["resources"].items()
    ]
    mine = [one for one in operations if one["targetId"] == vm["id"]]
    mine.sort(key=lambda one: _moment(one, "insertTime"))
    return Side(f"{vm['name']} in {vm['project']}", tuple(parts), tuple(map(_operation, mine)))


def _lasted(span: Iterable[str]) -> str:
    began, ended = map(datetime.fromisoformat, span)
    return in_words(began, ended)


def _moment(one: Mapping[str, Any], key: str) -> datetime:
    return datetime.fromisoformat(one[key])


def _operation(one: Mapping[str, Any]) -> str:
    request = f"{one['operationType']} asked for at {_clock(_moment(one, 'insertTime'))} by {one.get('user', 'Google')}"
    times = in_words(*(_moment(one, key) if key in one else None for key in ("startTime", "endTime")))
    return f"{request}, {times}, {one['status']}{', failed' if 'error' in one else ''}"


def in_words(began: datetime | None, ended: datetime | None) -> str:
    """Writes a span by its times of day, in UTC and to the millisecond."""
    return f"{_clock(began)} to {_clock(ended)}"


def _clock(at: datetime | None) -> str:
    return "?" if at is None else at.astimezone(UTC).time().isoformat("milliseconds")


def differing(bills: Mapping[str, Side], ledger: Mapping[str, Side]) -> Iterator[str]:
    """Yields what both sides hold of each VM whose sums differ, the largest difference first; both are by its number.

    A bill is rounded once for each resource, the ledger once for each charge: a nano-dollar for each part is no
    difference.
    """
    none = Side()
    apart = {
        gce_id: ledger.get(gce_id, none).nanos - bills.get(gce_id, none).nanos
        for gce_id in bills.keys() | ledger.keys()
    }
    for gce_id in sorted(apart, key=lambda one: (-abs(apart[one]), one)):
        bill, held = bills.get(gce_id, none), ledger.get(gce_id, none)
        if abs(apart[gce_id]) > len(bill.parts) + len(held.parts):
            lines = [f"VM {gce_id}, {bill.name or held.name}: the ledger has {apart[gce_id]:+,} nano-dollars"]
            for who, side in (("bill", bill), ("ledger", held)):
                lines += [f"{who}: {one.resource} {one.seconds} s, {one.nanos:,}, {one.spans}" for one in side.parts]
                lines += [f"{who}: {note}" for note in side.notes]
            yield "\n      ".join(lines)
