"""Rows of jobs' profiles: one of each job, to which windows are added."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, select

from costguard.db.bulk import chunks
from costguard.db.tables import job_profiles
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.decide.profile.job_profile import MOST_STACKS, JobProfile, ProfileWindow, added
from costguard_vm.profile.window import StackProfile, as_json, read_profile

_COLUMNS = ("attempt_id", "run", "number", "windows", "since", "until", "rereads", "profile")


class NewProfileWindow(NamedTuple):
    job_id: str
    attempt_id: int
    window: ProfileWindow


def add(connection: Connection, new: Iterable[NewProfileWindow]) -> None:
    """Adds windows to their jobs' profiles.

    One that is not after the last window of the same attempt is there already, and is left out.
    """
    windows = sorted(new, key=lambda one: (one.window.run, one.window.number))
    if not windows:
        return
    last: dict[str, tuple[int, int, int]] = {}
    profiles: dict[str, JobProfile] = {}
    for row in _rows(connection, {one.job_id for one in windows}):
        last[row.job_id], profiles[row.job_id] = (row.attempt_id, row.run, row.number), _profile(row)
    changed: set[str] = set()
    for job_id, attempt_id, window in windows:
        this = attempt_id, window.run, window.number
        before = last.get(job_id)
        if before is None or before[0] != attempt_id or before[1:] < this[1:]:
            profiles[job_id] = added(profiles.get(job_id, JobProfile()), window)
            last[job_id] = this
            changed.add(job_id)
    if changed:
        rows = [_columns(job_id, last[job_id], profiles[job_id]) for job_id in sorted(changed)]
        upsert(connection, job_profiles, rows, ("job_id",), _COLUMNS)


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, JobProfile]:
    """Returns the profiles of these jobs; those without any are left out."""
    return {row.job_id: _profile(row) for row in _rows(connection, job_ids)}


def with_stacks(connection: Connection, job_ids: Collection[str]) -> set[str]:
    """Returns those of the jobs whose profiles hold stacks, without reading these."""
    columns = job_profiles.c
    return {
        job_id
        for some in chunks(job_ids)
        for job_id in connection.scalars(select(columns.job_id).where(columns.job_id.in_(some), columns.windows > 0))
    }


def _rows(connection: Connection, job_ids: Collection[str]) -> list[Row[Any]]:
    query = select(job_profiles)
    return [row for some in chunks(job_ids) for row in connection.execute(query.where(job_profiles.c.job_id.in_(some)))]


def _profile(row: Row[Any]) -> JobProfile:
    stacks = read_profile(row.profile, MOST_STACKS) or StackProfile()
    return JobProfile(stacks, row.windows, row.since, row.until, tuple(row.rereads))


def _columns(job_id: str, last: tuple[int, int, int], profile: JobProfile) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "attempt_id": last[0],
        "run": last[1],
        "number": last[2],
        "windows": profile.windows,
        "since": profile.since,
        "until": profile.until,
        "rereads": [round(share, 4) for share in profile.rereads],
        "profile": storable(as_json(profile.stacks)),
    }
