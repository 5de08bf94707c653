"""Answers to reminders: keeps and claims."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, String, cast, literal, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import MOST_AT_ONCE, is_writing, remembers_each
from costguard.db.tables import claims, instances, keeps, messages
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.ledger.accrual import among
from costguard.model.reminder import Claim, Keep, Ownership, Subject

# The event of a claim names its request, and its notification names the event.
_CLAIM_NOTIFICATION = "notice/OwnerClaimed:"
_is_its_notification = messages.c.key == literal(_CLAIM_NOTIFICATION) + cast(claims.c.request_id, String)


def add_keep(connection: Connection, new: Keep, request_id: int | None) -> bool:
    """False: that request has its keep already."""
    row = {
        "subject": str(new.subject),
        "instance_id": new.subject.instance_id,
        "until": new.until,
        "by": storable(new.by),
        "at": new.at,
        "reason": storable(new.reason),
        "request_id": request_id,
    }
    return upsert(connection, keeps, [row], ["request_id"], update_columns=[]) == 1


def add_claim(connection: Connection, new: Claim, request_id: int | None) -> bool:
    """False: that request has its claim already."""
    row = {
        "instance_id": new.instance_id,
        "owner": storable(new.owner),
        "by": storable(new.by),
        "at": new.at,
        "request_id": request_id,
    }
    return upsert(connection, claims, [row], ["request_id"], update_columns=[]) == 1


def ownerships(connection: Connection, instance_ids: Collection[int]) -> dict[int, Ownership]:
    """Returns the ownership of each of these instances."""
    claimed = claims_of(connection, instance_ids)
    return {
        row.id: Ownership(row.created_by, claimed[row.id][-1] if row.id in claimed else None)
        for chunk in chunks(sorted(set(instance_ids)))
        for row in connection.execute(*_created_by(chunk))
    }


def ownership(connection: Connection, instance_id: int) -> Ownership:
    return ownerships(connection, [instance_id]).get(instance_id, Ownership())


@prepared
def _created_by(instance_ids: list[int]) -> Select[Any]:
    return select(instances.c.id, instances.c.created_by).where(instances.c.id.in_(instance_ids))


@remembers_each(keeps)
def keeps_of(connection: Connection, subjects: Collection[Subject]) -> dict[Subject, tuple[Keep, ...]]:
    """The oldest first; subjects that nobody kept are left out."""
    keeps_by_subject: dict[Subject, list[Keep]] = {}
    for chunk in chunks(among(connection, keeps.c.subject, {str(subject) for subject in subjects})):
        for row in connection.execute(*_keeps_of(chunk)):
            subject = Subject.parse(row.subject)
            keeps_by_subject.setdefault(subject, []).append(Keep(subject, row.until, row.by, row.at, row.reason))
    return {subject: tuple(kept) for subject, kept in keeps_by_subject.items()}


@prepared
def _keeps_of(subjects: list[str]) -> Select[Any]:
    return select(keeps).where(keeps.c.subject.in_(subjects)).order_by(keeps.c.id)


def claims_of(connection: Connection, instance_ids: Collection[int]) -> dict[int, tuple[Claim, ...]]:
    """The oldest first; instances that nobody spoke for are left out."""
    wanted = among(connection, claims.c.instance_id, set(instance_ids))
    if not is_writing(connection) and len(wanted) <= MOST_AT_ONCE:
        wanted = [*_claimed(connection, wanted)]  # few have one; messages of the others are not read
    claims_by_instance: dict[int, list[Claim]] = {}
    for chunk in chunks(wanted):
        for row in connection.execute(*_claims_of(chunk)):
            claim = Claim(row.instance_id, row.owner, row.by, row.at, row.accepted_at)
            claims_by_instance.setdefault(row.instance_id, []).append(claim)
    return {instance_id: tuple(claimed) for instance_id, claimed in claims_by_instance.items()}


@remembers_each(claims)
def _claimed(connection: Connection, instance_ids: Collection[int]) -> dict[int, bool]:
    """Marks those of these instances that have a claim."""
    return {
        instance_id: True
        for chunk in chunks(instance_ids)
        for instance_id in connection.scalars(*_claimed_among(chunk))
    }


@prepared
def _claimed_among(instance_ids: list[int]) -> Select[Any]:
    return select(claims.c.instance_id).where(claims.c.instance_id.in_(instance_ids)).distinct()


@prepared
def _claims_of(instance_ids: list[int]) -> Select[Any]:
    query = select(claims, messages.c.accepted_at).join_from(claims, messages, _is_its_notification, isouter=True)
    return query.where(claims.c.instance_id.in_(instance_ids)).order_by(claims.c.id)
