"""Cookies, each under one of two names: the first where people come by https, since no other host can set it then."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

Names = tuple[str, str]


def kept(request: Request, names: Names) -> str:
    """What the browser brought back; "" when it brought nothing."""
    return next((request.cookies[name] for name in names if name in request.cookies), "")


def keep(request: Request, answer: Response, names: Names, value: str, lasts: timedelta, *, is_https: bool) -> None:
    """No script sees it, and no other site's form brings it along. `is_https`: as the settings say; or it is seen."""
    is_https = is_https or request.url.scheme == "https"
    answer.set_cookie(
        names[0] if is_https else names[1],
        value,
        max_age=int(lasts.total_seconds()),
        path="/",
        secure=is_https,
        httponly=True,
        samesite="lax",
    )


def drop(request: Request, answer: Response, names: Names) -> None:
    for name in names:
        if name in request.cookies:
            answer.delete_cookie(name, path="/", secure=name == names[0], httponly=True, samesite="lax")
