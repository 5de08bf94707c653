"""What Slack sends: no token, for it is signed. Whoever else knocks is refused and told nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import ClientDisconnect

from costguard.api.deps import Given, SlackDoor
from costguard.model.interaction import InteractionReply
from costguard.web.problems import ProblemError

router = APIRouter(prefix="/slack", include_in_schema=False)
_METHODS = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]  # all but the first are refused, and counted
_MOST_DIGITS = 10


def _door(deps: Given) -> SlackDoor:
    if deps.slack is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND,
            "Slack's requests are not taken here.",
            "Set [slack] signing_secret, or use Socket Mode, which needs no address.",
        )
    return deps.slack


Door = Annotated[SlackDoor, Depends(_door)]


async def _body(request: Request, door: Door) -> bytes | str:
    """Or the reason for which it is refused; of what is too long the rest is not read."""
    announced = request.headers.get("content-length", "")
    if len(announced) > _MOST_DIGITS or (announced.isdecimal() and int(announced) > door.body_limit):
        return "oversized"
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > door.body_limit:
                return "oversized"
    except ClientDisconnect:  # nobody reads the answer, but it counts
        return "truncated"
    return body


Body = Annotated[bytes | str, Depends(_body)]


@router.api_route("/interactions", methods=_METHODS)
def interactions(request: Request, door: Door, body: Body) -> Response:
    return _answered(request, door, body, door.interaction)


@router.api_route("/commands", methods=_METHODS)
def commands(request: Request, door: Door, body: Body) -> Response:
    return _answered(request, door, body, door.command)


def _answered(
    request: Request, door: SlackDoor, body: bytes | str, take: Callable[[Mapping[str, str], bytes], InteractionReply]
) -> Response:
    if request.method != "POST":
        answer = door.refuse("method")
    elif isinstance(body, str):
        answer = door.refuse(body)
    else:
        answer = take(request.headers, body)
    if answer.body is None:
        return Response(status_code=answer.status)
    return Response(orjson.dumps(answer.body), answer.status, media_type="application/json")
