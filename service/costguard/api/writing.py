"""What a request must have before it may change anything."""

from __future__ import annotations

import ipaddress
from http import HTTPStatus

from fastapi import Depends, Request

from costguard.api.deps import Given
from costguard.api.problems import ProblemError


def _checked(request: Request, deps: Given) -> None:
    """Pages of others can make a browser send requests to this machine: but no JSON, and only under their own name."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"The body must be JSON, and its type is {kind or 'not given'}.",
            "Send `Content-Type: application/json`.",
        )
    host = request.url.hostname or ""
    if deps.token is None and not _is_this_machine(host):
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            f"Without a token nothing is changed for requests to {host}.",
            "Set COSTGUARD_TOKEN for the server and send it, or ask at 127.0.0.1.",
        )


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


CHECKED = Depends(_checked)
