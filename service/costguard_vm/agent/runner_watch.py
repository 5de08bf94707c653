"""The runner as the agent sees it: one that it started, or one that an earlier agent left running."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from typing import Any

from .files import lock
from .runner import hand_over
from .state import SavedState

LAST_WORDS_S = 5


class RunnerWatch:
    """Knows whether the runner lives by the lock that it holds."""

    def __init__(self, state: SavedState) -> None:
        self._state = state
        self._runner: subprocess.Popen[bytes] | None = None
        self._reading: threading.Thread | None = None

    def start(self, order: dict[str, Any], held: int) -> None:
        self._runner = hand_over(order, self._state.run_folder, held)
        self._reading = threading.Thread(target=self._read_reports, args=(self._runner,), daemon=True)
        self._reading.start()

    def _read_reports(self, runner: subprocess.Popen[bytes]) -> None:
        """The runner also reports what it writes to files: neither disk nor memory may have taken them."""
        assert runner.stdout is not None
        for line in runner.stdout:
            with contextlib.suppress(ValueError, KeyError):
                report = json.loads(line)
                self._state.reported[report["name"]] = report["document"]

    def is_gone(self) -> bool:
        if self._runner is not None:
            is_gone = self._runner.poll() is not None
            if is_gone and self._reading is not None:
                self._reading.join(LAST_WORDS_S)
            return is_gone
        held = lock(os.path.join(self._state.run_folder, "lock"))
        if held is not None:
            os.close(held)
        return held is not None
