"""Decides which projects are watched: those that are listed, and those that searches of Asset Inventory found. Pure.

Asset Inventory lags behind and is "not a synchronous control plane": that a search does not show a project says little,
and what the guard's own look at the project showed counts for more. A project that was found is let go only where two
things agree. `MISSES` complete searches in a row, over `ABSENT_FOR` at least, have not shown it; and since the first of
them the guard's own look has read the whole project and saw no VM, or Google answers that the project is deleted. A
project that refuses is never let go for that: what runs in it is unknown. A search that failed or ended early counts as
none. `exclude` ends the watch at once, as a person says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from costguard.model.observation import FoundProject, PlaceSearch, Unread

EVERY = timedelta(minutes=10)  # how often the places are searched
MISSES = 3  # complete searches in a row that do not show a project
ABSENT_FOR = 2 * EVERY  # from the first of them to the last, at least
MOST_PATIENCE = timedelta(minutes=10)  # before a project that refuses is asked again
_SLACK = timedelta(seconds=5)  # a pass is not begun to the second

# What an error of the moment, or of the guard itself, says nothing about: the next pass asks again.
_PASSING = frozenset(
    {"unreachable", "unavailable", "rate_limit", "rate_limited", "quota", "credentials", "bad_answer", "unexpected"}
)
# "Project #N has been deleted." and "... is pending deletion" are 403s.
_DELETED = re.compile(r"has been (?:deleted|scheduled for deletion)|(?:pending|marked for) deletion", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WatchScope:
    """Holds the listed projects, the places whose projects are found, and the patterns of those to leave out.

    A place is `organizations/N` or `folders/N`. Patterns are project ids with `*` and `?`.
    """

    listed: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def excludes(self, project: str) -> bool:
        return any(fnmatchcase(project, pattern) for pattern in self.exclude)

    @property
    def kept(self) -> tuple[str, ...]:
        """Returns the listed projects, less those that are left out."""
        return tuple(project for project in self.listed if not self.excludes(project))


@dataclass(frozen=True, slots=True)
class WatchedProject:
    """Holds why a project is watched. `found_at` is None where no search has ever shown it.

    `missed` counts the complete searches since it was last found, the first of which was at `missing_since`. It is not
    watched from `gone_at` on, unless it is listed. `refused_since` is None while it answers.
    """

    project: str
    number: str | None = None
    found_at: datetime | None = None
    last_found_at: datetime | None = None
    missed: int = 0
    missing_since: datetime | None = None
    gone_at: datetime | None = None
    gone_because: str = ""
    refused_since: datetime | None = None
    refusal_code: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class OwnLook:
    """Holds what the guard itself last saw of a project. `vms` are those in the ledger that are not gone."""

    complete_at: datetime | None
    vms: int
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Holds what searches change: rows to store, projects that appeared or ended, and numbers without an id."""

    rows: tuple[WatchedProject, ...] = ()
    appeared: tuple[WatchedProject, ...] = ()
    gone: tuple[WatchedProject, ...] = ()
    unnamed: tuple[str, ...] = ()


def watched_projects(scope: WatchScope, stored: Iterable[WatchedProject], looked_at: Iterable[str]) -> tuple[str, ...]:
    """Returns the projects to watch: the listed ones in their order, then the others by name.

    Where projects are looked for, what was `looked_at` goes on being watched until a search and a look let it go: the
    settings may have listed it yesterday, and the first search may not have ended.
    """
    if not scope.places:
        return scope.kept
    rows = {row.project: row for row in stored}
    candidates = {project for project, row in rows.items() if row.found_at is not None} | set(looked_at)
    others = sorted(
        project
        for project in candidates - set(scope.kept)
        if (row := rows.get(project)) is None or row.gone_at is None
        if not scope.excludes(project)
    )
    return (*scope.kept, *others)


def judge(
    scope: WatchScope,
    before: Mapping[str, WatchedProject],
    looks: Mapping[str, OwnLook],
    searches: Sequence[PlaceSearch],
    now: datetime,
) -> SearchResult:
    """Compares the searches of all places with what is before.

    What a complete search of one place shows is watched, whatever became of the others. Absence counts only where every
    place was searched to its end.
    """
    complete = [search for search in searches if search.unread is None]
    named = {row.number: row.project for row in before.values() if row.number is not None}
    seen: dict[str, FoundProject] = {}
    unnamed: set[str] = set()
    for one in (project for search in complete for project in search.projects):
        project = one.project or named.get(one.number, "")
        if not project:
            unnamed.add(one.number)
        elif not scope.excludes(project):
            seen[project] = one
    rows = {project: _seen(before.get(project), project, one.number, now) for project, one in seen.items()}
    appeared = tuple(row for project, row in sorted(rows.items()) if _is_new(before.get(project)))
    gone: list[WatchedProject] = []
    places = {search.place for search in complete}
    if complete and places >= set(scope.places):
        for project in sorted({*before, *looks} - set(seen) - set(scope.kept)):
            row = before.get(project) or WatchedProject(project)
            if row.gone_at is not None or scope.excludes(project):
                continue
            missed = replace(row, missed=row.missed + 1, missing_since=row.missing_since or now)
            if why := why_gone(missed, looks.get(project), now):
                missed = replace(missed, gone_at=now, gone_because=why)
                gone.append(missed)
            rows[project] = missed
    changed = tuple(row for project, row in sorted(rows.items()) if row != before.get(project))
    return SearchResult(changed, appeared, tuple(gone), tuple(sorted(unnamed)))


def _seen(row: WatchedProject | None, project: str, number: str, now: datetime) -> WatchedProject:
    row = row or WatchedProject(project)
    return replace(
        row,
        number=number,
        found_at=row.found_at or now,
        last_found_at=now,
        missed=0,
        missing_since=None,
        gone_at=None,
        gone_because="",
    )


def _is_new(row: WatchedProject | None) -> bool:
    return row is None or row.found_at is None or row.gone_at is not None


def why_gone(row: WatchedProject, look: OwnLook | None, now: datetime) -> str:
    """Says why a project that searches do not show any more is let go; "" while it stays watched."""
    if row.missing_since is None or row.missed < MISSES or now - row.missing_since < ABSENT_FOR or look is None:
        return ""
    if is_deleted(look.unread):
        return "Google answers that the project is deleted"
    is_read = look.complete_at is not None and look.complete_at >= row.missing_since and not look.unread
    if is_read and not look.vms:
        return "it has no VMs any more"
    return ""


def is_deleted(unread: Iterable[Unread]) -> bool:
    """Says whether Google answered for the whole project that there is none, or none any more."""
    return any(part.is_whole and (part.code == "not_found" or _DELETED.search(part.reason)) for part in unread)


def refusal_of(unread: Iterable[Unread]) -> Unread | None:
    """Returns why a project refuses to be read at all; None where it answers, or may answer the next time."""
    return next((part for part in unread if part.is_whole and part.code not in _PASSING), None)


def is_due(row: WatchedProject | None, last_tried_at: datetime | None, now: datetime) -> bool:
    """Says whether a project is asked in this pass.

    One that was found and refuses is asked after as long again as it has refused: a minute, two, four, eight, and ten
    at most. One that no search has found is listed, and asked at every pass: a person named it, and may be granting the
    role just now.
    """
    if row is None or row.found_at is None or row.refused_since is None or last_tried_at is None:
        return True
    patience = min(MOST_PATIENCE, last_tried_at - row.refused_since)
    return now - last_tried_at >= patience - _SLACK


def due_projects(
    watched: Iterable[str],
    refusing: Mapping[str, WatchedProject],
    tried_at: Mapping[str, datetime],
    now: datetime,
) -> list[str]:
    """Returns the projects that a pass asks, in order."""
    return [project for project in watched if is_due(refusing.get(project), tried_at.get(project), now)]
