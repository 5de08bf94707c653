"""Button clicks that a scenario plans: each happens once a message has the button."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from costguard_sandbox.slack.blocks import interactive

if TYPE_CHECKING:
    from costguard_sandbox.slack.model import Message
    from costguard_sandbox.slack.workspace import Workspace

READING_TIME = timedelta(minutes=2)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedClick:
    """`button` is an action id or its part before a colon; `vm` is the name of a VM that the message mentions."""

    user: str
    button: str
    vm: str
    until: datetime


class PlannedClicks:
    """Clicks wait for a message that is not ephemeral and at least READING_TIME old."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._planned: list[PlannedClick] = []

    @property
    def waiting(self) -> tuple[PlannedClick, ...]:
        return tuple(self._planned)

    def plan(self, click: PlannedClick) -> None:
        self._workspace.user(click.user)
        with self._workspace.lock:
            self._planned.append(click)

    def run_due(self) -> None:
        """Click what can be clicked now and drop what is too late; call it with nothing locked.

        A click that did not reach the app is tried again at the next call.
        """
        for click in self.waiting:
            if self._is_done(click):
                with self._workspace.lock:
                    self._planned.remove(click)

    def _is_done(self, click: PlannedClick) -> bool:
        workspace = self._workspace
        with workspace.lock:
            target = self._find(click)
        if target is None:
            if workspace.now <= click.until:
                return False
            _log.warning("%s found no message about %s with a button %r to click", click.user, click.vm, click.button)
            return True
        message, action_id, block_id = target
        delivery = workspace.interactions.click(click.user, message.channel, message.ts, action_id, block_id=block_id)
        return delivery.error != "dispatch_failed" or workspace.now > click.until

    def _find(self, click: PlannedClick) -> tuple[Message, str, str] | None:
        """The latest message about the VM that has the button."""
        workspace = self._workspace
        user = workspace.user(click.user).id
        written = [
            message
            for channel in workspace.channels.values()
            if user in channel.members and not channel.archived
            for message in workspace.messages(channel.id)
            if message.deleted_at is None and message.now.at + READING_TIME <= workspace.now
        ]
        for message in sorted(written, key=lambda one: one.ts, reverse=True):
            if click.vm not in message.text and not any(click.vm in text for text in _texts(message.blocks)):
                continue
            for block, element in interactive(message.blocks):
                action_id = element["action_id"]
                if click.button in (action_id, action_id.partition(":")[0]):
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
