"""The simulated Slack workspace: people, channels and messages, under one lock and on the world's clock."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from costguard_sandbox.clock import WorldClock
from costguard_sandbox.slack.access import Limits, SlackError, Tokens
from costguard_sandbox.slack.clicks import PlannedClicks
from costguard_sandbox.slack.faults import SlackFaults
from costguard_sandbox.slack.interactions import Interactions
from costguard_sandbox.slack.model import (
    BOT_NAME,
    BOT_USER_ID,
    DEFAULT_CHANNELS,
    DEFAULT_PEOPLE,
    Blocks,
    Channel,
    Message,
    User,
    Version,
    make_id,
)
from costguard_sandbox.slack.responses import ResponseUrls, Views
from costguard_sandbox.slack.socket_mode import Sockets


class Workspace:
    """A workspace in which the app is installed.

    `calls` counts the calls of the Web API by method, refused ones too; `record` holds every version of every message
    in the order of writing.
    """

    def __init__(self, clock: WorldClock, seed: int = 1) -> None:
        self.clock = clock
        self.tokens = Tokens()
        self.limits = Limits()
        self.enterprise_id = ""  # of the workspace's organisation
        self.edit_window: timedelta | None = None  # how long messages may be edited; None: for ever
        self.faults = SlackFaults(seed)
        self.calls: Counter[str] = Counter()
        self.users: dict[str, User] = {}
        self.channels: dict[str, Channel] = {}
        self.record: list[tuple[Message, Version]] = []
        self.changes = 0  # grows with everything that a person can see
        self.lock = threading.RLock()
        self._messages: dict[str, list[Message]] = {}
        self._by_ts: dict[tuple[str, str], Message] = {}
        self._last_ts: dict[str, int] = {}
        self._numbers = count(1)
        self.base_url = ""  # the sandbox's address, known from the first request on
        self.sockets = Sockets()
        self.views = Views(self.number, self.changed)
        self.response_urls = ResponseUrls(self)
        self.interactions = Interactions(self)
        self.clicks = PlannedClicks(self)
        self.users[BOT_USER_ID] = User(BOT_USER_ID, BOT_NAME, "", "UTC", "Costguard", is_bot=True)
        for name, tz in DEFAULT_PEOPLE:
            self.add_user(name, tz=tz)
        for name in DEFAULT_CHANNELS:
            self.add_channel(name)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def number(self) -> int:
        """The next number, for unique ids."""
        with self.lock:
            return next(self._numbers)

    def changed(self) -> None:
        with self.lock:
            self.changes += 1

    # People and places.

    def add_user(
        self,
        name: str,
        email: str = "",
        tz: str = "UTC",
        deleted: bool = False,
        *,
        real_name: str = "",
        is_admin: bool = False,
    ) -> User:
        """A new person, or new details of the one with this name; a member of every public channel."""
        user = User(
            make_id("U", name),
            name,
            email or f"{name}@example.com",
            tz,
            real_name or name.title(),
            deleted=deleted,
            is_admin=is_admin,
        )
        with self.lock:
            self.users[user.id] = user
            for channel in self.channels.values():
                if channel.kind == "channels" and not deleted:
                    channel.members.add(user.id)
            self.changes += 1
        return user

    def user(self, who: str) -> User:
        """Finds a person by id, name or e-mail address. Raises KeyError when there is no such person."""
        with self.lock:
            for user in self.users.values():
                if who in (user.id, user.name) or (who and who.lower() == user.email.lower()):
                    return user
        raise KeyError(f"no one in the workspace is {who!r}")

    def add_channel(self, name: str, *, private: bool = False, with_app: bool = True) -> Channel:
        """A channel with everyone in it; without the app unless `with_app`."""
        name = name.lstrip("#")
        members = {user.id for user in self.users.values() if not user.deleted and not user.is_bot}
        if with_app:
            members.add(BOT_USER_ID)
        channel = Channel(make_id("C", name), name, self.now, private=private, members=members)
        with self.lock:
            self.channels[channel.id] = channel
            self.changes += 1
        return channel

    def channel(self, where: str) -> Channel:
        """Finds a channel by id or by name, with or without `#`. Raises SlackError channel_not_found."""
        with self.lock:
            if where in self.channels:
                return self.channels[where]
            for channel in self.channels.values():
                if channel.name and channel.name == where.lstrip("#"):
                    return channel
        raise SlackError("channel_not_found")

    def archive(self, where: str, archived: bool = True) -> None:
        self.channel(where).archived = archived
        self.changed()

    def direct(self, *who: str) -> Channel:
        """The app's direct messages with one person or several; created if needed."""
        ids = tuple(sorted(self.user(one).id for one in who))
        name = "" if len(ids) == 1 else "mpdm-" + "--".join(self.users[one].name for one in ids) + "-1"
        channel_id = make_id("D" if len(ids) == 1 else "G", "/".join(ids))
        with self.lock:
            if channel_id not in self.channels:
                members = {*ids, BOT_USER_ID}
                self.channels[channel_id] = Channel(
                    channel_id, name, self.now, private=True, users=ids, members=members
                )
                self.changes += 1
            return self.channels[channel_id]

    # Messages.

    def messages(self, where: str, *, thread: str | None = None, ephemeral: bool = False) -> list[Message]:
        """Every message of the channel or of one `thread`, in order, with replies and deleted messages.

        Ephemeral messages are left out unless `ephemeral`.
        """
        with self.lock:
            messages = self._messages.get(self.channel(where).id, [])
            return [
                one
                for one in messages
                if (thread is None or thread in (one.ts, one.thread_ts)) and (ephemeral or not one.ephemeral_to)
            ]

    def message(self, where: str, ts: str) -> Message:
        """Raises SlackError message_not_found, for a deleted message as well."""
        with self.lock:
            message = self._by_ts.get((self.channel(where).id, ts))
            if message is None or message.deleted_at is not None:
                raise SlackError("message_not_found")
            return message

    def seen_by(self, user: User, where: str, ts: str) -> tuple[Channel, Message]:
        """A message and its channel. Raises SlackError where this person sees no such message."""
        channel = self.channel(where)
        message = self.message(channel.id, ts)
        if user.id not in channel.members or message.ephemeral_to not in ("", user.id):
            raise SlackError("message_not_found")
        return channel, message

    def write(
        self,
        where: str,
        user: str,
        text: str,
        *,
        via: str,
        blocks: Blocks = (),
        metadata: Mapping[str, Any] | None = None,
        thread_ts: str = "",
        ephemeral_to: str = "",
        **flags: Any,
    ) -> Message:
        """A new message. `flags` are further fields of Message."""
        with self.lock:
            channel = self.channel(where)
            parent = self._by_ts.get((channel.id, thread_ts))
            if parent is not None and parent.is_reply:
                parent = self._by_ts[channel.id, parent.thread_ts]
            message = Message(
                channel=channel.id,
                ts=self._next_ts(channel.id),
                user=user,
                versions=[],
                thread_ts=parent.ts if parent else thread_ts,
                ephemeral_to=ephemeral_to,
                **flags,
            )
            if parent is not None and not ephemeral_to:
                parent.replies.append(message)
            self._messages.setdefault(channel.id, []).append(message)
            self._by_ts[channel.id, message.ts] = message
            self._add_version(message, Version(self.now, user, via, text, blocks, metadata or {}))
            return message

    def rewrite(
        self,
        message: Message,
        *,
        by: str,
        via: str,
        text: str,
        blocks: Blocks,
        metadata: Mapping[str, Any],
        edited: bool,
    ) -> None:
        with self.lock:
            if edited:
                message.edited_ts = f"{int(self.now.timestamp())}.000000"
            self._add_version(message, Version(self.now, by, via, text, blocks, metadata))

    def delete(self, message: Message) -> None:
        with self.lock:
            message.deleted_at = self.now
            self.changes += 1

    def _add_version(self, message: Message, version: Version) -> None:
        message.versions.append(version)
        self.record.append((message, version))
        self.changes += 1

    def _next_ts(self, channel: str) -> str:
        """Unique within the channel and always increasing, even while the clock stands still."""
        now = self.now
        stamp = int(now.timestamp()) * 1_000_000 + now.microsecond
        stamp = max(stamp, self._last_ts.get(channel, 0) + 1)
        self._last_ts[channel] = stamp
        return f"{stamp // 1_000_000}.{stamp % 1_000_000:06d}"
