"""Leases of projects: each is claimed by a replica, which renews all of its own together, or hands it over.

Claims and releases take turns with all other writes, so that no project changes hands between a check of its lease and
the commit of what was written under it. Renewals wait for no turn; what a claim finds locked is being renewed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, delete, or_, select, update

from costguard.db.bulk import chunks
from costguard.db.lease import Lease
from costguard.db.tables import project_leases, replicas
from costguard.db.upsert import upsert

_FORGOTTEN_AFTER = timedelta(minutes=1)  # a replica that is gone
_OF = project_leases.c


@dataclass(frozen=True, slots=True)
class ShardHolder:
    """The replica that watches a project, or watched it last. `holder` is empty where it was handed over."""

    project: str
    holder: str
    epoch: int
    since: datetime
    expires_at: datetime
    is_held: bool  # by the clock that it was read with


def read(connection: Connection, now: datetime, longest: timedelta | None = None) -> list[ShardHolder]:
    """Lists the holders of all projects that ever had one, by project.

    With `longest`, a lease that lasts longer than that from now counts as expired: the clock was put back, and a holder
    that lives renews it.
    """
    return [
        ShardHolder(
            row.project,
            row.holder,
            row.epoch,
            row.since,
            row.expires_at,
            row.holder != "" and row.expires_at > now and (longest is None or row.expires_at <= now + longest),
        )
        for row in connection.execute(_ALL)
    ]


def living_replicas(connection: Connection, now: datetime, longest: timedelta) -> set[str]:
    """Returns the names of the replicas that share the projects now; none lasts longer than `longest` by itself."""
    lives = (replicas.c.expires_at > now) & (replicas.c.expires_at <= now + longest)
    return set(connection.scalars(select(replicas.c.holder).where(lives)))


def join(connection: Connection, holder: str, expires_at: datetime) -> None:
    """Counts a replica among those that share the projects, from now until then; forgets those that are long gone."""
    upsert(connection, replicas, [{"holder": holder, "expires_at": expires_at}], ["holder"])
    connection.execute(delete(replicas).where(replicas.c.expires_at < expires_at - _FORGOTTEN_AFTER))


def leave(connection: Connection, holder: str) -> None:
    """Takes a replica out of those that share the projects."""
    connection.execute(delete(replicas).where(replicas.c.holder == holder))


def claim(
    connection: Connection, holder: str, projects: Collection[str], most: int, expires_at: datetime, now: datetime
) -> list[Lease]:
    """Claims at most so many of these projects, as far as nobody holds them; those that were free longest come first.

    A project that a lease is held of under this very name is claimed again: what answer its claim had is not known.
    """
    connection.execute(update(project_leases).where(_OF.expires_at > expires_at).values(expires_at=expires_at))
    claimed: list[Lease] = []
    for some in chunks(projects):
        _add_missing(connection, some, now)
        left = most - len(claimed)
        free = list(connection.scalars(_free(some, holder, now, left))) if left > 0 else []
        if not free:
            continue
        taken = (
            update(project_leases)
            .where(_OF.project.in_(free))
            .values(holder=holder, epoch=_OF.epoch + 1, expires_at=expires_at, since=now)
            .returning(_OF.project, _OF.epoch)
        )
        claimed += [
            Lease(row.project, holder, row.epoch, expires_at, is_of_project=True) for row in connection.execute(taken)
        ]
    return claimed


def release(connection: Connection, holder: str, held: Sequence[Lease], now: datetime) -> None:
    """Hands projects over at once, to whichever replica claims them. Harmless where a lease was lost."""
    epochs = {lease.name: lease.epoch for lease in held}
    for some in chunks(list(epochs)):
        ours = connection.execute(select(_OF.project, _OF.epoch).where(_OF.project.in_(some), _OF.holder == holder))
        mine = [row.project for row in ours if epochs[row.project] == row.epoch]
        connection.execute(update(project_leases).where(_OF.project.in_(mine)).values(holder="", expires_at=now))


def still_held(connection: Connection, held: Sequence[Lease]) -> set[str]:
    """Returns the projects whose leases are still ours; for use inside a write transaction."""
    epochs = {lease.name: lease.epoch for lease in held}
    ours: set[str] = set()
    for some in chunks(list(epochs)):
        rows = connection.execute(select(_OF.project, _OF.epoch).where(_OF.project.in_(some)))
        ours |= {row.project for row in rows if epochs[row.project] == row.epoch}
    return ours


def _add_missing(connection: Connection, projects: Sequence[str], now: datetime) -> None:
    """Adds the rows of projects that nobody ever held. Of the others none is named: it would wait for a renewal."""
    there = set(connection.scalars(select(_OF.project).where(_OF.project.in_(projects))))
    rows = [
        {"project": one, "holder": "", "epoch": 0, "expires_at": now, "since": now}
        for one in projects
        if one not in there
    ]
    upsert(connection, project_leases, rows, ["project"], [])


def _free(projects: Sequence[str], holder: str, now: datetime, most: int) -> Select[Any]:
    return (
        select(_OF.project)
        .where(_OF.project.in_(projects), or_(_OF.expires_at <= now, _OF.holder.in_(("", holder))))
        .order_by(_OF.expires_at, _OF.project)
        .limit(most)
        .with_for_update(skip_locked=True)
    )


_ALL = select(project_leases).order_by(_OF.project)
