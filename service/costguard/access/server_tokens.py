"""Makes, lists and revokes tokens on the server itself, up or down: who can write to its database can do all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from costguard.access.roles import role_of
from costguard.access.rules import Access
from costguard.access.token_rows import ApiToken
from costguard.access.tokens import NewToken, TokenService
from costguard.db.transaction import Database
from costguard.errors import Invalid
from costguard.model.access import PERMISSIONS, Principal, Role, Via
from costguard.model.moments import z_text
from costguard.model.ports import Clock

_MOST = 1_000_000
_THEY = Principal("", Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.MASTER, is_granted=True)


class ServerTokens:
    """Gives the API's answers about tokens without starting a server. Raises Invalid and Missing."""

    def __init__(
        self, opened: Callable[[], AbstractContextManager[Database]], lists: Access, owner: str, url: str, clock: Clock
    ) -> None:
        """`opened` opens the database. A token is for `owner` where its request names nobody. `url` is the server's."""
        self._opened, self._lists, self._owner, self._clock = opened, lists, owner, clock
        self.url = url

    def make(self, request: NewToken) -> dict[str, Any]:
        """Makes a token. Without a role it gets what the settings' lists give its owner, for as long as they do.

        Without an owner it is for the person in charge, who is an admin where no list names them.
        """
        owner = request.owner.strip().lower() or self._owner
        listed = role_of(owner, self._lists)
        if request.owner and request.role is None and listed is Role.NOBODY:
            raise Invalid(
                f"No list under access in the settings names {owner}.",
                "Give --role, or add them there.",
                kind="token-refused",
            )
        role = request.role or (Role.ADMIN if listed is Role.NOBODY else listed)
        grants = request.role is not None or listed is Role.NOBODY
        with self._tokens() as tokens:
            made, secret = tokens.make(replace(request, owner=owner, role=role), _THEY, grants=grants)
        return self._answer(token=self._described(made), secret=secret)

    def listing(self, limit: int) -> dict[str, Any]:
        """The newest; 0 asks for all."""
        with self._tokens() as tokens:
            api_tokens = tokens.listing(_THEY, limit=limit or _MOST)
        return self._answer(tokens=[self._described(token) for token in api_tokens], next_cursor=None)

    def revoke(self, token_id: str) -> dict[str, Any]:
        with self._tokens() as tokens:
            revoked = tokens.revoke(token_id, _THEY)
        return self._answer(token=self._described(revoked))

    def confirm(self, token_id: str) -> dict[str, Any]:
        with self._tokens() as tokens:
            confirmed = tokens.confirm(token_id, _THEY)
        return self._answer(token=self._described(confirmed))

    def _answer(self, **parts: Any) -> dict[str, Any]:
        return {"as_of": _z(self._clock.now()), **parts}

    def _described(self, token: ApiToken) -> dict[str, Any]:
        return {
            "id": token.id,
            "name": token.name,
            "owner": token.owner,
            "role": token.role.value,
            "permissions": sorted(permission.value for permission in token.permissions),
            "made_at": _z(token.made_at),
            "made_by": token.made_by,
            "expires_at": _z(token.ends_at),
            "is_provisional": token.provisional_until is not None,
            "confirmed_at": _z(token.confirmed_at),
            "confirmed_by": token.confirmed_by,
            "revoked_at": _z(token.revoked_at),
            "revoked_by": token.revoked_by,
            "last_used_at": _z(token.last_used_at),
            "is_usable": not token.is_over(self._clock.now()),
        }

    @contextmanager
    def _tokens(self) -> Iterator[TokenService]:
        with self._opened() as database:
            yield TokenService(database, self._clock)


def _z(moment: datetime | None) -> str | None:
    return None if moment is None else z_text(moment)
