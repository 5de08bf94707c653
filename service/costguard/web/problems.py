"""Every error as an RFC 9457 problem that says what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from costguard.errors import CostguardError, StoreError

MEDIA_TYPE = "application/problem+json"


class FieldError(BaseModel):
    where: str = Field(description="Which parameter, or part of the body.", examples=["query.from", "body.image"])
    message: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    type: str = Field(default="about:blank", description="What kind of problem; about:blank means: see the status.")
    title: str = Field(description="The kind of problem in a few words.")
    status: int = Field(description="The HTTP status again.")
    detail: str = Field(description="What happened, to what.")
    next: str = Field(description="What to do next.")
    instance: str = Field(default="", description="The path that was asked for.")
    errors: list[FieldError] = Field(default_factory=list, description="What of the request is wrong.")


class ProblemError(Exception):
    """A problem that a route found in what it was asked."""

    def __init__(self, status: HTTPStatus, detail: str, what_next: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.what_next, self.errors = status, detail, what_next, tuple(errors)


_NEXT = {
    HTTPStatus.NOT_FOUND: "GET /openapi.json lists the paths there are.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Use a method that `Allow` names; GET /openapi.json describes each path.",
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    status.value: {"description": text, "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
    for status, text in (
        (HTTPStatus.UNAUTHORIZED, "The bearer token is missing or wrong."),
        (HTTPStatus.UNPROCESSABLE_ENTITY, "A parameter is wrong."),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "A mistake in Costguard."),
        (HTTPStatus.SERVICE_UNAVAILABLE, "The database did not answer."),
    )
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is no such thing.", "content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
}


def response(
    status: HTTPStatus,
    detail: str,
    what_next: str,
    *,
    path: str,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    problem = Problem(
        title=status.phrase, status=status, detail=detail, next=what_next, instance=path, errors=list(errors)
    )
    return JSONResponse(problem.model_dump(mode="json"), status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ProblemError, _found)
    app.add_exception_handler(CostguardError, _known)
    app.add_exception_handler(Exception, _unexpected)


def _found(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return response(error.status, error.detail, error.what_next, path=request.url.path, errors=error.errors)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [FieldError(where=".".join(map(str, each["loc"])), message=each["msg"]) for each in error.errors()]
    named = "; ".join(f"{each.where}: {each.message}" for each in errors)
    return response(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"The request is not understood: {named}.",
        "Correct the parameters named in `errors`; GET /openapi.json describes all of them.",
        path=request.url.path,
        errors=errors,
    )


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    what_next = _NEXT.get(status, "See GET /openapi.json.")
    detail = f"{request.method} {request.url.path}: {error.detail}."
    return response(status, detail, what_next, path=request.url.path, headers=error.headers)


def _known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CostguardError)
    status = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, StoreError) else HTTPStatus.INTERNAL_SERVER_ERROR
    what_next = error.what_next or "Try again; the server's log says more."
    return response(status, error.message, what_next, path=request.url.path)


def _unexpected(request: Request, _error: Exception) -> JSONResponse:
    return response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "Costguard made a mistake in answering this.",
        "The server's log holds the traceback; please report it. Nothing was changed.",
        path=request.url.path,
    )
