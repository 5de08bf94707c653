"""Rows of an export added up, by the export day that brought them, resource, terms and day.

A million rows a day are some tens of thousands of sums: one VM's hour comes in several rows of several components, and
only days are compared. What the sums lose is kept as counts: how many rows there were, as each row's cost is cut by up
to a millionth, and how many were repeated, as a row that Google wrote twice is an error of the bill.
"""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from hashlib import blake2b
from typing import IO, TypeVar

from costguard.bill.commit_sums import CommitKey, CommitSum, commit_sum
from costguard.bill.export_fields import UnreadableRow
from costguard.bill.export_row import BillTerms, ExportRow, Judged, Resource
from costguard.model.words import count_text

_MOST_SUMS = 200_000  # in memory; more go to a temporary file and are added up there
_MASK = 2**64 - 1
_MOST_NANOS = 9 * 10**18  # of what the database holds, 2^63 - 1
_REASONS = 5  # rows that are named, of those that are left out
SumKey = tuple[date, date, Resource, BillTerms]
_Named = TypeVar("_Named", Resource, BillTerms)


@dataclass(slots=True)
class UsageSum:
    """`amount` is in billionths of the unit. `digests` has one number for each row."""

    start: datetime
    end: datetime
    export: datetime | None
    amount: int = 0
    list_nanos: int | None = 0
    default_nanos: int | None = 0
    cost_nanos: int = 0
    credits: dict[tuple[str, str, str], int] | None = None
    row_count: int = 0
    repeated_count: int = 0
    digests: array[int] | None = None

    def merge(self, other: UsageSum) -> None:
        """Add another sum of the same key."""
        self.start, self.end = min(self.start, other.start), max(self.end, other.end)
        self.export = max(self.export, other.export) if self.export and other.export else self.export or other.export
        self.amount += other.amount
        self.list_nanos = _sum(self.list_nanos, other.list_nanos)
        self.default_nanos = _sum(self.default_nanos, other.default_nanos)
        self.cost_nanos += other.cost_nanos
        for key, nanos in (other.credits or {}).items():
            self.credits = self.credits or {}
            self.credits[key] = self.credits.get(key, 0) + nanos
        self.row_count += other.row_count
        self.repeated_count += other.repeated_count
        if self.digests is not None and other.digests is not None:
            self.digests.extend(other.digests)
            self.repeated_count = len(self.digests) - len(set(self.digests))


@dataclass(slots=True)
class Batch:
    """The rows that were appended at one moment: how many, and a digest that does not depend on their order."""

    row_count: int = 0
    digest: int = 0


@dataclass(slots=True)
class PartitionSums:
    """The sums of one export day of one source: by the day, and of commitments by the hour."""

    source: str
    day: date
    batches: dict[str, Batch] = field(default_factory=dict)
    usage: dict[SumKey, UsageSum] = field(default_factory=dict)
    commitments: dict[CommitKey, CommitSum] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        return sum(batch.row_count for batch in self.batches.values())


@dataclass(slots=True)
class LeftOut:
    """Rows that were not read: how many, and the reasons of the first."""

    row_count: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, row: UnreadableRow) -> None:
        self.row_count += 1
        if len(self.reasons) < _REASONS:
            self.reasons.append(row.message)

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.row_count + other.row_count, [*self.reasons, *other.reasons][:_REASONS])

    @property
    def words(self) -> str:
        """A sentence with its reasons; "" where every row was read."""
        if not self.row_count:
            return ""
        is_one = self.row_count == 1
        first = f"{count_text(self.row_count, 'row')} could not be read and {'is' if is_one else 'are'} left out."
        more = self.row_count - len(self.reasons)
        return " ".join([first, *self.reasons, *([f"And {more:,} more."] if more else [])])


class ExportSums:
    """Adds rows up in bounded memory. Use it once: add rows, then take the partitions."""

    def __init__(self, most_sums: int = _MOST_SUMS) -> None:
        self._most_sums = most_sums
        self._partitions: dict[tuple[str, date], PartitionSums] = {}
        self._spilled: dict[tuple[str, date], IO[bytes]] = {}
        self._sums = 0
        self._resources: dict[Resource, tuple[Resource, int]] = {}
        self._terms: dict[BillTerms, tuple[BillTerms, int]] = {}
        self.row_count = 0
        self.left_out = LeftOut()

    def add(self, rows: Iterable[Judged]) -> None:
        """Adds what can be read; what cannot is counted in `left_out`, the first ones with their reason."""
        for row in rows:
            if isinstance(row, UnreadableRow):
                self.left_out.add(row)
            else:
                try:
                    self._add(row)
                except UnreadableRow as error:
                    self.left_out.add(error)

    def _add(self, row: ExportRow) -> None:
        export = row.export
        place = row.source, export.utc_day if export else row.end.utc_day
        partition = self._partitions.get(place)
        if partition is None:
            partition = self._partitions[place] = PartitionSums(*place)
        # Sums share one object of equal ones: each row came with its own, of a dozen texts.
        resource, resource_digest = _shared(self._resources, row.resource)
        terms, terms_digest = _shared(self._terms, row.terms)
        key = row.start.pacific_day, row.start.utc_day, resource, terms
        usage = partition.usage.get(key)
        if usage is not None and abs(usage.cost_nanos) + abs(row.cost_nanos) > _MOST_NANOS:
            raise UnreadableRow(f"With a row of {resource.resource_name}, a day's costs are more than can be stored.")
        digest = _digest(row, (resource_digest, terms_digest))
        moment = export.at.isoformat() if export else ""
        batch = partition.batches.get(moment)
        if batch is None:
            batch = partition.batches[moment] = Batch()
        batch.row_count += 1
        batch.digest = (batch.digest + digest) & _MASK
        self.row_count += 1
        if usage is None:
            usage = UsageSum(row.start.at, row.end.at, export.at if export else None, digests=array("Q"))
            partition.usage[key] = usage
            self._sums += 1
        _add_row(usage, row, digest)
        if (of_hour := commit_sum(row)) is not None:
            key_of_hour, amounts = of_hour
            partition.commitments.setdefault(key_of_hour, CommitSum()).merge(amounts)
        if self._sums >= self._most_sums:
            self._spill()

    def _spill(self) -> None:
        for place, partition in self._partitions.items():
            if place not in self._spilled:
                self._spilled[place] = tempfile.TemporaryFile()  # noqa: SIM115 closed when its partition is taken
            pickle.dump(partition.usage, self._spilled[place], pickle.HIGHEST_PROTOCOL)
            partition.usage = {}
        self._sums = 0
        self._resources.clear()
        self._terms.clear()

    def partitions(self) -> Iterator[PartitionSums]:
        """Yields partitions by source and day; each is whole, and held only while it is looked at."""
        for place in sorted(self._partitions):
            partition = self._partitions.pop(place)
            spilled = self._spilled.pop(place, None)
            if spilled is not None:
                with spilled:
                    _read_back(partition, spilled)
            yield partition


def _shared(values: dict[_Named, tuple[_Named, int]], value: _Named) -> tuple[_Named, int]:
    """The first equal value, and its digest."""
    shared = values.get(value)
    if shared is None:
        shared = values[value] = value, _number(repr(tuple(map(str, value))))
    return shared


def _digest(row: ExportRow, names: tuple[int, int]) -> int:
    """Digests all fields that are kept of a row: equal for equal rows on every computer and in every form of the
    export.
    """
    figures = (row.amount, row.list_nanos, row.cost_nanos)
    times = (row.start.at.timestamp(), row.end.at.timestamp())
    credits = [(one.type, one.name, one.id, one.nanos) for one in row.credits] if row.credits else ""
    return _number(f"{names}{times}{figures}{credits}")


def _add_row(usage: UsageSum, row: ExportRow, digest: int) -> None:
    if row.start.at < usage.start:
        usage.start = row.start.at
    if row.end.at > usage.end:
        usage.end = row.end.at
    if row.export is not None and (usage.export is None or row.export.at > usage.export):
        usage.export = row.export.at
    usage.amount += row.amount
    usage.list_nanos = _sum(usage.list_nanos, row.list_nanos)
    usage.default_nanos = _sum(usage.default_nanos, row.default_nanos)
    usage.cost_nanos += row.cost_nanos
    for credit in row.credits:
        usage.credits = usage.credits or {}
        key = (credit.type, credit.name, credit.id)
        usage.credits[key] = usage.credits.get(key, 0) + credit.nanos
    usage.row_count += 1
    assert usage.digests is not None
    if digest in usage.digests:
        usage.repeated_count += 1
    usage.digests.append(digest)


def _read_back(partition: PartitionSums, spilled: IO[bytes]) -> None:
    end = spilled.tell()
    spilled.seek(0)
    while spilled.tell() < end:
        for key, usage in pickle.load(spilled).items():  # noqa: S301 written by this very object
            if key in partition.usage:
                partition.usage[key].merge(usage)
            else:
                partition.usage[key] = usage


def _sum(one: int | None, other: int | None) -> int | None:
    """Unknown where either is."""
    return None if one is None or other is None else one + other


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
