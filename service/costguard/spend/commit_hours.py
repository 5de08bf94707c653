"""Reads on-demand use by the hour, of each billed resource, machine family and region, from the ledger's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from sqlalchemy import BigInteger, Connection, or_, select, type_coerce

from costguard.db.remembered import remembers
from costguard.db.tables import lifetimes
from costguard.db.types import EPOCH
from costguard.ledger import projects
from costguard.ledger.billed.machine_parts import parts_of_shape
from costguard.ledger.rows import shape_from
from costguard.model.instance import ProvisioningModel, region_of
from costguard.spend.commit_advice import SCALE, UseKey

_HOUR = timedelta(hours=1)
_HOUR_S = 3600
_SECOND = timedelta(seconds=1)
_SHAPE = ("machine_type", "vcpus", "memory_mib", "gpu_type", "gpu_count", "local_ssd_gib")


@dataclass(frozen=True, slots=True)
class HoursOfUse:
    """`series` is `Use.series`, of the whole hours from `since`. `unknown_runs` have parts that are not known."""

    since: datetime
    hours: int
    series: dict[UseKey, list[int]]
    unknown_runs: int


def hours_of_use(connection: Connection, now: datetime, days: int) -> HoursOfUse:
    """The last so many days up to the last full hour, or as many as the ledger has looked at any project."""
    until = now - (now - EPOCH) % _HOUR
    first = projects.first_watched_at(connection) or until
    since = max(until - timedelta(days=days), min(until, first + (EPOCH - first) % _HOUR))
    return _read(connection, since, (until - since) // _HOUR)


@remembers(lifetimes)
def _read(connection: Connection, since: datetime, hours: int) -> HoursOfUse:
    """Adds up runs: each begins and ends once, so that a long one takes no more time than a short one."""
    columns, until = lifetimes.c, since + hours * _HOUR
    moments = [type_coerce(columns[name], BigInteger) for name in ("started_at", "ended_at")]
    query = select(*moments, columns.zone, *(columns[name] for name in _SHAPE)).where(
        columns.provisioning_model == ProvisioningModel.STANDARD.value,
        columns.started_at < until,
        or_(columns.ended_at.is_(None), columns.ended_at > since),
    )
    zero, length = (since - EPOCH) // _SECOND, hours * _HOUR_S
    running: dict[tuple[Any, ...], _Running] = {}
    for started, ended, *kind in connection.execute(query):
        vms = running.get(key := tuple(kind))
        if vms is None:
            vms = running[key] = _Running(hours)
        vms.change(max(0, started // 1_000_000 - zero), 1)
        if ended is not None and (end := ended // 1_000_000 - zero) < length:
            vms.change(end, -1)
    return _by_resource(since, hours, running)


class _Running:
    """VMs of one kind: seconds of them in each hour."""

    def __init__(self, hours: int) -> None:
        self.runs = 0
        self._within = [0] * (hours + 1)  # of what begins or ends in the hour itself
        self._after = [0] * (hours + 1)  # by how many seconds an hour has more than the one before it

    def change(self, at_s: int, vms: int) -> None:
        self.runs += vms > 0
        hour, second = divmod(at_s, _HOUR_S)
        self._within[hour] += vms * (_HOUR_S - second)
        self._after[min(hour + 1, len(self._after) - 1)] += vms * _HOUR_S

    def seconds(self) -> list[int]:
        return [before + here for before, here in zip(accumulate(self._after[:-1]), self._within[:-1], strict=True)]


def _by_resource(since: datetime, hours: int, running: dict[tuple[Any, ...], _Running]) -> HoursOfUse:
    series: dict[UseKey, list[int]] = {}
    unknown = 0
    for (zone, *columns), vms in running.items():
        shape = shape_from(*columns)
        if not (parts := parts_of_shape(shape)):
            unknown += vms.runs
            continue
        if shape.machine_type.startswith("v"):  # a node of the Cloud TPU API, which sells commitments of its own
            continue
        seconds = vms.seconds()
        for part in parts:
            amount = round(part.quantity * SCALE)
            key = UseKey(shape.family, region_of(zone), part.resource)
            series[key] = _add(series.get(key), amount, seconds)
    return HoursOfUse(since, hours, series, unknown)


def _add(before: list[int] | None, amount: int, seconds: Sequence[int]) -> list[int]:
    if before is None:
        return [amount * one for one in seconds]
    return [total + amount * one for total, one in zip(before, seconds, strict=True)]
