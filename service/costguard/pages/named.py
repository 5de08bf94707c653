"""Addresses of pages that name a job, a sweep or a VM where they should have its id."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows
from costguard.ledger import fleet_rows
from costguard.sweeps import sweep_rows


def with_id(database: Database, path: str, given: Mapping[str, str]) -> str | None:
    """The address with the id in place of the name; None where nothing has that name. Raises Conflict.

    `path` is the route's, such as `/jobs/{job_id}/output`, and `given` are its parts.
    """
    ids = dict(given)
    with database.read() as connection:
        if "job_id" in given:
            ids["job_id"] = job_rows.id_of(connection, given["job_id"])
        if "sweep_id" in given:
            ids["sweep_id"] = sweep_rows.id_of(connection, given["sweep_id"])
        if "gce_id" in given:
            ids["gce_id"] = fleet_rows.gce_id_of(connection, given["project"], given["gce_id"])
    return None if ids == given else path.format(**{part: quote(value, safe="") for part, value in ids.items()})
