"""What every route of the API has in common: whom it lets in, and what its answers say about themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from costguard.model.access import Permission
from costguard.web.problems import RESPONSES
from costguard.web.tags import is_known
from costguard.web.who import needs

# What changes by itself as time goes by: an answer that says nothing else that is new has not changed.
_TICKS = re.compile(rb'^\{"as_of":"[^"]*",(?:"age_seconds":(?:\d+|null),)?')


def routes(tag: str, permission: Permission | None = Permission.READ) -> APIRouter:
    """Routes that need this permission; None: whoever has come through the door."""
    dependencies = [] if permission is None else [needs(permission)]
    return APIRouter(prefix="/api/v1", tags=[tag], responses=RESPONSES, dependencies=dependencies, route_class=Route)


class Route(APIRoute):
    """No cache keeps an answer. Each GET has a weak ETag, and is answered 304 where nothing is new but the time."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            response = await answer(request)
            response.headers.setdefault("Cache-Control", "no-store")
            body = getattr(response, "body", None)  # a stream has none
            if request.method != "GET" or response.status_code != 200 or body is None:
                return response
            tag = f'"{blake2b(_TICKS.sub(b"{", body, count=1), digest_size=12).hexdigest()}"'
            response.headers["ETag"] = f"W/{tag}"
            if not is_known(tag, request.headers.get("if-none-match", "")):
                return response
            kept = {name: response.headers[name] for name in ("ETag", "Cache-Control")}
            return Response(status_code=304, headers=kept)

        return handler


CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


def wants_csv(request: Request, asked: str | None) -> bool:
    """Where nothing is asked for outright, CSV is what Accept names before JSON and everything else."""
    accepted = [part.split(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return (asked or ("csv" if accepted[:1] == ["text/csv"] else "json")) == "csv"
