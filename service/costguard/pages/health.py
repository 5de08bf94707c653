"""The page Health: what /readyz says, part by part, each with what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.daemon import health
from costguard.daemon.health import Health, ProjectState, Verdict
from costguard.daemon.listings import ListingReason
from costguard.daemon.project_counts import ProjectCounts, counts_of
from costguard.daemon.unread_groups import UnreadGroup, unread_groups
from costguard.db import health_rows as stored_health
from costguard.db.health_rows import ArchiveFiles, HistoryFiles
from costguard.doctor.finding import Finding, SetupReport
from costguard.errors import StoreError
from costguard.model.duration import span_text
from costguard.model.mending import command_for
from costguard.model.observation import Unread
from costguard.pages import query
from costguard.pages.page import Given, Source, page_router
from costguard.pages.prices import OLD

_MANY = 20  # more projects are summed up, and searched by their name
_MOST_FOUND = 50

_KINDS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_SENTENCES = {
    Verdict.READY: "Everything is working.",
    Verdict.DEGRADED: "Costguard works, but something needs attention.",
    Verdict.NOT_READY: "Do not rely on the figures on these pages.",
}

router = page_router()


@dataclass(frozen=True, slots=True)
class UnreadScope:
    """A part of a project that could not be read. `command` fixes it; "" where no one command does."""

    unread: Unread
    command: str


@dataclass(frozen=True, slots=True)
class ProjectRow:
    name: str
    last_complete_at: datetime | None
    last_tried_at: datetime
    age: timedelta | None
    is_stale: bool
    is_unread: bool
    vms: int
    how: str  # how often it is listed, and why; "" where no events are pulled
    parts: Sequence[UnreadScope]


@dataclass(frozen=True, slots=True)
class ProjectsOverview:
    """Many projects in a few lines. `unread` has what could not be read, by its reason; `late` are out of date.

    `query` is what is searched for, and `match_count` counts the projects whose name has it.
    """

    counts: ProjectCounts
    read: Sequence[str]
    late: Sequence[str]
    unread: Sequence[UnreadGroup]
    query: str
    match_count: int


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    """`missing` are archives that are not in their folder. Without any, `archives` and `history` are None."""

    kind: str
    size: int
    archives: ArchiveFiles | None
    history: HistoryFiles | None
    missing: Sequence[str]


@dataclass(frozen=True, slots=True)
class HealthPage:
    """`database` is None where the database did not answer."""

    report: Health
    sentence: str
    detail: str
    projects: Sequence[ProjectRow]  # all, or of many those that are searched for
    overview: ProjectsOverview | None  # None of few
    holder: str  # of the daemon's lease, now or last; "" where it was never held
    is_held: bool
    prices_are_old: bool
    refused: Mapping[str, int]  # from Slack, by reason
    database: DatabaseInfo | None
    setup: SetupReport | None  # None: it was not checked (yet)
    lacking: Sequence[Finding]  # of the set-up, what is needed or unknown


@router.get("/health")
def show_health(request: Request, pages: Given) -> HTMLResponse:
    """Answers, as a page, while the database does not."""
    page = _gathered(pages.source, query.texts(request.query_params, "/health").get("project", ""))
    return pages.renderer.page(request, "health.html", page.report.as_of, health=page)


def _gathered(source: Source, searched: str) -> HealthPage:
    report = health.health(source)
    shown, overview = report.projects, None
    if len(shown) > _MANY:
        shown = [state for state in shown if searched and searched in state.look.project]
        overview, shown = _overview(report.projects, searched, len(shown)), shown[:_MOST_FOUND]
    daemon, setup = next(iter(report.holders), None), source.setup()
    return HealthPage(
        report=report,
        sentence=_SENTENCES[report.verdict],
        detail=_detail(report),
        projects=[_project(state, has_feed=report.watch.feed is not None) for state in shown],
        overview=overview,
        holder=daemon.lease.holder if daemon is not None else "",
        is_held=any(holder.is_held for holder in report.holders),
        prices_are_old=report.prices_age is not None and report.prices_age > OLD,
        refused=report.slack_refused,
        database=_database(source) if report.has_answered else None,
        setup=setup,
        lacking=[one for one in setup.findings if not one.is_ok] if setup is not None else (),
    )


def _detail(report: Health) -> str:
    if report.verdict is Verdict.NOT_READY:
        return "The reasons are below; start with the first."
    if report.verdict is Verdict.DEGRADED:
        number = len(report.warnings)
        what = "One thing needs attention" if number == 1 else f"{number} things need attention"
        return f"{what}; everything else is up to date."
    ages = [state.age for state in report.projects if state.age is not None]
    oldest = f", the oldest read {span_text(max(ages))} ago" if ages else ""
    number = len(report.projects)
    return f"{number} {'project is' if number == 1 else 'projects are'} completely read{oldest}."


def _overview(states: Sequence[ProjectState], searched: str, match_count: int) -> ProjectsOverview:
    looks = [state.look for state in states]
    return ProjectsOverview(
        counts=counts_of(states),
        read=[state.look.project for state in states if not state.is_stale and not state.look.unread],
        late=[state.look.project for state in states if state.is_late],
        unread=unread_groups(looks),
        query=searched,
        match_count=match_count,
    )


_LISTED = {
    None: "Events come, so it is listed every 14 minutes.",
    ListingReason.SILENT: "No events come, so every pass lists it.",
    ListingReason.UNPROVEN: "No event of it ever came, so every pass lists it.",
    ListingReason.MISSED: "An event of it was missed, so every pass lists it until they come again.",
}


def _project(state: ProjectState, *, has_feed: bool) -> ProjectRow:
    look = state.look
    return ProjectRow(
        name=look.project,
        last_complete_at=look.last_complete_at,
        last_tried_at=look.last_tried_at,
        age=state.age,
        is_stale=state.is_stale,
        is_unread=look.is_unread,
        vms=look.instance_count,
        how=_LISTED[state.doubt] if has_feed else "",
        parts=[UnreadScope(part, command_for(look.project, part)) for part in look.unread],
    )


def _database(source: Source) -> DatabaseInfo | None:
    try:
        with source.database.read() as connection:
            kind, size = _KINDS[connection.dialect.name], stored_health.size(connection)
            archives = stored_health.archive_files(connection)
            history = stored_health.history_files(connection)
    except StoreError:
        return None
    return DatabaseInfo(kind, size, archives, history, _missing(archives, source.archive))


def _missing(archives: ArchiveFiles | None, folder: Path | None) -> Sequence[str]:
    if archives is None or folder is None:
        return ()
    try:
        there = {file.name for file in folder.iterdir()}
    except OSError:
        there = set()
    return sorted(name for name in archives.names if name not in there)
