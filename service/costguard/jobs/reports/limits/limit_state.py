"""Reads all that the queues of limits rest on, with when running jobs are expected to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.jobs.decide.limits.in_use import PresentUse
from costguard.jobs.decide.limits.queue import PastUse, Turn, Wanted, line_up
from costguard.jobs.reports.limits.expected_ends import expected_ends
from costguard.jobs.rows.limits import limit_rows
from costguard.jobs.rows.limits.limit_rows import LimitAttribution
from costguard.model.budget import FleetLimit
from costguard.model.reminder import Team

_SERVES = timedelta(seconds=60)  # reading the ends of all jobs costs more than a turn without news


@dataclass(frozen=True, slots=True)
class QueueState:
    """The use of limits and the jobs that wait, as the rows have it. `returning` lost a VM a moment ago."""

    uses: Sequence[PresentUse] = ()
    stored: Mapping[str, Wanted] = field(default_factory=dict)
    returning: Mapping[str, Wanted] = field(default_factory=dict)
    past: Sequence[PastUse] = ()

    def line_up(self, limits: Sequence[FleetLimit], wanted: Mapping[str, Wanted], now: datetime) -> list[Turn]:
        """Returns the turns of all who wait, with those of `wanted` in place of what is stored of them."""
        everyone = {**self.returning, **self.stored, **wanted}
        return line_up(limits, self.uses, everyone.values(), now, self.past)


class QueueReader:
    """Reads the queues of these limits. Ends and past use are read once a minute. One thread at a time."""

    def __init__(self, limits: Sequence[FleetLimit], teams: Sequence[Team] = ()) -> None:
        self.limits = limits
        self.attribution = LimitAttribution(teams)
        self._ends: Mapping[str, datetime] = {}
        self._past: Sequence[PastUse] = ()
        self._refreshed_at: datetime | None = None

    def read(self, connection: Connection, now: datetime) -> QueueState:
        """Reads everything; without limits nothing."""
        if not self.limits:
            return QueueState()
        present = self._uses(connection)
        if self._refreshed_at is None or not timedelta() <= now - self._refreshed_at < _SERVES:
            self._ends = expected_ends(connection, {use.job for use in present if use.job}, now)
            self._past = limit_rows.past_uses(connection, self.attribution, now)
            self._refreshed_at = now
        return QueueState(
            [replace(use, ends_at=self._ends.get(use.job)) for use in present],
            limit_rows.waiting(connection, self.attribution),
            limit_rows.returning(connection, self.attribution, now),
            self._past,
        )

    def _uses(self, connection: Connection) -> list[PresentUse]:
        with_others = any(limit.counts_others for limit in self.limits)
        return limit_rows.uses(connection, self.attribution, with_others=with_others)
