"""The row of each watched project: the results of its last looks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, select, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import projects
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.observation import Observation, Unread


@dataclass(frozen=True, slots=True)
class ProjectLook:
    """The state of knowledge about a project. `instance_count` is that of the last look that read every zone.

    A look was wanted at `wanted_at`, by the replica that decides, before it acts on what is known of the project.
    """

    project: str
    first_seen_at: datetime
    last_tried_at: datetime
    last_complete_at: datetime | None
    operations_through_at: datetime | None
    unread: tuple[Unread, ...]
    instance_count: int
    wanted_at: datetime | None = None

    @property
    def is_unread(self) -> bool:
        """The last look read nothing of it at all, as where Google answers 403 to its list."""
        return any(part.is_whole for part in self.unread)


def record_look(connection: Connection, observation: Observation, now: datetime) -> None:
    """Writes the project's one row. What could not be read leaves what was known before."""
    _write_looks(connection, [(observation, now)])


def record_looks(connection: Connection, observations: Sequence[Observation]) -> None:
    """Writes the row of each of these projects, as of the moment of its look, in at most four statements."""
    _write_looks(connection, [(observation, observation.read_at) for observation in observations])


def _write_looks(connection: Connection, looks: Sequence[tuple[Observation, datetime]]) -> None:
    by_columns: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for observation, now in looks:
        complete = observation.instances_complete and not observation.unread_zones
        row: dict[str, Any] = {
            "project": observation.project,
            "first_seen_at": now,
            "last_tried_at": now,
            "last_complete_at": observation.read_at if complete else None,
            "operations_through_at": observation.operations_through_at,
            "unread": storable([asdict(unread) for unread in observation.unread]),
            "instance_count": len(observation.instances) + len(observation.unchanged) if complete else 0,
        }
        changed = ["last_tried_at", "unread"]
        if complete:
            changed += ["last_complete_at", "instance_count"]
        if observation.operations_through_at is not None:
            changed.append("operations_through_at")
        by_columns[tuple(changed)].append(row)
    for changed_columns, rows in by_columns.items():
        upsert(connection, projects, rows, ["project"], changed_columns)


def begin(connection: Connection, project: str, now: datetime) -> None:
    """Notes a project's first look, which may be recorded in parts; none of it counts as read before the last part."""
    row: dict[str, Any] = {
        "project": project,
        "first_seen_at": now,
        "last_tried_at": now,
        "last_complete_at": None,
        "operations_through_at": None,
        "unread": [],
        "instance_count": 0,
    }
    upsert(connection, projects, [row], ["project"], [])


def want(connection: Connection, names: Collection[str], now: datetime) -> None:
    """Notes that a look at these projects is wanted, by whichever replica holds them."""
    for some in chunks(names):
        connection.execute(update(projects).where(projects.c.project.in_(some)).values(wanted_at=now))


def last_look(connection: Connection, project: str) -> ProjectLook | None:
    """Returns the result of the last look at this project, or None before the first."""
    return last_looks(connection, [project]).get(project)


def last_looks(connection: Connection, names: Sequence[str]) -> dict[str, ProjectLook]:
    """Returns the result of the last look at each of these projects that was looked at before."""
    rows = [row for some in chunks(set(names)) for row in connection.execute(*_of_projects(some))]
    return {row.project: _look(row) for row in rows}


@prepared
def _of_projects(names: list[str]) -> Select[Any]:
    return select(projects).where(projects.c.project.in_(names))


def forget(connection: Connection, project: str) -> None:
    """Drop the project's row, as for a project that is not watched any more; its VMs stay in the ledger."""
    connection.execute(delete(projects).where(projects.c.project == project))


def watched_since(connection: Connection, project: str) -> datetime | None:
    """When Costguard first looked at the project, or None before that."""
    return connection.execute(
        select(projects.c.first_seen_at).where(projects.c.project == project)
    ).scalar_one_or_none()


@remembers(projects)
def read_all(connection: Connection) -> list[ProjectLook]:
    """All projects that were ever watched, by name."""
    return [_look(row) for row in connection.execute(_ALL)]


def first_watched_at(connection: Connection) -> datetime | None:
    """Returns the moment of the first look at any project; None before it."""
    return min((look.first_seen_at for look in read_all(connection)), default=None)


_ALL = select(projects).order_by(projects.c.project)


def _look(row: Row[Any]) -> ProjectLook:
    return ProjectLook(**{**row._mapping, "unread": tuple(Unread(**part) for part in row.unread)})


def unread(looks: Sequence[ProjectLook]) -> dict[str, frozenset[str]]:
    """The zones of each project that its last look could not read; "*" stands for all."""
    return {
        look.project: frozenset("*" if part.scope in {"project", "instances"} else part.scope for part in look.unread)
        for look in looks
    }
