"""How far the command has come, read from what it printed and from its step file."""

from __future__ import annotations

import re
from typing import Any

from costguard.model.log_pattern import LogPattern

from .files import read, utc
from .output import last_lines, tail
from .settings import Settings

TAIL_BYTES = 64 << 10
NO_PROGRESS: dict[str, Any] = {"step": None, "step_at": None, "output": []}  # of a command that does not run yet


class Progress:
    """A step that has scrolled away stays the step."""

    def __init__(self, settings: Settings, log: str, step_file: str) -> None:
        self._settings, self._log, self._step_file = settings, log, step_file
        self._pattern = LogPattern(settings.step_pattern) if settings.step_pattern else None
        self._step: int | None = None
        self._step_at: str | None = None

    def now(self) -> dict[str, Any]:
        settings = self._settings
        return self._look(TAIL_BYTES, settings.output_lines, settings.output_bytes)

    def at_the_end(self) -> dict[str, Any]:
        most = self._settings.exit_output_bytes
        return self._look(max(TAIL_BYTES, most), most, most)

    def _look(self, bytes_read: int, most_lines: int, most_bytes: int) -> dict[str, Any]:
        text = tail(self._log, bytes_read)
        found = self._written() or self._printed(text)
        if found.isdecimal() and int(found) != self._step:
            self._step, self._step_at = int(found), utc()
        return {"step": self._step, "step_at": self._step_at, "output": last_lines(text, most_lines, most_bytes)}

    def _written(self) -> str:
        found = re.search(r"\d+", read(self._step_file)[:200])
        return found.group() if found else ""

    def _printed(self, text: str) -> str:
        return self._pattern.last_in(text) if self._pattern is not None else ""
