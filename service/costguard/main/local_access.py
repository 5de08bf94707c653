"""Access commands that work on the database itself, whether or not the server runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from costguard.access.links import GOOD_FOR, PATH, make_link
from costguard.access.roles import role_of
from costguard.access.token_rows import ApiToken
from costguard.access.tokens import NewToken, TokenService
from costguard.clock import SystemClock
from costguard.db.transaction import Database
from costguard.db.version import bring_up_to_date
from costguard.errors import Invalid, SettingsError
from costguard.model.access import PERMISSIONS, Principal, Role, Via
from costguard.settings import AccessSettings, Settings

if TYPE_CHECKING:
    from costguard.main.guard import Guard

_MOST = 1_000_000
_THEY = Principal("", Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.MASTER, is_granted=True)


@dataclass(frozen=True, slots=True)
class SignInLink:
    url: str
    address: str
    role: Role
    expires_at: datetime


def new_link(settings: AccessSettings, address: str, role: Role, url: str) -> SignInLink:
    """A link that signs this person in, once; "" is the guard's contact. Raises SettingsError."""
    where = (url or settings.sign_in.url or _listened_at(settings)).rstrip("/")
    who, now = address or in_charge(settings), SystemClock().now()
    with _opened(settings) as database:
        code = make_link(database, who, role, now)
    return SignInLink(f"{where}{PATH}{code}", who.lower(), role, now + GOOD_FOR)


def first_link(guard: Guard, url: str, address: str = "", good_for: timedelta = GOOD_FOR) -> str:
    """An address that signs this person in as an admin, once; "" is the guard's contact."""
    who = address or in_charge(guard.settings)
    code = make_link(guard.database, who, Role.ADMIN, guard.clock.now(), good_for * guard.speed)
    return f"{url}{PATH}{code}"


class ServerTokens:
    """Answers as the API does, without a server or the weight of one. Raises Invalid and Missing."""

    def __init__(self, settings: AccessSettings) -> None:
        self._settings, self._clock = settings, SystemClock()
        self.url = settings.sign_in.url or (_listened_at(settings) if settings.server.port else "")

    def make(self, request: NewToken) -> dict[str, Any]:
        """Makes a token. Without a role it gets what the settings' lists give its owner, for as long as they do.

        Without an owner it is for the guard's contact, who is an admin where no list names them.
        """
        owner = request.owner.strip().lower() or in_charge(self._settings)
        listed = role_of(owner, self._settings.access.access)
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
        with _opened(self._settings) as database:
            yield TokenService(database, self._clock)


def in_charge(settings: AccessSettings | Settings) -> str:
    """The person that a link signs in or a token is for, where none is named."""
    named = [settings.reminders.contact or "", *settings.access.admins]
    return next((address for address in named if address and not address.startswith("@")), "admin@localhost")


@contextmanager
def _opened(settings: AccessSettings) -> Iterator[Database]:
    url = settings.database.url.get_secret_value()
    bring_up_to_date(url)
    with closing(Database.open(url)) as database:
        yield database


def _listened_at(settings: AccessSettings) -> str:
    """The server's address for a browser on this computer."""
    server = settings.server
    if not server.port:
        raise SettingsError(
            "The server listens at whatever port is free, so no link can name it.",
            "Give its address with --url, or set a port in server.listen.",
        )
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


def _z(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
