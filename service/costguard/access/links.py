"""One-time sign-in links, made on the server by its operator."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select, update

from costguard.access.tokens import digest_of
from costguard.db.tables import sign_in_links
from costguard.db.transaction import Database
from costguard.model.access import Role


def add(connection: Connection, digest: str, address: str, role: Role, made_at: datetime, expires_at: datetime) -> None:
    """Adds a link, and removes those that have expired."""
    connection.execute(delete(sign_in_links).where(sign_in_links.c.expires_at < made_at))
    row = {"digest": digest, "address": address, "role": role.value, "made_at": made_at, "expires_at": expires_at}
    connection.execute(insert(sign_in_links).values(row))


def redeem(connection: Connection, digest: str, now: datetime) -> tuple[str, Role] | None:
    """The address and the role that it stood for. None: it was used before, has expired, or never was."""
    links = sign_in_links.c
    good = (links.digest == digest, links.used_at.is_(None), links.expires_at > now)
    if connection.execute(update(sign_in_links).where(*good).values(used_at=now)).rowcount != 1:
        return None
    row = connection.execute(select(links.address, links.role).where(links.digest == digest)).one()
    return row.address, Role(row.role)


def is_good(connection: Connection, digest: str, now: datetime) -> bool:
    links = sign_in_links.c
    good = (links.digest == digest, links.used_at.is_(None), links.expires_at > now)
    return connection.scalar(select(links.digest).where(*good)) is not None


GOOD_FOR = timedelta(minutes=10)
PATH = "/sign-in/link/"


def make_link(
    database: Database,
    address: str,
    role: Role,
    now: datetime,
    good_for: timedelta = GOOD_FOR,
    new_code: Callable[[], str] = lambda: secrets.token_urlsafe(32),
) -> str:
    """Makes a link, and returns its code. Anyone who can write to the database is trusted with any role."""
    code = new_code()
    with database.write() as connection:
        add(connection, digest_of(code), address.lower(), role, now, now + good_for)
    return code


@dataclass(frozen=True, slots=True)
class SignInLink:
    url: str
    address: str
    role: Role
    expires_at: datetime


def sign_in_link(
    database: Database, url: str, address: str, role: Role, now: datetime, good_for: timedelta = GOOD_FOR
) -> SignInLink:
    """Makes a link at the server's `url` that signs this person in, once."""
    code = make_link(database, address, role, now, good_for)
    return SignInLink(f"{url.rstrip('/')}{PATH}{code}", address.lower(), role, now + good_for)


def in_charge(contact: str | None, admins: Iterable[str]) -> str:
    """The person that a link signs in or a token is for, where none is named: the guard's contact, or an admin."""
    named = [contact or "", *admins]
    return next((address for address in named if address and not address.startswith("@")), "admin@localhost")
