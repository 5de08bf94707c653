"""Creates, lists and revokes API tokens."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access import token_rows
from costguard.access.token_rows import ApiToken
from costguard.db.transaction import Database
from costguard.errors import Conflict, Invalid, Missing
from costguard.events import audit_log
from costguard.model.access import PERMISSIONS, Permission, Principal, Role
from costguard.model.event import Event, new_event
from costguard.model.moments import utc_text
from costguard.model.ports import Clock

PREFIX = "cgt_"
LONGEST_NAME = 100
PROVISIONAL = timedelta(hours=24)  # at most, of a token that was made in a session of a one-time link


def digest_of(secret: str) -> str:
    """The secret has 256 random bits, so that one round is enough: nobody guesses what it was made from."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class NewToken:
    """`permissions` None: all of the caller's; `owner` "": the caller; `lasts` None: for ever."""

    name: str
    permissions: frozenset[Permission] | None = None
    lasts: timedelta | None = timedelta(days=90)
    owner: str = ""
    role: Role | None = None  # None: the caller's


class TokenService:
    """Nobody gives more than they have. A token's secret is shown once, when it is made."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        new_id: Callable[[], str] = lambda: secrets.token_hex(5),
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self._database, self._clock, self._new_id, self._new_secret = database, clock, new_id, new_secret

    def make(
        self, new: NewToken, by: Principal, idempotency_key: str | None = None, *, grants: bool = False
    ) -> tuple[ApiToken, str | None]:
        """The token and its secret; the secret is None for a repeat under its key.

        One for another person counts by the lists, also where the master token makes it: a role is given with a token
        only on the server, with `grants`. Raises Invalid, or Conflict where the key came with another before.
        """
        token, now = self._drawn(new, by, grants), self._clock.now()
        secret = f"{PREFIX}{token.id}_{self._new_secret()}"
        key = by.own(idempotency_key)
        with self._database.write() as connection:
            earlier = None if key is None else token_rows.of_key(connection, key)
            if earlier is not None:
                if (earlier.name, earlier.owner, earlier.permissions) != (token.name, token.owner, token.permissions):
                    raise Conflict(
                        "This Idempotency-Key came with another token before.",
                        "Use a new key for a new token.",
                        kind="key-taken",
                    )
                return earlier, None
            token_rows.add(connection, token, digest_of(secret), key)
            audit_log.append(connection, [_made(token, now)], now)
        return token, secret

    def revoke(self, token_id: str, by: Principal) -> ApiToken:
        """Anybody revokes their own, an admin everybody's; once more changes nothing. Raises Missing."""
        now = self._clock.now()
        with self._database.write() as connection:
            token = token_rows.read(connection, token_id)
            if token is None or not _is_seen(token, by):
                raise Missing(f"There is no token {token_id!r} of yours.", "`costguard token list` shows them.")
            _revoke(connection, token, _name(by), now)
            return token_rows.read(connection, token_id) or token

    def confirm(self, token_id: str, by: Principal) -> ApiToken:
        """It outlives the link's session that it was made in; once more changes nothing.

        Who came by a link themselves confirms none. Raises Missing, or Invalid.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            token = token_rows.read(connection, token_id)
            if token is None or not _is_seen(token, by):
                raise Missing(f"There is no token {token_id!r} of yours.", "`costguard token list` shows them.")
            if token.confirmed_at is not None or (token.provisional_until is None and not token.is_over(now)):
                return token
            _check_confirms(token, by, now)
            token_rows.confirm(connection, token_id, _name(by), now)
            audit_log.append(connection, [_confirmed(token, by, now)], now)
            return token_rows.read(connection, token_id) or token

    def listing(
        self, by: Principal, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> Sequence[ApiToken]:
        """The newest first: all for an admin, else one's own."""
        owner = None if by.may(Permission.ADMIN) else by.address
        with self._database.read() as connection:
            return token_rows.page(connection, owner, before, limit)

    def _drawn(self, new: NewToken, by: Principal, grants: bool) -> ApiToken:
        name = new.name.strip()
        if not 1 <= len(name) <= LONGEST_NAME:
            raise Invalid(
                f"A token's name has 1 to {LONGEST_NAME} characters.",
                "Name it after what will use it.",
                kind="token-refused",
            )
        owner = new.owner.strip().lower() or by.address
        if "@" not in owner:
            raise Invalid(
                "It is not said whom the token speaks for.", "Name an owner, by e-mail address.", kind="token-refused"
            )
        if owner != by.address and not by.may(Permission.ADMIN):
            raise Invalid(
                "Only an admin makes tokens for others.",
                "Leave the owner out: then it speaks for you.",
                kind="token-refused",
            )
        role = new.role or by.role
        if role.rank > by.role.rank or role is Role.NOBODY:
            raise Invalid(
                f"Nobody who is {by.role.value} makes a token for an {role.value}.",
                "Ask an admin.",
                kind="token-refused",
            )
        possible = by.permissions if role is by.role else by.permissions & PERMISSIONS[role]
        permissions = new.permissions if new.permissions is not None else possible
        more = permissions - possible
        if more or not permissions:
            named = ", ".join(sorted(permission.value for permission in more)) or "no permission at all"
            raise Invalid(
                f"A token of a {role.value} made by you cannot have: {named}.",
                f"Choose from {', '.join(sorted(one.value for one in possible))}.",
                kind="token-refused",
            )
        if new.lasts is not None and new.lasts <= timedelta():
            raise Invalid(
                "The token would be over before it began.", "Give the days that it is to last.", kind="token-refused"
            )
        now = self._clock.now()
        # A token that makes others would else never be over.
        ends = [end for end in (now + new.lasts if new.lasts is not None else None, by.until) if end is not None]
        return ApiToken(
            id=self._new_id(),
            name=name,
            owner=owner,
            role=role,
            is_granted=grants or (by.is_granted and owner == by.address),
            permissions=permissions,
            made_at=now,
            made_by=_name(by),
            expires_at=min(ends, default=None),
            provisional_until=min(now + PROVISIONAL, by.link_until or now) if by.link_session else None,
            session_id=by.link_session,
        )


def end_with_sessions(connection: Connection, session_ids: Sequence[str], by: Principal, now: datetime) -> int:
    """Tokens that were made in these sessions end with them, unless they were confirmed; how many did."""
    ended = token_rows.ending_with(connection, session_ids)
    for token in ended:
        _revoke(connection, token, _name(by), now, ", with the session of a link in which it was made")
    return len(ended)


def _revoke(connection: Connection, token: ApiToken, by: str, now: datetime, why: str = "") -> None:
    if not token_rows.revoke(connection, token.id, by, now):
        return
    said = f"The token {token.name} ({token.id}), with which this was asked, was revoked by {by}."
    withdrawn = token_rows.withdraw_requests(connection, token.id, said, now)
    audit_log.append(connection, [_revoked(token, by, withdrawn, why, now)], now)


def _check_confirms(token: ApiToken, by: Principal, now: datetime) -> None:
    on_server = f"Run `costguard token confirm {token.id}` where the server runs."
    if token.is_over(now):
        raise Conflict(f"The token {token.id} ({token.name}) is over.", "Make another.", kind="token-refused")
    if by.link_session:
        text = "Who came by a one-time link confirms no token: the link may not have been theirs."
        raise Conflict(
            text, f"Sign in another way, as an admin of the settings' lists. {on_server}", kind="token-refused"
        )
    more = token.permissions - by.permissions
    if not by.may(Permission.ADMIN) or token.role.rank > by.role.rank or more:
        raise Conflict(
            f"Only an admin confirms the token {token.id} ({token.name}).",
            f"Ask one. {on_server}",
            kind="token-refused",
        )


def _is_seen(token: ApiToken, by: Principal) -> bool:
    return by.may(Permission.ADMIN) or token.owner == by.address


def _name(by: Principal) -> str:
    return by.address or "the server's operator"


def _made(token: ApiToken, now: datetime) -> Event:
    may = ", ".join(sorted(permission.value for permission in token.permissions))
    until = f"until {token.expires_at:%Y-%m-%d}" if token.expires_at is not None else "without an end"
    if token.provisional_until is not None:
        until = f"until {utc_text(token.provisional_until)} unless an admin confirms it"
    text = f"{token.made_by} made the token {token.name} ({token.id}) for {token.owner}, {until}; it may: {may}."
    return _event("TokenMade", token, token.made_by, text, now)


def _confirmed(token: ApiToken, by: Principal, now: datetime) -> Event:
    until = f"until {token.expires_at:%Y-%m-%d}" if token.expires_at is not None else "without an end"
    text = f"{_name(by)} confirmed the token {token.name} ({token.id}) of {token.owner}: it is good {until}."
    return _event("TokenConfirmed", token, _name(by), text, now)


def _revoked(token: ApiToken, by: str, withdrawn: int, why: str, now: datetime) -> Event:
    text = f"{by} revoked the token {token.name} ({token.id}) of {token.owner}{why}."
    if withdrawn:
        text += (
            f" {withdrawn} {'request' if withdrawn == 1 else 'requests'} made with it and not carried out yet ended."
        )
    return _event("TokenRevoked", token, by, text, now)


def _event(kind: str, token: ApiToken, actor: str, text: str, now: datetime) -> Event:
    return new_event(kind, now, text, token.id, actor=actor, data={"token": token.id})
