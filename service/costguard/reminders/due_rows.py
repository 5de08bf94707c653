"""Finds the VMs about which anything may have to be done, without reading the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select

from costguard.access.rules import Rules
from costguard.db.tables import instances, lifetimes, utilisation
from costguard.model.utilisation import IdleState
from costguard.reminders import request_rows


def may_be_due(connection: Connection, rules: Rules, now: datetime, ahead: timedelta) -> set[int]:
    """Returns the instances that may be due within `ahead` of `now`, and those with open requests.

    Answers of people are not looked at: they only make a VM due later. Of a pool all VMs are due with one of them,
    which is left to `gather`.
    """
    moment = now + ahead
    due_ids = {instance_id for instance_id, _ in request_rows.open_requests(connection)}
    if late := [
        _is_late(name, preset.limit, moment) for name, preset in rules.presets.items() if preset.limit is not None
    ]:
        due_ids.update(connection.scalars(_running(late)))
    due_ids.update(connection.scalars(_idle(now)))
    if rules.rest.after is not None and rules.channel:  # of what is stored people are only reminded
        due_ids.update(connection.scalars(_resting(moment - rules.rest.after)))
    return due_ids


def _is_late(preset: str, limit: timedelta, moment: datetime) -> ColumnElement[bool]:
    counts_from = func.coalesce(lifetimes.c.age_from, lifetimes.c.started_at, type_=lifetimes.c.started_at.type)
    return and_(instances.c.preset == preset, counts_from <= moment - limit)


def _running(late: Sequence[ColumnElement[bool]]) -> Select[Any]:
    return (
        select(instances.c.id)
        .join_from(
            instances, lifetimes, and_(lifetimes.c.instance_id == instances.c.id, lifetimes.c.ended_at.is_(None))
        )
        .where(instances.c.gone_at.is_(None), or_(*late))
    )


def _idle(now: datetime) -> Select[Any]:
    columns = utilisation.c
    return select(columns.instance_id).where(columns.state == IdleState.IDLE.value, columns.good_until >= now)


def _resting(since: datetime) -> Select[Any]:
    """Selects those that do not run, and did not after this moment, nor were made after it where they never ran."""
    of_it = exists().where(lifetimes.c.instance_id == instances.c.id)
    ran_later = of_it.where(or_(lifetimes.c.ended_at.is_(None), lifetimes.c.ended_at > since))
    return select(instances.c.id).where(
        instances.c.gone_at.is_(None), ~ran_later, or_(instances.c.created_at <= since, of_it)
    )
