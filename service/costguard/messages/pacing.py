"""Pacing: how fast messages may be sent, and what holds them back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from costguard.errors import ChannelRefused, SlackError, SlackLimited, SlackRefused, SlackUnavailable, SlackUncertain
from costguard.model.backoff import Backoff

# api.slack.com/apis/rate-limits: one message a second in a channel; short bursts are not relied on.
BETWEEN = timedelta(seconds=1)
BACKOFF = Backoff(timedelta(seconds=10), timedelta(minutes=5))


class Pacing:
    """The pace of messages, in memory: a new process starts at full speed, and Slack limits it if that is too fast."""

    def __init__(self) -> None:
        self._free_at: dict[str, datetime] = {}
        self._ids: dict[str, str] = {}
        self._workspace_free_at: datetime | None = None
        self._failures = 0  # of the workspace, in a row
        self._trouble = ""
        self._channel_troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        return self._trouble

    @property
    def channel_troubles(self) -> Mapping[str, str]:
        return dict(self._channel_troubles)

    def is_named(self, name: str, channel: str) -> None:
        """Messages go to a name, and edits to the id that Slack gave: it is one channel."""
        if name != channel and name not in self._ids:
            self._ids[name] = channel
            if name in self._free_at:
                self._free_at[channel] = max(self._free_at.pop(name), self._free_at.get(channel, _LONG_AGO))

    def wait(self, channel: str, now: datetime) -> timedelta:
        return max(self._free_at.get(self._id(channel), now) - now, timedelta())

    def workspace_wait(self, now: datetime) -> timedelta:
        return max((self._workspace_free_at or now) - now, timedelta())

    def shortest_wait(self, now: datetime) -> timedelta:
        """Returns the time until the next busy channel is free; without one, the shortest interval."""
        return min((at - now for at in self._free_at.values() if at > now), default=BETWEEN)

    def sent(self, channel: str, now: datetime) -> None:
        self._free_at = {busy: at for busy, at in self._free_at.items() if at > now}
        self._free_at[self._id(channel)] = now + BETWEEN

    def accepted(self, channel: str) -> list[str]:
        """The troubles that this ends: "workspace" or a channel."""
        self._failures = 0
        self._workspace_free_at = None
        over = ["workspace"] if self._trouble else []
        self._trouble = ""
        mended = [trouble for trouble in self._channel_troubles if self._id(trouble) == self._id(channel)]
        for name in mended:
            del self._channel_troubles[name]
        return over + mended

    def refused(self, channel: str, error: SlackError, now: datetime) -> str:
        """Holds back what the refusal concerns. Returns a new trouble: "workspace", a channel, or ""."""
        if isinstance(error, SlackLimited):
            self._free_at[self._id(channel)] = now + timedelta(seconds=error.retry_after)
            return ""
        if isinstance(error, ChannelRefused):
            self._free_at[self._id(channel)] = now + BACKOFF.longest
            is_new = channel not in self._channel_troubles
            self._channel_troubles[channel] = str(error)
            return channel if is_new else ""
        if isinstance(error, SlackRefused | SlackUnavailable | SlackUncertain):
            self._failures += 1
            if isinstance(error, SlackUncertain) and self._failures < _DOUBTS:
                return ""
            self._workspace_free_at = now + BACKOFF.after(self._failures)
            is_new = not self._trouble
            self._trouble = str(error)
            return "workspace" if is_new else ""
        return ""

    def _id(self, channel: str) -> str:
        return self._ids.get(channel, channel)


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_DOUBTS = 3  # lost answers in a row, before all messages are held back
