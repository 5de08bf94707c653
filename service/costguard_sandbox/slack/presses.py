"""People who mean to press a button as soon as a message has it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from costguard_sandbox.slack.blocks import interactive

if TYPE_CHECKING:
    from costguard_sandbox.slack.messages import Message
    from costguard_sandbox.slack.workspace import Workspace

READING = timedelta(minutes=2)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    """`button` is an action id, or what of it stands before a colon; `about` is a VM's name."""

    user: str
    button: str
    about: str
    until: datetime


class Presses:
    """Wishes wait for a message that everybody there may see and that has been read for a while."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._wishes: list[Wish] = []

    @property
    def waiting(self) -> tuple[Wish, ...]:
        return tuple(self._wishes)

    def wish(self, wish: Wish) -> None:
        self._workspace.user(wish.user)
        with self._workspace.lock:
            self._wishes.append(wish)

    def look(self) -> None:
        """Press what can be pressed now, and give up what nobody can wait for. Not to be called with anything locked.

        A press that did not reach the app is made again at the next look.
        """
        for wish in self.waiting:
            if self._is_done(wish):
                with self._workspace.lock:
                    self._wishes.remove(wish)

    def _is_done(self, wish: Wish) -> bool:
        workspace = self._workspace
        with workspace.lock:
            found = self._found(wish)
        if found is None:
            if workspace.now <= wish.until:
                return False
            _log.warning("%s saw no message about %s with a button %r to press", wish.user, wish.about, wish.button)
            return True
        message, action_id, block_id = found
        delivery = workspace.press(wish.user, message.channel, message.ts, action_id, block_id=block_id)
        return delivery.error != "dispatch_failed" or workspace.now > wish.until

    def _found(self, wish: Wish) -> tuple[Message, str, str] | None:
        """The latest message about the VM that has the button."""
        workspace = self._workspace
        user = workspace.user(wish.user).id
        written = [
            message
            for channel in workspace.channels.values()
            if user in channel.members and not channel.archived
            for message in workspace.messages(channel.id)
            if message.deleted_at is None and message.now.at + READING <= workspace.now
        ]
        for message in sorted(written, key=lambda one: one.ts, reverse=True):
            if wish.about not in message.text and not any(wish.about in text for text in _texts(message.blocks)):
                continue
            for block, element in interactive(message.blocks):
                action_id = element["action_id"]
                if wish.button in (action_id, action_id.partition(":")[0]):
                    return message, action_id, block["block_id"]
        return None


def _texts(value: Any) -> Iterator[str]:
    """Every text within blocks."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
