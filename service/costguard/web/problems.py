"""Errors as RFC 9457 problems that say what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from costguard.errors import Conflict, CostguardError, Forbidden, Invalid, Missing, Unavailable

_MOST_ERRORS = 50  # that one answer names
_LONGEST_PLACE = 200  # characters: names of parts that are wrong come from outside
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class HeadAsGet:
    """Answers HEAD with the status and headers of the GET, and no body (RFC 9110, section 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def heads_only(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                is_answered = True

        async def until_answered() -> Message:
            # A stream goes on until its listener leaves; this one has all that it asked for.
            return {"type": "http.disconnect"} if is_answered else await receive()

        await self._app({**scope, "method": "GET"}, until_answered, heads_only)


def allowed(app: FastAPI, scope: Scope) -> str:
    """The value of `Allow` for a path: every method that some route takes there, sorted. Empty where none does."""
    scopes = ({**scope, "method": method} for method in _METHODS)
    methods = {one["method"] for one in scopes if any(route.matches(one)[0] is Match.FULL for route in app.routes)}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


MEDIA_TYPE = "application/problem+json"


class FieldError(BaseModel):
    where: str = Field(description="The parameter, or the path in the body.", examples=["query.from", "body.image"])
    message: str = Field(description="The error in that place, in a sentence.")


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    type: str = Field(
        default="about:blank",
        description="The kind of problem: GET /problems/NAME explains it; about:blank: the status explains it.",
        examples=["about:blank", "/problems/job-refused"],
    )
    title: str = Field(description="The kind of problem in a few words.")
    status: int = Field(description="The HTTP status again.")
    detail: str = Field(description="Explains what happened, and to which resource.")
    next: str = Field(description="The next step for the caller.")
    instance: str = Field(default="", description="The path of the request.")
    errors: list[FieldError] = Field(default_factory=list, description="The errors in the request.")


class ProblemError(Exception):
    """A problem that a route found in a request. `kind` is one of errors.KINDS; "" where the status says it all."""

    def __init__(
        self, status: HTTPStatus, detail: str, what_next: str, errors: Sequence[FieldError] = (), kind: str = ""
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.what_next, self.errors = status, detail, what_next, tuple(errors)
        self.kind = kind


_NEXT = {
    HTTPStatus.BAD_REQUEST: "Send the body as JSON, in UTF-8.",
    HTTPStatus.NOT_FOUND: "GET /openapi.json lists the paths there are.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Send less at once.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Use a method that `Allow` names; GET /openapi.json describes each path.",
}


def response(
    status: HTTPStatus,
    detail: str,
    what_next: str,
    *,
    path: str,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    kind: str = "",
) -> JSONResponse:
    body = Problem(
        type=f"/problems/{kind}" if kind else "about:blank",
        title=kind.replace("-", " ").capitalize() if kind else status.phrase,
        status=status,
        detail=detail,
        next=what_next,
        instance=path,
        errors=list(errors),
    )
    headers = {"Cache-Control": "no-store", **(headers or {})}
    return JSONResponse(body.model_dump(mode="json"), status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, http_problem)
    app.add_exception_handler(ProblemError, problem_of)
    app.add_exception_handler(CostguardError, problem_of)
    app.add_exception_handler(Exception, _unexpected)


def problem_of(request: Request, error: Exception) -> JSONResponse:
    """Answers a request that ended with a ProblemError or a CostguardError."""
    path = request.url.path
    if isinstance(error, ProblemError):
        return response(error.status, error.detail, error.what_next, path=path, errors=error.errors, kind=error.kind)
    assert isinstance(error, CostguardError)
    what_next = error.what_next or "Try again; the server's log says more."
    errors = [FieldError(where=f"body.{part}", message=message) for part, message in error.fields]
    return response(status_of(error), error.message, what_next, path=path, errors=errors, kind=error.kind)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    wrong = error.errors()[:_MOST_ERRORS]
    errors = [FieldError(where=".".join(map(str, item["loc"]))[:_LONGEST_PLACE], message=item["msg"]) for item in wrong]
    named = "; ".join(f"{error.where}: {error.message}" for error in errors)
    return response(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"The request is not understood: {named}.",
        "Correct the parameters named in `errors`; GET /openapi.json describes all of them.",
        path=request.url.path,
        errors=errors,
    )


def http_problem(request: Request, error: Exception) -> JSONResponse:
    """The answer where no route takes the path, or not with this method."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    what_next = _NEXT.get(status, "See GET /openapi.json.")
    detail = f"{request.method} {request.url.path}: {error.detail}."
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:  # Starlette names the methods of the first route with this path alone
        headers["Allow"] = allowed(request.app, request.scope)
    return response(status, detail, what_next, path=request.url.path, headers=headers)


_STATUS: Mapping[type[CostguardError], HTTPStatus] = {
    Missing: HTTPStatus.NOT_FOUND,
    Forbidden: HTTPStatus.FORBIDDEN,
    Conflict: HTTPStatus.CONFLICT,
    Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


def status_of(error: CostguardError) -> HTTPStatus:
    """The HTTP status of each of the five kinds; of any other error 500."""
    statuses = (status for kind, status in _STATUS.items() if isinstance(error, kind))
    return next(statuses, HTTPStatus.INTERNAL_SERVER_ERROR)


def _unexpected(request: Request, _error: Exception) -> JSONResponse:
    return response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "Costguard made a mistake in answering this.",
        "The server's log holds the traceback; please report it. Nothing was changed.",
        path=request.url.path,
    )
