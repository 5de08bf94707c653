"""The metric that a job names: the last and the best value of it that its command printed."""

from __future__ import annotations

import math
import re
import threading
from typing import Any

from costguard_vm.checkpoints.best import MOST_EVALUATIONS, Evaluations
from costguard_vm.model.log_pattern import LogPattern

from .files import utc
from .log_reader import LogReader
from .settings import AttemptSettings

MOST_BYTES = 1 << 20  # of new output in one reading: beyond it, its beginning is left unread
MOST_PART = 64 << 10  # of a line that is not complete yet
BUDGET = 400_000  # of the pattern's work in one reading: some 0.2 s
STEP = r"(?i)\bstep[\s:=/]+(\d+)"  # where the job names no pattern of its own
STYLING = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and cursor moves of a terminal
NUMBER = re.compile(
    r"[\s'\"=:]*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))(?![\w.]|,\d)", re.I
)


def number_in(text: str) -> float | None:
    """The number that a match begins with; None where there is none, or where it might be cut, as 1 of 1,234."""
    match = NUMBER.match(STYLING.sub("", text))
    return float(match.group(1)) if match else None


class MetricReader:
    """Reads what is new in the output, and remembers the last and the best value."""

    def __init__(self, settings: AttemptSettings, log: str) -> None:
        self._pattern = LogPattern(settings.metric_pattern)
        self._steps = LogPattern(settings.step_pattern or STEP)
        self._better = settings.metric_better
        self._reader = LogReader(log)
        self._part = ""  # of the last line
        self._last: dict[str, Any] | None = None
        self._best: dict[str, Any] | None = None
        self._is_over = False
        self.evaluations: Evaluations | None = None  # where each value with a step is put as well
        self._lock = threading.Lock()  # a heartbeat and the exit may look at once

    def look(self, step: int | None, is_final: bool = False) -> dict[str, Any]:
        """Returns the value as events carry it; empty before the first value.

        `step` is that of a value without a printed step.
        """
        with self._lock:
            if not self._is_over:
                self._read(step, is_final)
            return self._known()

    def known(self) -> dict[str, Any]:
        """Returns the result of the last look."""
        with self._lock:
            return self._known()

    def _known(self) -> dict[str, Any]:
        if self._last is None:
            return {}
        return {"metric": {"better": self._better, "last": self._last, "best": self._best}}

    def _read(self, step: int | None, is_final: bool) -> None:
        text = self._part + self._reader.newest(MOST_BYTES).decode("utf-8", "replace")
        end = len(text) if is_final else max(text.rfind("\n"), text.rfind("\r")) + 1
        self._part = text[end:][-MOST_PART:]
        self._take(text[:end], step)
        if is_final:
            self._is_over = True
            self._reader.close()

    def _take(self, text: str, step: int | None) -> None:
        values = []  # the last first
        for match, end in self._pattern.matches_in(text, BUDGET):
            value = number_in(match)
            if value is not None:
                values.append((value, end))
        if not values:
            return
        self._last = self._value(values[0], text, step)
        finite = [value for value in values if math.isfinite(value[0])]
        if self.evaluations is not None:
            for one in reversed(finite[:MOST_EVALUATIONS]):
                if (printed := self._value(one, text, step)["step"]) is not None:
                    self.evaluations.add(printed, one[0])
        if finite:
            best = (min if self._better == "lower" else max)(reversed(finite), key=lambda value: value[0])
            if self._best is None or self._is_better(best[0], float(self._best["value"])):
                self._best = self._value(best, text, step)

    def _is_better(self, value: float, than: float) -> bool:
        return value < than if self._better == "lower" else value > than

    def _value(self, value: tuple[float, int], text: str, step: int | None) -> dict[str, Any]:
        """Returns the value with the step that was printed last until the end of its line."""
        printed = self._steps.last_in(text[max(0, value[1] - MOST_PART) : value[1]])
        return {"value": repr(value[0]), "step": int(printed) if printed.isdecimal() else step, "at": utc()}
