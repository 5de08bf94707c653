"""The principal of a request, and its permissions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request

from costguard.access.roles import permission_refused
from costguard.model.access import Permission, Principal
from costguard.web.problems import ProblemError

CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf"
_FORM = "application/x-www-form-urlencoded"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


async def asker(request: Request) -> Principal:
    """The dependency of routes whose response may differ between people (see web/sharing.py)."""
    principal: Principal = request.state.principal  # set by the authentication middleware
    return principal


Asker = Annotated[Principal, Depends(asker)]


class Needs:
    """Requires the permission; a change from a browser also needs the CSRF token of our own page."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    async def __call__(self, request: Request) -> None:
        principal: Principal = request.state.principal
        if not principal.may(self.permission):
            raise permission_refused(principal, self.permission)
        await proven(request)


def needs(permission: Permission) -> Any:
    """The dependency that names a route's permission: each route has exactly one."""
    return Depends(Needs(permission))


async def proven(request: Request) -> None:
    """Checks that a change from a browser comes from our own page (CSRF). Requires no permission."""
    principal: Principal = request.state.principal
    if request.method in _SAFE or not principal.is_ambient:
        return
    site = request.headers.get("sec-fetch-site", "same-origin")
    shown = request.headers.get(CSRF_HEADER, "")
    if not shown and request.headers.get("content-type", "").startswith(_FORM):
        field = (await request.form()).get(CSRF_FIELD, "")
        shown = field if isinstance(field, str) else ""
    if site != "same-origin" or not request.state.authenticator.is_csrf(principal, shown):
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "It is not certain that a page of Costguard's sent this, so nothing was changed.",
            "Load the page again, and repeat it there. Programs use a token.",
        )
