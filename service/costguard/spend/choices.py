"""What the fleet can be filtered by: the values that VMs that are there have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from costguard.db.remembered import remembers
from costguard.db.tables import instances


@dataclass(frozen=True, slots=True)
class Choices:
    """Each in alphabetical order; an owner of "" stands for nobody."""

    projects: tuple[str, ...]
    presets: tuple[str, ...]
    owners: tuple[str, ...]
    statuses: tuple[str, ...]


@remembers(instances)
def read(connection: Connection) -> Choices:
    columns = instances.c
    query = (
        select(columns.project, columns.preset, columns.owner, columns.status)
        .where(columns.gone_at.is_(None))
        .distinct()
    )
    rows = connection.execute(query).all()
    return Choices(*(_sorted(row[place] for row in rows) for place in range(4)))


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))
