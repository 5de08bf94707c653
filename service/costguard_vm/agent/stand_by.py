"""Waits of a VM that keeps asking the guard for its word."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .output import NO_PROGRESS
from .settings import AttemptSettings
from .transfers.phases import Phases


class StandBy:
    """Says again and again that the VM waits: the word comes in the answers."""

    def __init__(self, settings: AttemptSettings, phases: Phases, send: Callable[..., None]) -> None:
        self._settings, self._phases, self._send = settings, phases, send

    def until(
        self, word: Callable[[], Mapping[str, Any]], pause: Callable[[float], None], phase: str = "standing_by"
    ) -> Mapping[str, Any]:
        """Returns the word once it is there. `pause` may raise."""
        with self._phases.phase(phase):
            while True:
                said = word()
                if said:
                    return said
                self._send("heartbeat", is_urgent=False, is_running=False, **NO_PROGRESS, **self._phases.fields())
                again_at = time.monotonic() + self._settings.stand_by_s
                while not word() and time.monotonic() < again_at:
                    pause(min(self._settings.poll_s, self._settings.stand_by_s))
