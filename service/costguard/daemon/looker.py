"""Looks at the projects that are due, and records what was seen, each project under its lease."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from costguard.daemon.listing_turns import ListingTurns
from costguard.daemon.looking import Looking
from costguard.daemon.shard_keeper import TAKEOVER
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard.isolation import Isolated
from costguard.ledger.looks.record_unchanged import record_each
from costguard.ledger.observe import Belonging
from costguard.ledger.projects import ProjectLook
from costguard.ledger.record import MOST_EVENTS, Recorded
from costguard.ledger.running import running_totals
from costguard.model.observation import Observation, Unread
from costguard.model.ports import Clock, Cloud

_PATIENCE_S = 20.0  # for one look, where other passes follow
_MANY = 20  # projects that were never looked at


class LookPace(NamedTuple):
    """Says how many projects are looked at at the same time, and which; without `turns` each pass looks at all.

    `fresh_for` is how old another replica's look at a project may be for anything new to be decided of that project.
    """

    parallel: int = 8
    turns: ListingTurns | None = None
    fresh_for: timedelta = timedelta(minutes=2) + TAKEOVER


@dataclass(slots=True)
class Looks:
    """The looks of one pass so far. `fences` are the projects that it may look at, with the leases to record under."""

    fences: Mapping[str, Lease | None]
    is_shared: bool  # with other replicas
    is_repeated: bool = False  # another pass follows
    recorded: list[Recorded] = field(default_factory=list)
    event_count: int = 0
    waiting: set[str] = field(default_factory=set)  # to be looked at by another replica before anything is decided

    def add(self, report: Recorded) -> None:
        """Adds what was recorded, and of all events as many as a report shows: a first pass's would take 200 MB."""
        self.event_count += len(report.events)
        self.recorded.append(report if self.event_count <= MOST_EVENTS else replace(report, events=()))

    @property
    def projects(self) -> list[str]:
        return [report.project for report in self.recorded]

    @property
    def undecided(self) -> list[str]:
        return [*self.waiting, *(report.project for report in self.recorded if report.error)]


class Looker:
    """Looks at projects for one pass after the other."""

    def __init__(self, database: Database, cloud: Cloud, clock: Clock, belonging: Belonging, pace: LookPace) -> None:
        self._database = database
        self._cloud = cloud
        self._clock = clock
        self._belonging = belonging
        self._turns = pace.turns
        self._looking = Looking(self._look, pace.parallel)

    def late(self, looks: Looks) -> tuple[str, ...]:
        """Returns the projects whose looks go on, and come with a later pass."""
        return tuple(sorted(self._looking.late.intersection(looks.fences)))

    def ended(self, looks: Looks) -> tuple[str, ...]:
        """Returns the projects whose looks were late, and wait for a pass to record them."""
        return tuple(sorted(self._looking.ended.intersection(looks.fences)))

    @property
    def has_ended(self) -> bool:
        """Says whether a look that was late has ended, and no pass has taken it yet."""
        return bool(self._looking.ended)

    def record(
        self,
        due: Collection[str],
        before: Sequence[ProjectLook],
        looks: Looks,
        fence: Lease | None,
        stop: threading.Event | None,
    ) -> None:
        """Looks at these projects, and records each under its lease. `fence` is the daemon's own, None without one.

        `before` are the last looks: operations are read from the moment on up to which each project's are recorded.

        Where projects are shared, one that was passed on meanwhile is left to the replica that holds it now. Raises
        StoreError when the database failed for all.
        """
        troubles: list[StoreError] = []
        for observations in self._observe(due, before, looks, fence):
            if self._turns is not None:
                for observation in observations:
                    self._turns.listed(observation)
            for report in record_each(
                self._database,
                self._cloud,
                observations,
                self._belonging,
                looks.fences,
                looks.is_shared,
                stop,
                troubles,
            ):
                looks.add(report)
            if stop is not None and stop.is_set():
                break
        if troubles and len(troubles) == len(looks.recorded):
            raise troubles[0]

    def _observe(
        self, due: Collection[str], before: Sequence[ProjectLook], looks: Looks, fence: Lease | None
    ) -> Iterator[list[Observation]]:
        """Looks at these projects at once, and yields observations as they come, some at a time."""
        since = {look.project: look.operations_through_at for look in before}
        new = [project for project in due if project not in since]
        if len(new) >= _MANY and 2 * len(new) >= len(due):
            with self._database.write(fence) as connection:
                running_totals.leave_to_catch_up(connection)
        return self._looking.batches(list(due), since, _PATIENCE_S if looks.is_repeated else None)

    def _look(self, project: str, since: datetime | None) -> Observation:
        """An error that no adapter should let through costs the look at one project, not the pass."""
        with Isolated("project_not_observed", passing=(), project=project) as failure:
            return self._cloud.observe(project, since)
        reason = (
            f"Project {project} could not be read ({failure.words}). "
            "It is tried again at every pass; the log holds the trace to report."
        )
        unread = (Unread("project", reason, "unexpected"),)
        return Observation(project, self._clock.now(), instances_complete=False, unread=unread)
