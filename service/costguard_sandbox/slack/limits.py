"""Slack's rate limits, on the world's clock: https://docs.slack.dev/apis/web-api/rate-limits."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from costguard_sandbox.slack.errors import RateLimited

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)
# Slack promises "1+", "20+", "50+" and "100+" a minute; tier 1 tolerates a small burst.
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


class Limits:
    """`per_channel` is the time between two messages in one channel; `workspace_per_minute` bounds all channels.

    Slack allows short bursts in a channel and names no figure for the workspace
    ("several hundred messages per minute"); here no burst passes, so that a client that obeys this obeys Slack.
    """

    def __init__(self) -> None:
        self.enforced = True
        self.per_channel = _SECOND
        self.workspace_per_minute = 300
        self.per_minute = dict(PER_MINUTE)
        self.most_history: int | None = None  # messages on a page of history; None: as many as are asked for
        self.refusals: Counter[str] = Counter()
        self._calls: dict[str, deque[datetime]] = {}
        self._posts: deque[datetime] = deque()
        self._last_post: dict[str, datetime] = {}

    def outside_marketplace(self, is_so: bool) -> None:
        """As for apps that are commercially distributed outside the Marketplace since 29 May 2025: one call a minute
        and 15 messages (https://docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps)."""
        for method in ("conversations.history", "conversations.replies"):
            self.per_minute[method] = 1 if is_so else PER_MINUTE[method]
        self.most_history = 15 if is_so else None

    def call(self, method: str, now: datetime) -> None:
        """Count one call of a method. Raises RateLimited past its tier."""
        most = self.per_minute.get(method)
        if most is not None:
            self._take(self._calls.setdefault(method, deque()), most, method, now)

    def post(self, channel: str, now: datetime) -> None:
        """Count one message of `chat.postMessage`. A refused message counts for nothing."""
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
