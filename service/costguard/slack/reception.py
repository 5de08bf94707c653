"""Where presses and commands arrive, whichever way they came in: one handler of each, and one count of refusals."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from costguard.errors import CostguardError
from costguard.model.message import ListContent, WhisperContent
from costguard.model.press import Command, Press

log = structlog.get_logger(__name__)


class Rendered(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def blocks(self) -> list[dict[str, Any]]: ...


class Reception:
    """Hands on what was understood. The handlers answer within 3 s and are called from many threads."""

    def __init__(
        self,
        handle_press: Callable[[Press], None],
        handle_command: Callable[[Command], ListContent | WhisperContent],
        render: Callable[[ListContent | WhisperContent], Rendered],
    ) -> None:
        self._handle_press = handle_press
        self._handle_command = handle_command
        self._render = render
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()

    @property
    def refused(self) -> Mapping[str, int]:
        """How often something was refused, by a reason out of few."""
        with self._lock:
            return dict(self._refused)

    def refuse(self, reason: str) -> None:
        with self._lock:
            self._refused[reason] += 1
        log.warning("slack_refused", reason=reason)

    def take(self, found: Press | Command | None) -> Mapping[str, object]:
        """What Slack is answered. None is a link that was followed: there is nothing to do."""
        match found:
            case Press():
                self._handle_press(found)
            case Command():
                return self._list(found)
        return {}

    def _list(self, command: Command) -> Mapping[str, object]:
        """For the person's eyes only. What went wrong is told in words: they wait for it."""
        try:
            content = self._handle_command(command)
        except CostguardError as error:
            log.error("command_failed", error=str(error))
            content = WhisperContent(f"That did not work: {error}")
        shown = self._render(content)
        return {"response_type": "ephemeral", "text": shown.text, "blocks": shown.blocks}
