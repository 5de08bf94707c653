"""Refusals as Slack words them: HTTP 200 with `ok: false` and a code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class SlackError(Exception):
    """A call that Slack answers with an error; nothing was changed. `more` joins the answer."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more: Mapping[str, Any] = more

    def body(self) -> dict[str, Any]:
        return {"ok": False, "error": self.code, **self.more}


class RateLimited(SlackError):
    """HTTP 429 with `Retry-After` (https://docs.slack.dev/apis/web-api/rate-limits)."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("ratelimited")
        self.retry_after = retry_after


def missing_scope(needed: str, provided: Sequence[str]) -> SlackError:
    return SlackError("missing_scope", needed=needed, provided=",".join(provided))


def invalid_blocks(problems: Sequence[str], code: str = "invalid_blocks") -> SlackError:
    """The problems stand twice in the answer, bare and as `[ERROR] ...` messages, as in Slack's."""
    return SlackError(
        code, errors=list(problems), response_metadata={"messages": [f"[ERROR] {one}" for one in problems]}
    )


def invalid_arguments(*problems: str) -> SlackError:
    return SlackError("invalid_arguments", response_metadata={"messages": [f"[ERROR] {one}" for one in problems]})
