"""Parts that all routes share: the permission, ETags, and the conditions for a request that changes anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from costguard.access.roles import Actor, actor
from costguard.errors import Forbidden, Invalid
from costguard.model.access import Permission, Principal
from costguard.web.permissions import needs
from costguard.web.problems import MEDIA_TYPE, Problem, ProblemError
from costguard.web.sharing import is_known

# What changes as time passes: a response in which nothing else is new has not changed.
_TICKS = re.compile(rb'^\{"as_of":"[^"]*",(?:"age_seconds":(?:\d+|null),)?')


def problem(text: str) -> dict[str, Any]:
    """An error answer, as OpenAPI describes it."""
    return {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }


RESPONSES: dict[int | str, dict[str, Any]] = {
    401: problem("Nobody is signed in, or the token is unknown, revoked or expired."),
    403: problem("The caller lacks the permission."),
    422: problem("A parameter, or a part of the body, is wrong."),
    429: problem("This token or session sends too many requests; Retry-After says how long to wait."),
    500: problem("Costguard failed; its log has the details."),
    503: problem("The database did not answer."),
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: problem("The resource does not exist.")}


def routes(tag: str, permission: Permission | None = Permission.READ) -> APIRouter:
    """Routes that need this permission; None: any authenticated caller."""
    dependencies = [] if permission is None else [needs(permission)]
    return APIRouter(prefix="/api/v1", tags=[tag], responses=RESPONSES, dependencies=dependencies, route_class=Route)


class Route(APIRoute):
    """No cache keeps a response. Each GET has a weak ETag, and gets a 304 where nothing is new but the time."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            response = await handle(request)
            response.headers.setdefault("Cache-Control", "no-store")
            body = getattr(response, "body", None)  # a stream has none
            if request.method != "GET" or response.status_code != 200 or body is None:
                return response
            tag = f'"{blake2b(_TICKS.sub(b"{", body, count=1), digest_size=12).hexdigest()}"'
            response.headers["ETag"] = f"W/{tag}"
            if not is_known(tag, request.headers.get("if-none-match", "")):
                return response
            headers = {name: response.headers[name] for name in ("ETag", "Cache-Control")}
            return Response(status_code=304, headers=headers)

        return handler


CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


def wants_csv(request: Request, format: str | None) -> bool:
    """Decides by the parameter, else by whether Accept names CSV before everything else."""
    accepted = [part.split(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return (format or ("csv" if accepted[:1] == ["text/csv"] else "json")) == "csv"


def _checked(request: Request) -> None:
    """Other sites can make a browser send requests here, but not JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"The body must be JSON, but its type is {kind or 'not given'}.",
            "Send `Content-Type: application/json`.",
        )


CHECKED = Depends(_checked)
WRITTEN: dict[int | str, dict[str, Any]] = {
    400: problem("The body cannot be read: it is cut off, or not in UTF-8."),
    413: problem("The body is too large."),
    415: problem("The body is not JSON."),
}


def takes_body(
    conflict: str = "", repeat: tuple[str, type[BaseModel]] | None = None, *, finds: bool = True
) -> dict[str, Any]:
    """Makes the arguments of a route that takes a JSON body: what it depends on, and what it responds.

    `conflict` explains a 409, and `repeat` a 200 with its body, where there is one; `finds`: it may answer 404.
    """
    responses: dict[int | str, dict[str, Any]] = {}
    if repeat is not None:
        responses[200] = {"description": repeat[0], "model": repeat[1]}
    if conflict:
        responses[409] = problem(conflict)
    return {"dependencies": [CHECKED], "responses": {**responses, **(NOT_FOUND if finds else {}), **WRITTEN}}


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A repeat with the same key and body returns the first result and creates nothing new.",
        examples=["6f0c2c1e-nightly"],
    ),
]
Client = Annotated[
    str,
    Header(
        alias="Costguard-Client", max_length=20, description="The source of the request: `cli` for the command line."
    ),
]


def via_of(client: str) -> str:
    return "cli" if client == "cli" else "api"


def acting(principal: Principal, named: str | None, part: str) -> Actor:
    """Returns the actor in whose name a request acts; `part` of the body named them. Raises Forbidden and Invalid."""
    try:
        return actor(principal, named or "")
    except (Forbidden, Invalid) as error:
        error.fields = ((part, error.message),)
        raise
