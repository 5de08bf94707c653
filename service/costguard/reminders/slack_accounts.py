"""Slack accounts, by e-mail address in lower case."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers, remembers_each
from costguard.db.tables import people
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.delivery.person import AccountLookup, Person


def save(connection: Connection, lookup: AccountLookup) -> None:
    person = lookup.person
    row = {
        "address": storable(lookup.address.lower()),
        "user_id": storable(person.user_id) if person is not None else "",
        "name": storable(person.name) if person is not None else "",
        "time_zone": storable(person.time_zone) if person is not None else "",
        "direct_channel": storable(lookup.direct_channel),
        "team_id": storable(person.team_id) if person is not None else "",
        "looked_up_at": lookup.looked_up_at,
    }
    upsert(connection, people, [row], ["address"])


def of_addresses(connection: Connection, addresses: Collection[str] | None) -> dict[str, AccountLookup]:
    """Returns those of these that were looked up, by address; None asks for all."""
    if addresses is None:
        return _everybody(connection)
    return dict(_of_each(connection, sorted({address.lower() for address in addresses if address})))


@remembers_each(people)
def _of_each(connection: Connection, addresses: Collection[str]) -> dict[str, AccountLookup]:
    return {
        row.address: _found(row) for chunk in chunks(addresses) for row in connection.execute(*_of_addresses(chunk))
    }


@prepared
def _of_addresses(addresses: Sequence[str]) -> Select[Any]:
    return select(people).where(people.c.address.in_(addresses))


@remembers(people)
def _everybody(connection: Connection) -> dict[str, AccountLookup]:
    return {row.address: _found(row) for row in connection.execute(select(people))}


def by_user_id(connection: Connection, user_id: str) -> AccountLookup | None:
    """The member who was last found under this Slack id."""
    if not user_id:
        return None
    query = select(people).where(people.c.user_id == user_id).order_by(people.c.looked_up_at.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else _found(row)


def set_direct_channel(connection: Connection, address: str, channel: str) -> None:
    connection.execute(update(people).where(people.c.address == address.lower()).values(direct_channel=channel))


def _found(row: Row[Any]) -> AccountLookup:
    person = Person(row.user_id, row.address, row.name, row.time_zone, row.team_id) if row.user_id else None
    return AccountLookup(row.address, person, row.looked_up_at, row.direct_channel)
