"""The fleet's history of zones and starts: months of rows, which are read again only every so often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.deadlines.hazards import ZoneCounts
from costguard.deadlines.waits import WaitCounts
from costguard.jobs.decide.measures.start_times import StartTimes
from costguard.jobs.rows.history import flex_waits, start_rows
from costguard.jobs.rows.history.zone_history import VMKind, zone_counts

_READ_EVERY = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class SeenByFleet:
    counts: Mapping[VMKind, Mapping[str, ZoneCounts]] = field(default_factory=dict)  # of zones
    starts: Mapping[str, Mapping[str, StartTimes]] = field(default_factory=dict)  # by preset and zone
    waits: Mapping[VMKind, WaitCounts] = field(default_factory=dict)  # of requests of flex-start


class FleetHistory:
    """Threads may share it: two that read at once read the same."""

    def __init__(self) -> None:
        self._last: tuple[datetime, SeenByFleet] | None = None

    def read(self, connection: Connection, now: datetime) -> SeenByFleet:
        last = self._last
        if last is None or not timedelta() <= now - last[0] < _READ_EVERY:
            last = self._last = (
                now,
                SeenByFleet(
                    zone_counts(connection, now), start_rows.read(connection, now), flex_waits.read(connection, now)
                ),
            )
        return last[1]
