"""The rows of projects that searches found or that refuse to be read, and of the places that are searched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Connection, func, literal, select

from costguard.db.remembered import remembers
from costguard.db.tables import instances, searched_places, watched_projects
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.ledger.discovery.rules import WatchedProject, refusal_of
from costguard.model.observation import Observation, PlaceSearch, Unread

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SearchedPlace:
    """The result of the last searches of an organisation or folder. `failed_since` is None while they succeed."""

    place: str
    tried_at: datetime
    searched_at: datetime | None
    project_count: int
    failed_since: datetime | None
    failure_code: str
    failure: str


@remembers(watched_projects)
def read_all(connection: Connection) -> list[WatchedProject]:
    """All projects that were ever found, missed or refusing, by name."""
    return [WatchedProject(**row._mapping) for row in connection.execute(_PROJECTS)]


@remembers(searched_places)
def places(connection: Connection) -> list[SearchedPlace]:
    """The places that were searched, by name."""
    return [SearchedPlace(**row._mapping) for row in connection.execute(_PLACES)]


_PROJECTS = select(watched_projects).order_by(watched_projects.c.project)
_PLACES = select(searched_places).order_by(searched_places.c.place)


def store(connection: Connection, rows: Sequence[WatchedProject]) -> None:
    """Writes what searches changed; whether a project answers is written by its looks alone."""
    of_searches = [name for name in WatchedProject.__dataclass_fields__ if not name.startswith("refus")]
    changed = [name for name in of_searches if name != "project"]
    upsert(connection, watched_projects, [asdict(row) for row in rows], ["project"], changed)


def note_refusals(connection: Connection, looked: Observation, before: Sequence[Unread]) -> None:
    """Notes what a look says of refusals, where it differs from the look `before`.

    A look that failed for a reason of the moment says nothing: what refused before it is taken to refuse still.
    """
    refusal, was = refusal_of(looked.unread), refusal_of(before)
    if refusal is not None:
        is_same = was is not None and was.code == refusal.code
        if not is_same and note_refusal(connection, looked.project, refusal, looked.read_at):
            log.warning("project_refuses", project=looked.project, code=refusal.code, why=refusal.reason)
    elif (
        any(part.is_whole for part in before)
        and not any(part.is_whole for part in looked.unread)
        and note_answer(connection, looked.project)
    ):
        log.info("project_answers", project=looked.project)


def note_refusal(connection: Connection, project: str, refusal: Unread, now: datetime) -> bool:
    """Notes that a project has begun to refuse, or refuses in other words; says whether that is news."""
    row: dict[str, Any] = asdict(WatchedProject(project, refused_since=now))
    row |= {"refusal_code": refusal.code, "refusal": storable(refusal.reason)}
    changed = ["refusal_code", "refusal"]
    if _refused_since(connection, project) is None:
        changed.append("refused_since")
    return upsert(connection, watched_projects, [row], ["project"], changed) > 0


def note_answer(connection: Connection, project: str) -> bool:
    """Notes that a project answers; says whether it refused before."""
    columns = watched_projects.c
    refused = watched_projects.update().where(columns.project == project, columns.refused_since.is_not(None))
    return connection.execute(refused.values(refused_since=None, refusal_code="", refusal="")).rowcount > 0


def _refused_since(connection: Connection, project: str) -> datetime | None:
    since = select(watched_projects.c.refused_since).where(watched_projects.c.project == project)
    return connection.execute(since).scalar_one_or_none()


def why_gone(connection: Connection, project: str) -> str:
    """Says why the project is not watched any more; "" where the settings are why."""
    why = select(watched_projects.c.gone_because).where(watched_projects.c.project == project)
    return connection.execute(why).scalar_one_or_none() or ""


def close(connection: Connection, project: str, now: datetime) -> None:
    """Marks a project that was found as not watched any more, and that nobody asks whether it answers."""
    columns = watched_projects.c
    row = {
        "gone_at": func.coalesce(columns.gone_at, literal(now, columns.gone_at.type)),
        "refused_since": None,
        "refusal_code": "",
        "refusal": "",
    }
    connection.execute(watched_projects.update().where(columns.project == project).values(row))


def store_search(connection: Connection, search: PlaceSearch, before: SearchedPlace | None, now: datetime) -> None:
    """Writes how a search ended. One that failed leaves what the last complete one showed."""
    failed = search.unread
    since = None if failed is None else (before.failed_since if before is not None else None) or now
    row = SearchedPlace(
        place=search.place,
        tried_at=now,
        searched_at=now if failed is None else None,
        project_count=len(search.projects),
        failed_since=since,
        failure_code="" if failed is None else failed.code,
        failure="" if failed is None else storable(failed.reason),
    )
    changed = ["tried_at", "failed_since", "failure_code", "failure"]
    if failed is None:
        changed += ["searched_at", "project_count"]
    upsert(connection, searched_places, [asdict(row)], ["place"], changed)


def forget_places(connection: Connection, kept: Collection[str]) -> None:
    """Drops the rows of places that the settings do not name any more."""
    connection.execute(searched_places.delete().where(searched_places.c.place.not_in(kept)))


def vms_present(connection: Connection, projects: Collection[str]) -> dict[str, int]:
    """Counts the VMs of these projects that the ledger does not know to be gone; projects without any are left out."""
    columns = instances.c
    query = (
        select(columns.project, func.count().label("vms"))
        .where(columns.gone_at.is_(None), columns.project.in_(projects))
        .group_by(columns.project)
    )
    return {row.project: row.vms for row in connection.execute(query)}
