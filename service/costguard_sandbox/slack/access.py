"""When Slack refuses a call, and how: tokens, scopes and rate limits.

Errors are HTTP 200 with `ok: false` and a code. Scopes: https://docs.slack.dev/reference/scopes. Limits, on the world's
clock: https://docs.slack.dev/apis/web-api/rate-limits.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

BOT_TOKEN = "xoxb-sandbox-costguard"  # noqa: S105  valid in the sandbox only
APP_TOKEN = "xapp-sandbox-costguard"  # noqa: S105
SIGNING_SECRET = "5a4db0x5a4db0x5a4db0x5a4db0x5a4d"  # noqa: S105
BOT_SCOPES = (
    "channels:history",
    "channels:join",
    "channels:read",
    "chat:write",
    "chat:write.public",
    "commands",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "mpim:write",
    "users:read",
    "users:read.email",
)


_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
# Slack promises "1+", "20+", "50+" and "100+" a minute, and a small burst in tier 1.
_TIER_1, _TIER_2, _TIER_3, _TIER_4, _SPECIAL = 5, 20, 50, 100, 600
PER_MINUTE: Mapping[str, int] = {
    "apps.connections.open": _TIER_1,
    "auth.test": _SPECIAL,
    "chat.delete": _TIER_3,
    "chat.postEphemeral": _TIER_4,
    "chat.update": _TIER_3,
    "conversations.history": _TIER_3,
    "conversations.info": _TIER_3,
    "conversations.join": _TIER_3,
    "conversations.list": _TIER_2,
    "conversations.open": _TIER_3,
    "conversations.replies": _TIER_3,
    "users.info": _TIER_4,
    "users.list": _TIER_2,
    "users.lookupByEmail": _TIER_3,
    "views.open": _TIER_4,
}


class Tokens:
    """The two tokens of the app. A call with an invalidated one gets the reason as its error."""

    def __init__(self) -> None:
        self._scopes: dict[str, list[str]] = {}
        self._invalid: dict[str, str] = {}
        self.reset()

    def reset(self) -> None:
        """Both tokens are valid, with every scope."""
        self._scopes = {BOT_TOKEN: list(BOT_SCOPES), APP_TOKEN: ["connections:write"]}
        self._invalid = {}

    def scopes(self, token: str) -> list[str]:
        return self._scopes.get(token, [])

    def check(self, token: str) -> None:
        """Raises not_authed without a token, invalid_auth for an unknown one, or the reason of an invalidated one."""
        if not token:
            raise SlackError("not_authed")
        if token not in self._scopes:
            raise SlackError("invalid_auth")
        if token in self._invalid:
            raise SlackError(self._invalid[token])

    def need(self, token: str, *any_of: str) -> None:
        """Raises missing_scope unless the token has one of them."""
        held = self.scopes(token)
        if any_of and not set(any_of) & set(held):
            raise missing_scope(any_of[0], held)

    def remove_scopes(self, *scopes: str, token: str = BOT_TOKEN) -> None:
        self._scopes[token] = [scope for scope in self._scopes[token] if scope not in scopes]

    def add_scopes(self, *scopes: str, token: str = BOT_TOKEN) -> None:
        self._scopes[token] = sorted({*self._scopes[token], *scopes})

    def invalidate(self, reason: str = "token_revoked", token: str = BOT_TOKEN) -> None:
        """Every call is refused with `reason`, such as token_revoked, account_inactive or token_expired."""
        self._invalid[token] = reason

    def restore(self, token: str = BOT_TOKEN) -> None:
        self._invalid.pop(token, None)


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
    """Makes an error in which, as in Slack's answer, the problems appear twice: plain, and as `[ERROR] ...`
    messages.
    """
    return SlackError(
        code, errors=list(problems), response_metadata={"messages": [f"[ERROR] {one}" for one in problems]}
    )


def invalid_arguments(*problems: str) -> SlackError:
    return SlackError("invalid_arguments", response_metadata={"messages": [f"[ERROR] {one}" for one in problems]})


class Limits:
    """`per_channel` is the time between two messages in one channel; `workspace_per_minute` limits all channels.

    Slack allows short bursts in a channel and gives no figure for the workspace ("several hundred messages per
    minute"). This is stricter, so that a client that stays within these limits stays within Slack's.
    """

    def __init__(self) -> None:
        self.enforced = True
        self.per_channel = _SECOND
        self.workspace_per_minute = 300
        self.per_minute = dict(PER_MINUTE)
        self.most_history: int | None = None  # messages on a page of history; None: as requested
        self.refusals: Counter[str] = Counter()
        self._calls: dict[str, deque[datetime]] = {}
        self._posts: deque[datetime] = deque()
        self._last_post: dict[str, datetime] = {}

    def outside_marketplace(self, applies: bool) -> None:
        """Limits the app as Slack does apps commercially distributed outside the Marketplace, since 29 May 2025.

        One call a minute and 15 messages
        (https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps).
        """
        for method in ("conversations.history", "conversations.replies"):
            self.per_minute[method] = 1 if applies else PER_MINUTE[method]
        self.most_history = 15 if applies else None

    def call(self, method: str, now: datetime) -> None:
        """Count one call of a method. Raises RateLimited past its tier."""
        most = self.per_minute.get(method)
        if most is not None:
            self._take(self._calls.setdefault(method, deque()), most, method, now)

    def post(self, channel: str, now: datetime) -> None:
        """Count one message of `chat.postMessage`; a refused message does not count."""
        last = self._last_post.get(channel)
        if self.enforced and last is not None and now - last < self.per_channel:
            self._refuse("chat.postMessage", last + self.per_channel - now)
        self._take(self._posts, self.workspace_per_minute, "chat.postMessage", now)
        self._last_post[channel] = now

    def _take(self, taken: deque[datetime], most: int, method: str, now: datetime) -> None:
        while taken and now - taken[0] >= _MINUTE:
            taken.popleft()
        if self.enforced and len(taken) >= most:
            self._refuse(method, taken[0] + _MINUTE - now)
        taken.append(now)

    def _refuse(self, method: str, wait: timedelta) -> None:
        self.refusals[method] += 1
        raise RateLimited(max(1, math.ceil(wait.total_seconds())))
