"""What the page of tokens shows: those that are there, and once the secret of one that was just made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.access import token_rows
from costguard.access.token_rows import ApiToken
from costguard.access.tokens import NewToken, TokenOffice
from costguard.errors import TokenUnknown
from costguard.model.access import PERMISSIONS, Permission, Principal
from costguard.pages.asked import BadAddress, place_before
from costguard.pages.show import link
from costguard.pages.source import Source

_PAGE = 50
_LASTS = {"30": 30, "90": 90, "365": 365, "never": None}  # days
_MAY = {
    Permission.READ: "read everything that is shown",
    Permission.JOBS: "launch and cancel jobs",
    Permission.INSTANCES: "stop, keep and claim VMs",
    Permission.TOKENS: "make and revoke tokens, end sessions",
    Permission.METRICS: "read /metrics, for Prometheus",
    Permission.ADMIN: "act in others' names, and on their tokens",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A token that was just made; its secret is None where the same form had made it before."""

    token: ApiToken
    secret: str | None


@dataclass(frozen=True, slots=True)
class Tokens:
    found: Sequence[ApiToken]
    next: str | None  # the address of older ones
    now: datetime
    choices: Mapping[str, str]  # the permissions that may be given, in words
    lasts: Sequence[str]
    form: str  # names the form, so that sending it twice makes one
    made: Made | None = None
    confirms: bool = False  # who looks may confirm tokens that were made in a session of a link

    def state(self, token: ApiToken) -> str:
        if token.revoked_at is not None:
            return "revoked"
        return "expired" if token.is_over(self.now) else "usable"


def tokens_page(source: Source, me: Principal, before: str, form: str, made: Made | None = None) -> Tokens:
    """Raises BadAddress."""
    found = office(source).listing(me, place_before(before, "tokens"), _PAGE + 1)
    here = found[:_PAGE]
    more = link("/tokens", before=f"{here[-1].made_at.isoformat()} {here[-1].id}") if len(found) > _PAGE else None
    given = {each.value: words for each, words in _MAY.items() if each in me.permissions & PERMISSIONS[me.role]}
    return Tokens(here, more, source.clock.now(), given, tuple(_LASTS), form, made, _confirms(me))


def _confirms(me: Principal) -> bool:
    return me.may(Permission.ADMIN) and not me.link_session


def make(source: Source, me: Principal, form: Sequence[tuple[str, str]]) -> Made:
    """Raises BadAddress for a form that no page of ours sends, and TokenRefused."""
    fields = dict(form)
    asked = fields.get("lasts", "")
    if asked not in _LASTS:
        raise BadAddress("It is not said how long the token is to last.", f"Choose one of {', '.join(_LASTS)}.")
    chosen = [value for name, value in form if name == "may"]
    if not set(chosen) <= set(Permission):
        raise BadAddress("The form names a permission that there is not.", "Load the page again, and repeat it there.")
    days = _LASTS[asked]
    new = NewToken(
        name=fields.get("name", ""),
        permissions=frozenset(map(Permission, chosen)),
        lasts=None if days is None else timedelta(days=days),
        owner=fields.get("owner", ""),
    )
    return Made(*office(source).make(new, me, fields.get("key") or None))


def token_of(source: Source, me: Principal, token_id: str) -> ApiToken:
    """Raises TokenUnknown for those of others, too."""
    with source.database.read() as connection:
        found = token_rows.read(connection, token_id)
    if found is None or (found.owner != me.address and not me.may(Permission.ADMIN)):
        raise TokenUnknown(
            f"There is no token {token_id[:40]!r} of yours.", "The page of tokens lists those there are."
        )
    return found


def office(source: Source) -> TokenOffice:
    return TokenOffice(source.database, source.clock)
