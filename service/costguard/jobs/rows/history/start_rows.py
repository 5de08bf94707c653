"""Reads how long VMs took to start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, select

from costguard.db.prepared import prepared
from costguard.db.tables import attempts, jobs, progress_points
from costguard.jobs.decide.measures.start_times import StartTimes, VmStart, by_preset
from costguard.model.instance import ProvisioningModel

LOOKED_BACK = timedelta(days=90)
_MOST = 5000


def read(connection: Connection, now: datetime) -> Mapping[str, Mapping[str, StartTimes]]:
    """Reads first runs alone: a VM that is started again has its image and data.

    By preset and zone; "" is all zones.
    """
    return by_preset([VmStart(*row) for row in connection.execute(*_starts(now - LOOKED_BACK))])


@prepared
def _starts(intended_since: datetime) -> Select[Any]:
    began = attempts.c
    first = (
        select(progress_points.c.attempt_id, func.min(progress_points.c.at).label("stepped_at"))
        .where(progress_points.c.run == 1)
        .group_by(progress_points.c.attempt_id)
        .subquery()
    )
    return (
        select(
            jobs.c.preset,
            began.zone,
            began.intended_at,
            began.made_at,
            began.booted_at,
            began.started_at,
            first.c.stepped_at,
        )
        .join_from(attempts, jobs, jobs.c.id == began.job_id)
        .outerjoin(first, first.c.attempt_id == began.id)
        .where(
            began.run == 1,
            began.restarts == 0,
            began.follows.is_(None),  # one that stood by waited, and not for its start
            began.started_at.is_not(None),
            began.provisioning_model != ProvisioningModel.FLEX_START.value,  # what a request waits for is no start
            began.intended_at >= intended_since,
        )
        .order_by(began.id.desc())
        .limit(_MOST)
    )
