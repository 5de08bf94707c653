"""Rows of where jobs store and from what they start, written once, as a job is submitted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import job_origins, job_places, jobs, seen_checkpoints
from costguard.db.types import storable
from costguard.jobs.decide.lineage import (
    MOST_JOBS,
    LineageLink,
    Origin,
    Uses,
    folders_of,
    origins_of,
    place_key,
    places_of,
)
from costguard.model.job import Job

_COLUMNS = ("job_id", "parent_id", "address_key", "address", "uses")
_LINKS = select(*(job_origins.c[name] for name in _COLUMNS))


def record(connection: Connection, job: Job, resume_from: str | None) -> None:
    """Writes down where a new job stores, and which jobs stored what it starts from.

    Only jobs that are stored already can be its parents, so that there are no cycles. `resume_from` is as in
    `origins_of`.
    """
    origins = origins_of(job.spec, resume_from)
    keys = {folder: place_key(folder) for origin in origins for folder in folders_of(origin.address)}
    taken = _taken(connection, set(keys.values()), job.id)
    rows = []
    for origin in origins:
        parent = _parent(connection, origin, [keys[folder] for folder in folders_of(origin.address)], taken, job)
        # What is in no job's place may be any data; a checkpoint that was seen came from somewhere.
        if parent is None and not (origin.uses is Uses.CHECKPOINT and origin.is_certain):
            continue
        rows.append(
            {
                "job_id": job.id,
                "address_key": place_key(origin.address),
                "address": storable(origin.address),
                "uses": origin.uses.value,
                "parent_id": parent,
            }
        )
    if rows:
        connection.execute(insert(job_origins), rows)
    if places := [{"job_id": job.id, "place_key": place_key(place)} for place in places_of(job.spec)]:
        connection.execute(insert(job_places), places)


def _taken(connection: Connection, keys: Collection[str], job_id: str) -> set[str]:
    """Returns those of these places at which another job stores."""
    columns = job_places.c
    query = select(columns.place_key).distinct()
    return {
        key
        for some in chunks(keys)
        for key in connection.scalars(query.where(columns.place_key.in_(some), columns.job_id != job_id))
    }


def _parent(connection: Connection, origin: Origin, keys: list[str], taken: Collection[str], job: Job) -> str | None:
    """Returns the job in whose place the address is: the first that saw this very checkpoint, else the newest.

    The most specific place counts. Where nobody looked for a checkpoint at the job's own location, it counts if another
    job was seen to save in the very same one.
    """
    if not origin.is_certain:
        keys = keys[:1]
    key = next((one for one in keys if one in taken), None)
    if key is None:
        return None
    seen = connection.scalar(*_first_to_see(key, job.id, storable(origin.address)))
    if seen is not None:
        return str(seen)
    newest = _newest(key, job.id)
    if not origin.is_certain:
        newest = newest.where(jobs.c.look_resume_from != "")
    newest_id = connection.scalar(newest)
    return None if newest_id is None else str(newest_id)


@prepared
def _first_to_see(key: str, job_id: str, address: str) -> Select[Any]:
    seen = seen_checkpoints.c
    return (
        select(seen.job_id)
        .join_from(job_places, seen_checkpoints, seen.job_id == job_places.c.job_id)
        .where(job_places.c.place_key == key, job_places.c.job_id != job_id, seen.resume_from == address)
        .order_by(seen.first_seen_at, seen.job_id)
        .limit(1)
    )


def _newest(key: str, job_id: str) -> Select[Any]:
    columns = job_places.c
    query = select(columns.job_id).join(jobs, jobs.c.id == columns.job_id)
    query = query.where(columns.place_key == key, columns.job_id != job_id)
    return query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(1)


def links_of(connection: Connection, job_id: str) -> tuple[list[LineageLink], bool]:
    """Returns all links by which a job hangs together with others, up and down; and whether these are all of them.

    From what it started from only the way up is followed, and from what started from it only the way down.
    """
    links: dict[tuple[str, str], LineageLink] = {}
    is_whole = True
    for upward in (True, False):
        seen, waiting = {job_id}, [job_id]
        while waiting and is_whole:
            query = _from_what if upward else _started_from
            rows = [row for some in chunks(waiting) for row in connection.execute(*query(some))]
            fresh = []
            for row in rows:
                link = LineageLink(row.job_id, row.parent_id, row.address, Uses(row.uses))
                links[row.job_id, row.address_key] = link
                other = link.parent if upward else link.job_id
                if other is not None and other not in seen:
                    seen.add(other)
                    fresh.append(other)
            waiting = fresh
            is_whole = len(seen) <= MOST_JOBS
    return list(links.values()), is_whole


@prepared
def _from_what(job_ids: list[str]) -> Select[Any]:
    return _LINKS.where(job_origins.c.job_id.in_(job_ids))


@prepared
def _started_from(job_ids: list[str]) -> Select[Any]:
    return _LINKS.where(job_origins.c.parent_id.in_(job_ids))
