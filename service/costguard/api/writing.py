"""What a request must have before it may change anything, besides permission."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Depends, Request

from costguard.web.problems import ProblemError


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
