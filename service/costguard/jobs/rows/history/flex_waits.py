"""Reads how long requests of flex-start waited, and how many were granted, by the kind of VM."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from costguard.db.tables import attempts, jobs
from costguard.deadlines.waits import SeenWait, WaitCounts, counts_of_waits
from costguard.jobs.rows.history.zone_history import VMKind
from costguard.jobs.rows.job_rows import RECIPE
from costguard.model.attempt import Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import NO_WAIT

LOOKED_BACK = timedelta(days=30)
_MOST = 5000
_HOUR = timedelta(hours=1)
_TOLERANCE = timedelta(minutes=2)  # between two looks, and for a clock
_NO_WAITS = frozenset({Outcome.QUOTA.value, Outcome.REFUSED.value})  # these say nothing of what others would wait for


def read(connection: Connection, now: datetime) -> Mapping[VMKind, WaitCounts]:
    """Returns the counts of requests that could wait. One that is open, or was given up, counts for as long as it was.

    What a request waited for is known to about half a minute.
    """
    columns = attempts.c
    query = (
        select(jobs.c.recipe, columns.asked_at, columns.made_at, columns.ended_at, columns.outcome)
        .join_from(attempts, jobs, jobs.c.id == columns.job_id)
        .where(
            columns.provisioning_model == ProvisioningModel.FLEX_START.value,
            columns.asked_at >= now - LOOKED_BACK,
            columns.formation == 0,  # several at once wait for other room than one
        )
        .order_by(columns.id.desc())
        .limit(_MOST)
    )
    seen: dict[VMKind, list[SeenWait]] = defaultdict(list)
    for row in connection.execute(query):
        recipe = RECIPE.validate_python(row.recipe)
        if recipe.wait == NO_WAIT or row.outcome in _NO_WAITS:
            continue
        until = row.made_at or row.ended_at or now
        hours = (until - row.asked_at) / _HOUR
        is_refused = row.outcome == Outcome.STOCKOUT.value and until - row.asked_at >= recipe.wait - _TOLERANCE
        seen[VMKind.of_recipe(recipe)].append(SeenWait(hours, row.made_at is not None, is_refused))
    return {kind: counts_of_waits(some) for kind, some in seen.items()}
