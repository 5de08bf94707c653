"""Reads how attempts and their runs ended, by place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, or_, select, union_all

from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import attempts, interruptions
from costguard.model.attempt import Outcome
from costguard.model.instance import ProvisioningModel


@dataclass(frozen=True, slots=True)
class PlaceOutcome:
    """The outcome of an attempt, or one of its runs, in a place."""

    zone: str
    gpu_type: str
    provisioning_model: ProvisioningModel
    outcome: Outcome
    at: datetime


@remembers(attempts, interruptions)
def recent(connection: Connection, since: datetime) -> list[PlaceOutcome]:
    """Returns the outcomes of attempts, and of runs of those that went on, from then on; the oldest first."""
    return [
        PlaceOutcome(zone, gpu_type, ProvisioningModel(model), Outcome(outcome), at)
        for zone, gpu_type, model, outcome, at in connection.execute(*_recent(since))
    ]


@prepared
def _recent(since: datetime) -> Select[Any]:
    where = (attempts.c.zone, attempts.c.gpu_type, attempts.c.provisioning_model)
    ended = select(*where, attempts.c.outcome, attempts.c.ended_at.label("at")).where(attempts.c.ended_at >= since)
    # Its last run's interruption and its own outcome are one event.
    went_on = or_(
        attempts.c.outcome.is_(None),
        attempts.c.outcome != interruptions.c.outcome,
        interruptions.c.run < attempts.c.run,
    )
    runs = (
        select(*where, interruptions.c.outcome, interruptions.c.happened_at.label("at"))
        .join_from(interruptions, attempts, attempts.c.id == interruptions.c.attempt_id)
        .where(interruptions.c.happened_at >= since, went_on)
    )
    both = union_all(ended, runs).subquery()
    return select(both).order_by(both.c.at)
