"""Who asks, and the tokens that programs ask with."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Response
from fastapi import Query as Parameter
from pydantic import Field, StrictInt, StringConstraints

from costguard.access.token_rows import ApiToken
from costguard.access.tokens import LONGEST_NAME, NewToken, TokenOffice
from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import Address, Body, Moment, Out, Query, Text, one_of
from costguard.api.route import routes
from costguard.api.writing import CHECKED, WRITTEN, Key
from costguard.model.access import Permission, Role, Via
from costguard.web.problems import NOT_FOUND, problem
from costguard.web.who import Asker

router = routes("tokens", Permission.TOKENS)
admin_router = routes("tokens", Permission.ADMIN)
open_router = routes("tokens", None)

_CURSOR = (int, str)
_MOST_DAYS = 3650


class Me(Out):
    address: str = Field(description="Empty: the master token, which speaks for nobody.", examples=["ana@example.com"])
    role: Annotated[str, one_of(Role)] = Field(examples=["operator"])
    permissions: list[Annotated[str, one_of(Permission)]] = Field(description="What this token or session may do.")
    via: Annotated[str, one_of(Via)] = Field(description="How the caller was identified.", examples=["token"])
    token: str | None = Field(description="The id of the token that was sent; null: none was.")
    expires_at: Moment | None = Field(description="When that token is over; null: never, or there is none.")


class Token(Out):
    id: str
    name: str
    owner: str = Field(description="Whom it speaks for.")
    role: Annotated[str, one_of(Role)] = Field(
        description="The most that it may be used for; its owner's role decides too."
    )
    permissions: list[Annotated[str, one_of(Permission)]]
    made_at: Moment
    made_by: str
    expires_at: Moment | None = Field(description="As things stand; null: never.")
    is_provisional: bool = Field(
        description="Made in a session of a one-time link: it ends with that session, and at expires_at at the latest, "
        "unless an admin confirms it."
    )
    confirmed_at: Moment | None
    confirmed_by: str
    revoked_at: Moment | None
    revoked_by: str
    last_used_at: Moment | None = Field(description="To the minute; null: never yet.")
    is_usable: bool = Field(description="Neither revoked nor over.")


class TokenAnswer(Out):
    as_of: Moment
    token: Token


class NewTokenAnswer(TokenAnswer):
    secret: str | None = Field(
        description="Shown this once, and stored nowhere. null: this key asked for it before.",
        examples=["cgt_4f0e19a2c7_..."],
    )


class Tokens(Out):
    as_of: Moment
    tokens: list[Token]
    next_cursor: str | None


class TokenQuery(Query):
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class TokenBody(Body):
    name: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00]*$")] = Field(
        description="After what will use it.", examples=["nightly"]
    )
    permissions: list[Permission] | None = Field(
        None, min_length=1, max_length=10, description="null: all that who asks has.", examples=[["read", "jobs"]]
    )
    days: Annotated[StrictInt, Field(ge=1, le=_MOST_DAYS)] | None = Field(
        90, description="How long it lasts; null: for ever, or as long as the token that asks."
    )
    owner: Address | None = Field(None, description="Whom it speaks for; default: who asks. Only admins name another.")
    role: Role | None = Field(None, description="The most that it may be used for; null: that of who asks.")


@open_router.get("/me", summary="Who asks, and what they may", operation_id="getMe")
def me(asker: Asker) -> Me:
    """Of the token or the session that was shown with this request."""
    return Me(
        address=asker.address,
        role=asker.role.value,
        permissions=sorted(each.value for each in asker.permissions),
        via=asker.via.value,
        token=asker.token_id or None,
        expires_at=min((end for end in (asker.until, asker.link_until) if end and asker.token_id), default=None),
    )


@router.post(
    "/tokens",
    summary="Make a token",
    operation_id="makeToken",
    status_code=HTTPStatus.CREATED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "This key made it before; its secret is not told again.", "model": NewTokenAnswer},
        409: problem("This key came with another body before."),
        **WRITTEN,
    },
)
def make(deps: Given, asker: Asker, body: TokenBody, response: Response, key: Key = None) -> NewTokenAnswer:
    """Nobody gives more than they have. The secret is in this answer alone."""
    wanted = NewToken(
        name=body.name,
        permissions=None if body.permissions is None else frozenset(body.permissions),
        lasts=None if body.days is None else timedelta(days=body.days),
        owner=body.owner or "",
        role=body.role,
    )
    made, secret = TokenOffice(deps.database, deps.clock).make(wanted, asker, key)
    if secret is None:
        response.status_code = HTTPStatus.OK
    now = deps.clock.now()
    return NewTokenAnswer(as_of=now, token=_token(made, now), secret=secret)


@router.get("/tokens", summary="Tokens, those made last first", operation_id="listTokens")
def listed(deps: Given, asker: Asker, query: Annotated[TokenQuery, Parameter()]) -> Tokens:
    """One's own; an admin sees everybody's. None shows its secret."""
    before = None
    if query.cursor is not None:
        micros, token_id = cursors.decode(query.cursor, "tokens", _CURSOR)
        before = (cursors.moment(int(micros)), str(token_id))
    found = TokenOffice(deps.database, deps.clock).listing(asker, before, query.limit + 1)
    page, now, more = found[: query.limit], deps.clock.now(), None
    if len(found) > query.limit:
        more = cursors.encode("tokens", cursors.micros(page[-1].made_at), page[-1].id)
    return Tokens(as_of=now, tokens=[_token(each, now) for each in page], next_cursor=more)


@router.delete("/tokens/{token_id}", summary="Revoke a token", operation_id="revokeToken", responses=NOT_FOUND)
def revoke(deps: Given, asker: Asker, token_id: Annotated[Text, Path()]) -> TokenAnswer:
    """It opens nothing from now on. Once more changes nothing."""
    revoked = TokenOffice(deps.database, deps.clock).revoke(token_id, asker)
    now = deps.clock.now()
    return TokenAnswer(as_of=now, token=_token(revoked, now))


@admin_router.post(
    "/tokens/{token_id}/confirm",
    summary="Confirm a token that was made in a session of a one-time link",
    operation_id="confirmToken",
    dependencies=[CHECKED],
    responses={409: problem("It is over, or who asks may not confirm it."), **NOT_FOUND, **WRITTEN},
)
def confirm(deps: Given, asker: Asker, token_id: Annotated[Text, Path()]) -> TokenAnswer:
    """It lasts as long as was asked for when it was made. Who came by a link themselves confirms none."""
    confirmed = TokenOffice(deps.database, deps.clock).confirm(token_id, asker)
    now = deps.clock.now()
    return TokenAnswer(as_of=now, token=_token(confirmed, now))


def _token(of: ApiToken, now: datetime) -> Token:
    return Token(
        id=of.id,
        name=of.name,
        owner=of.owner,
        role=of.role.value,
        permissions=sorted(each.value for each in of.permissions),
        made_at=of.made_at,
        made_by=of.made_by,
        expires_at=of.ends_at,
        is_provisional=of.provisional_until is not None,
        confirmed_at=of.confirmed_at,
        confirmed_by=of.confirmed_by,
        revoked_at=of.revoked_at,
        revoked_by=of.revoked_by,
        last_used_at=of.last_used_at,
        is_usable=not of.is_over(now),
    )
