"""A call of the Web API, and the readers of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from costguard_sandbox.slack.access import SlackError, invalid_arguments
from costguard_sandbox.slack.model import BOT_USER_ID, Channel
from costguard_sandbox.slack.workspace import Workspace

_TRUE = ("true", "1", "True")


@dataclass(frozen=True, slots=True)
class SlackCall:
    """A call. `values` are strings from a form, or JSON values."""

    workspace: Workspace
    method: str
    token: str
    values: Mapping[str, Any]
    base_url: str

    def need(self, *any_of: str) -> None:
        self.workspace.tokens.need(self.token, *any_of)

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key)
        return default if value is None else str(value)

    def required(self, key: str) -> str:
        if not (value := self.text(key)):
            raise invalid_arguments(f"missing required field: {key}")
        return value

    def flag(self, key: str, default: bool | None = False) -> bool | None:
        value = self.values.get(key)
        return default if value is None else value is True or str(value) in _TRUE

    def json(self, key: str, wrong: str) -> Any:
        """A JSON value, or one encoded in a string. Raises SlackError `wrong` for invalid JSON."""
        value = self.values.get(key)
        if not isinstance(value, str):
            return value
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            raise SlackError(wrong) from None

    def number(self, key: str, default: int, most: int) -> int:
        given = self.text(key, str(default))
        if not given.isdecimal() or not 1 <= int(given) <= most:
            raise SlackError("invalid_limit" if key == "limit" else "invalid_arguments")
        return int(given)

    def channel(self, key: str = "channel", *, scope: str = "") -> Channel:
        """An existing channel by id. With `scope`, e.g. `history`, the token must have it for this kind of channel."""
        where = self.required(key)
        channel = self.workspace.channels.get(where)
        if channel is None or (channel.private and BOT_USER_ID not in channel.members):
            raise SlackError("channel_not_found")
        if scope:
            self.need(f"{channel.kind}:{scope}")
        return channel
