"""Interprets an answer: its content, or an error of one of the five kinds."""

from __future__ import annotations

import json
from typing import Any

from costguard.errors import (
    Conflict,
    CostguardError,
    Forbidden,
    Invalid,
    Missing,
    ServerUnreachable,
    SignInRefused,
    Unavailable,
)
from costguard_client.calls import Answer, Call

HOW_NAMED = "as Client(url=...) or by COSTGUARD_URL"  # a server's address; commands have an option for it
_GOOD = frozenset({200, 201, 202, 204})
_KINDS: dict[int, type[CostguardError]] = {
    400: Invalid,
    401: SignInRefused,
    403: Forbidden,
    404: Missing,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
    503: Unavailable,
}
_SET_TOKEN = (
    "Set COSTGUARD_TOKEN to a token of this server. Where it runs, `costguard token create NAME --save` makes one."  # noqa: S105
)


class AnswerLost(ServerUnreachable):
    """The request was sent, and may have been carried out."""


def unreachable(url: str, error: Exception, *, is_sent: bool = False) -> ServerUnreachable:
    """No connection, or one that broke after the request was sent."""
    kind = AnswerLost if is_sent else ServerUnreachable
    return kind(
        f"No Costguard server answers at {url}: {error}.",
        f"Start one with `costguard serve`, or name another {HOW_NAMED}.",
    )


def content(url: str, call: Call[Any], answer: Answer) -> Any:
    """The JSON of a good answer; where the call accepts another type, its text or bytes. Raises CostguardError."""
    if answer.status not in _GOOD:
        raise refusal(url, answer)
    if not answer.body:
        return None
    if call.accept != "application/json":
        return answer.body.decode() if call.accept.startswith("text/") else answer.body
    try:
        return json.loads(answer.body)
    except ValueError:
        raise _stranger(url, answer) from None


def refusal(url: str, answer: Answer) -> CostguardError:
    """The error in a problem document; another answer does not come from a Costguard server."""
    try:
        problem = json.loads(answer.body)
        detail, what_next = str(problem["detail"]), str(problem["next"])
        fields = [(str(error["where"]), str(error["message"])) for error in problem.get("errors", ())]
        kind = str(problem.get("type", "")).rpartition("/problems/")[2]
    except (ValueError, KeyError, TypeError, AttributeError):
        return _stranger(url, answer)
    kind = "" if kind == "about:blank" else kind
    what_next = _SET_TOKEN if answer.status == 401 else what_next
    return _KINDS.get(answer.status, CostguardError)(detail, what_next, kind=kind, fields=fields)


def _stranger(url: str, answer: Answer) -> ServerUnreachable:
    return ServerUnreachable(
        f"{url} answered {answer.status} {answer.reason}, not as a Costguard server does.",
        f"Check the address given {HOW_NAMED}.",
    )
