"""What a request must have before it may change anything, besides permission."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from costguard.access.roles import Actor, actor
from costguard.errors import Forbidden, Invalid
from costguard.model.access import Principal
from costguard.web.problems import ProblemError, problem


def _checked(request: Request) -> None:
    """Pages of others can make a browser send requests here, but no JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"The body must be JSON, and its type is {kind or 'not given'}.",
            "Send `Content-Type: application/json`.",
        )


CHECKED = Depends(_checked)
WRITTEN: dict[int | str, dict[str, Any]] = {
    400: problem("The body cannot be read: it is cut off, or not in UTF-8."),
    413: problem("The body is too large."),
    415: problem("The body is not JSON."),
}
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Who asks again with the same key and body gets what was made before, and nothing new.",
        examples=["6f0c2c1e-nightly"],
    ),
]
Client = Annotated[str, Header(alias="Costguard-Client", max_length=20, description="cli, of the command line.")]


def via_of(client: str) -> str:
    return "cli" if client == "cli" else "api"


def acting(principal: Principal, named: str | None, part: str) -> Actor:
    """In whose name something is done; `part` of the body named them. Raises Forbidden and Invalid."""
    try:
        return actor(principal, named or "")
    except (Forbidden, Invalid) as error:
        error.fields = ((part, error.message),)
        raise
