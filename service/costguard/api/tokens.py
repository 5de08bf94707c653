"""Tokens that programs use, and who the caller is."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Response
from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field, StrictInt, StringConstraints

from costguard.access.token_rows import ApiToken
from costguard.access.tokens import LONGEST_NAME, NewToken, TokenService
from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import Address, AsOf, Body, Moment, Out, Query, Text, one_of, read_from
from costguard.api.route import NOT_FOUND, Key, routes, takes_body
from costguard.model.access import Permission, Role, Via
from costguard.web.permissions import Asker

router = routes("tokens", Permission.TOKENS)
admin_router = routes("tokens", Permission.ADMIN)
open_router = routes("tokens", None)

_MOST_DAYS = 3650
_Permissions = Annotated[
    list[Annotated[str, one_of(Permission)]],
    BeforeValidator(lambda permissions: sorted(permission.value for permission in permissions)),
]


class MeResponse(Out):
    address: str = Field(
        description="The caller's address; empty: the master token, which has no address.", examples=["ana@example.com"]
    )
    role: Annotated[str, one_of(Role)] = Field(examples=["operator"])
    permissions: _Permissions = Field(description="The permissions of this token or session.")
    via: Annotated[str, one_of(Via)] = Field(
        description="The way in which the caller was identified.", examples=["token"]
    )
    token: str | None = Field(description="The id of the token; null: no token was sent.")
    expires_at: Moment | None = Field(
        description="The time at which that token expires; null: never, or there is none."
    )


class TokenOut(Out):
    id: str
    name: str
    owner: str = Field(description="The person it acts as.")
    role: Annotated[str, one_of(Role)] = Field(
        description="The highest role that it may be used with; its owner's role limits it too."
    )
    permissions: _Permissions
    made_at: Moment
    made_by: str
    expires_at: Moment | None = read_from(
        "ends_at", description="The time at which it expires as things stand; null: never."
    )
    is_provisional: bool = Field(
        description=(
            "True: it was created in a one-time link's session. It ends with that session, and at expires_at "
            "at the latest, unless an admin confirms it."
        )
    )
    confirmed_at: Moment | None
    confirmed_by: str
    revoked_at: Moment | None
    revoked_by: str
    last_used_at: Moment | None = Field(description="The last use, to the minute; null: never used.")
    is_usable: bool = Field(description="True: it is neither revoked nor expired.")


class TokenResponse(AsOf):
    token: TokenOut


class NewTokenResponse(TokenResponse):
    secret: str | None = Field(
        description="The secret, shown once and not stored. null: this is a repeat of an earlier request.",
        examples=["cgt_4f0e19a2c7_..."],
    )


class TokensResponse(AsOf):
    tokens: list[TokenOut]
    next_cursor: str | None


class TokenQuery(Query):
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class TokenBody(Body):
    name: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00]*$")] = Field(
        description="The name of the program that will use it.", examples=["nightly"]
    )
    permissions: list[Permission] | None = Field(
        None,
        min_length=1,
        max_length=10,
        description="The token's permissions; null: all of the caller's.",
        examples=[["read", "jobs"]],
    )
    days: Annotated[StrictInt, Field(ge=1, le=_MOST_DAYS)] | None = Field(
        90, description="The number of days that it lasts; null: for ever, or as long as the caller's token."
    )
    owner: Address | None = Field(
        None, description="The person it acts as; default: the caller. Only admins name another."
    )
    role: Role | None = Field(
        None,
        description=(
            "The highest role that it may be used with; null: the caller's role. The settings' lists decide as well."
        ),
    )


@open_router.get("/me", summary="Get the caller and their permissions", operation_id="getMe")
def me(asker: Asker) -> MeResponse:
    """Describes the caller of this request, by its token or session."""
    ends = (end for end in (asker.until, asker.link_until) if end and asker.token_id)
    return MeResponse.read(asker, token=asker.token_id or None, expires_at=min(ends, default=None))


@router.post(
    "/tokens",
    summary="Create a token",
    operation_id="createToken",
    status_code=HTTPStatus.CREATED,
    **takes_body(
        "This key was used with another body before.",
        ("A repeat of an earlier request; the secret is not shown again.", NewTokenResponse),
        finds=False,
    ),
)
def make(deps: Given, asker: Asker, body: TokenBody, response: Response, key: Key = None) -> NewTokenResponse:
    """Creates a token with at most the caller's permissions. The secret is only in this response."""
    wanted = NewToken(
        name=body.name,
        permissions=None if body.permissions is None else frozenset(body.permissions),
        lasts=None if body.days is None else timedelta(days=body.days),
        owner=body.owner or "",
        role=body.role,
    )
    made, secret = TokenService(deps.database, deps.clock).make(wanted, asker, key)
    if secret is None:
        response.status_code = HTTPStatus.OK
    now = deps.clock.now()
    return NewTokenResponse(as_of=now, token=_token(made, now), secret=secret)


@router.get("/tokens", summary="List tokens, the latest first", operation_id="listTokens")
def tokens(deps: Given, asker: Asker, query: Annotated[TokenQuery, Parameter()]) -> TokensResponse:
    """Lists your own tokens; admins see everyone's. Secrets are never shown."""
    before = cursors.decode_place(query.cursor, "tokens")
    rows = TokenService(deps.database, deps.clock).listing(asker, before, query.limit + 1)
    page, now, more = rows[: query.limit], deps.clock.now(), None
    if len(rows) > query.limit:
        more = cursors.encode_place("tokens", page[-1].made_at, page[-1].id)
    return TokensResponse(as_of=now, tokens=[_token(token, now) for token in page], next_cursor=more)


@router.delete("/tokens/{token_id}", summary="Revoke a token", operation_id="revokeToken", responses=NOT_FOUND)
def revoke(deps: Given, asker: Asker, token_id: Annotated[Text, Path()]) -> TokenResponse:
    """Revokes the token: requests with it are refused from now on. Revoking it again changes nothing."""
    revoked = TokenService(deps.database, deps.clock).revoke(token_id, asker)
    now = deps.clock.now()
    return TokenResponse(as_of=now, token=_token(revoked, now))


@admin_router.post(
    "/tokens/{token_id}/confirm",
    summary="Confirm a token that was created in a one-time link's session",
    operation_id="confirmToken",
    **takes_body("It has ended, or the caller may not confirm it."),
)
def confirm(deps: Given, asker: Asker, token_id: Annotated[Text, Path()]) -> TokenResponse:
    """Confirms the token, which then lasts as long as requested at its creation.

    People who signed in with a link cannot confirm tokens.
    """
    confirmed = TokenService(deps.database, deps.clock).confirm(token_id, asker)
    now = deps.clock.now()
    return TokenResponse(as_of=now, token=_token(confirmed, now))


def _token(token: ApiToken, now: datetime) -> TokenOut:
    return TokenOut.read(token, is_provisional=token.provisional_until is not None, is_usable=not token.is_over(now))
