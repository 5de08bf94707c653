"""Searches organisations and folders for projects, records what that changes, and says what is watched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.ledger import projects
from costguard.ledger.discovery import rows
from costguard.ledger.discovery.narrate import tell_found, tell_search, tell_unnamed
from costguard.ledger.discovery.rules import EVERY, OwnLook, SearchResult, WatchScope, judge, watched_projects
from costguard.ledger.projects import ProjectLook
from costguard.model.event import Event
from costguard.model.observation import PlaceSearch, Unread
from costguard.model.ports import Clock, ProjectSearch

Watched: TypeAlias = Callable[[], Sequence[str]]
"""Returns the projects that are watched now. Raises StoreError."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchList:
    """The projects that are watched now, as the settings and the last searches say. Only listed ones take no query."""

    database: Database
    scope: WatchScope

    def __call__(self) -> Sequence[str]:
        """Raises StoreError: a list that cannot be read is unknown, and never short."""
        if not self.scope.places:
            return self.scope.kept
        with self.database.read() as connection:
            return watched_projects(
                self.scope, rows.read_all(connection), [look.project for look in projects.read_all(connection)]
            )


class Discovery:
    """Searches all places. One run at a time; the caller sees to that."""

    def __init__(self, database: Database, source: ProjectSearch, clock: Clock, scope: WatchScope) -> None:
        self._database = database
        self._source = source
        self._clock = clock
        self._scope = scope

    @property
    def is_due(self) -> bool:
        """Says whether the places are searched again: the last try of one is long enough ago."""
        if not self._scope.places:
            return False
        now = self._clock.now()
        with self._database.read() as connection:
            tried = {one.place: one.tried_at for one in rows.places(connection)}
        return any(place not in tried or now - tried[place] >= EVERY for place in self._scope.places)

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> SearchResult:
        """Searches each place and records what that changes. Raises LeaseLost when another daemon took over."""
        searches: list[PlaceSearch] = []
        for place in self._scope.places:
            if stop is not None and stop.is_set():
                return SearchResult()  # it is searched again: what ended early changes nothing
            searches.append(self._search(place))
        return self.record(searches, fence)

    def _search(self, place: str) -> PlaceSearch:
        with Isolated("place_not_searched", passing=(), place=place) as failure:
            return self._source.search(place)
        reason = f"{place} could not be searched ({failure.words}); the log holds the trace to report."
        return PlaceSearch(place, unread=Unread("project", reason, "unexpected"))

    def record(self, searches: Sequence[PlaceSearch], fence: Lease | None = None) -> SearchResult:
        """Writes what the searches change, in one transaction."""
        now = self._clock.now()
        with self._database.write(fence) as connection:
            before = {row.project: row for row in rows.read_all(connection)}
            looks = _own_looks(connection, projects.read_all(connection))
            result = judge(self._scope, before, looks, searches, now)
            rows.store(connection, result.rows)
            events = [
                *(tell_found(row, now) for row in result.appeared),
                *(tell_unnamed(number, now) for number in result.unnamed),
                *self._events_of(connection, searches, now),
            ]
            audit_log.append(connection, events, now)
        for row in result.appeared:
            log.info("project_found", project=row.project, number=row.number)
        for row in result.gone:
            log.warning("project_gone", project=row.project, why=row.gone_because)
        return result

    def _events_of(self, connection: Connection, searches: Iterable[PlaceSearch], now: datetime) -> list[Event]:
        before = {one.place: one for one in rows.places(connection)}
        rows.forget_places(connection, self._scope.places)
        events: list[Event] = []
        for search in searches:
            last = before.get(search.place)
            event = tell_search(search.place, last.failure_code if last is not None else "", search.unread, now)
            if event is not None:
                events.append(event)
                log.warning("search", place=search.place, what=event.text)
            rows.store_search(connection, search, last, now)
        return events


def _own_looks(connection: Connection, looks: Sequence[ProjectLook]) -> dict[str, OwnLook]:
    """Returns what the guard itself last saw of each project that it looks at."""
    vms = rows.vms_present(connection, [look.project for look in looks])
    return {look.project: OwnLook(look.last_complete_at, vms.get(look.project, 0), look.unread) for look in looks}
