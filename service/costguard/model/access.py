"""Principals: who makes a request, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """The role of a principal. Each role includes the permissions of those before it."""

    NOBODY = "nobody"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


class Permission(StrEnum):
    """A permission that a request needs. A token has some of those that its owner's role has."""

    READ = "read"  # all that is shown
    JOBS = "jobs"  # launch and cancel
    INSTANCES = "instances"  # stop, keep, claim
    TOKENS = "tokens"  # one's own tokens and sessions
    METRICS = "metrics"  # /metrics, and nothing else
    ADMIN = "admin"  # in another's name; everybody's tokens and sessions


_VIEWS = frozenset({Permission.READ, Permission.TOKENS, Permission.METRICS})
_OPERATES = _VIEWS | {Permission.JOBS, Permission.INSTANCES}
PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.NOBODY: frozenset(),
    Role.VIEWER: _VIEWS,
    Role.OPERATOR: _OPERATES,
    Role.ADMIN: _OPERATES | {Permission.ADMIN},
}


class Via(StrEnum):
    """The way in which a principal was identified."""

    MASTER = "master"  # COSTGUARD_TOKEN: the server's operator
    TOKEN = "token"  # noqa: S105 - the name of a way in
    LINK = "link"  # a one-time link made on the server
    IAP = "iap"
    OIDC = "oidc"


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority of a request. It is stored with the request, which never counts for more than this.

    `address` is the requester's, "" the master token's. `role` is the most that counts; `is_granted`: it was given on
    the server, and the settings' lists are not asked. `token_id` is "" where no token was shown.
    """

    address: str
    role: Role
    permissions: frozenset[Permission]
    via: Via
    is_granted: bool = False
    token_id: str = ""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. `address` is an e-mail address in lower case, and "" for the master token, which speaks for nobody.

    `session` and `token_id` name the session or the token that was shown; "" where it was none.
    `is_granted`: the role was given on the server with the token or the link, and not by the settings' lists.
    `until` is when the token expires; None: never, or there is none. `link_session` is the session of a one-time link
    that all of this rests on, which is over at `link_until`; "" where it rests on none.
    """

    address: str
    role: Role
    permissions: frozenset[Permission]
    via: Via
    token_id: str = ""
    session: str = ""
    is_granted: bool = False
    until: datetime | None = None
    link_session: str = ""
    link_until: datetime | None = None

    def may(self, wanted: Permission) -> bool:
        return wanted in self.permissions

    @property
    def initial(self) -> str:
        """Returns the letter that a page shows for the caller."""
        return (self.address or "–")[0]

    @property
    def authority(self) -> Authority:
        return Authority(self.address, self.role, self.permissions, self.via, self.is_granted, self.token_id)

    @property
    def key(self) -> str:
        """Returns the key under which requests are counted for rate limits."""
        return self.token_id or self.session or f"{self.via.value}:{self.address}"

    def own(self, idempotency_key: str | None) -> str | None:
        """The key as this person's: what another asked for under the same text has another."""
        return None if idempotency_key is None else f"{self.address or self.via.value}/{idempotency_key}"

    @property
    def is_ambient(self) -> bool:
        """A browser shows it by itself, with whatever page made it ask: so a change needs proof of our own page."""
        return self.via in (Via.LINK, Via.IAP, Via.OIDC)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A caller without valid credentials."""

    reason: str
    what_next: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a request; "" for each that it lacks. `session` is the cookie, `iap` the proxy's assertion."""

    bearer: str = ""
    session: str = ""
    iap: str = ""
