"""Requests from Slack, which are signed instead of carrying a token. All others are refused without a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import ClientDisconnect

from costguard.api.deps import Given, SlackHandler
from costguard.model.delivery.interaction import InteractionReply
from costguard.web.problems import ProblemError

router = APIRouter(prefix="/slack", include_in_schema=False)
_METHODS = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]  # all but the first are refused and counted
_MOST_DIGITS = 10


def _handler(deps: Given) -> SlackHandler:
    if deps.slack is None:
        raise ProblemError(
            HTTPStatus.NOT_FOUND,
            "This server does not accept requests from Slack.",
            "Set [slack] signing_secret, or use Socket Mode, which needs no address.",
        )
    return deps.slack


Handler = Annotated[SlackHandler, Depends(_handler)]


async def _body(request: Request, handler: Handler) -> bytes | str:
    """The body, or the reason to refuse it; the rest of one that is too long is not read."""
    announced = request.headers.get("content-length", "")
    if len(announced) > _MOST_DIGITS or (announced.isdecimal() and int(announced) > handler.body_limit):
        return "oversized"
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > handler.body_limit:
                return "oversized"
    except ClientDisconnect:  # no one reads the response, but it is counted
        return "truncated"
    return body


Body = Annotated[bytes | str, Depends(_body)]


@router.api_route("/interactions", methods=_METHODS)
def interactions(request: Request, handler: Handler, body: Body) -> Response:
    return _answered(request, handler, body, handler.interaction)


@router.api_route("/commands", methods=_METHODS)
def commands(request: Request, handler: Handler, body: Body) -> Response:
    return _answered(request, handler, body, handler.command)


def _answered(
    request: Request,
    handler: SlackHandler,
    body: bytes | str,
    take: Callable[[Mapping[str, str], bytes], InteractionReply],
) -> Response:
    if request.method != "POST":
        answer = handler.refuse("method")
    elif isinstance(body, str):
        answer = handler.refuse(body)
    else:
        answer = take(request.headers, body)
    if answer.body is None:
        return Response(status_code=answer.status)
    return Response(orjson.dumps(answer.body), answer.status, media_type="application/json")
