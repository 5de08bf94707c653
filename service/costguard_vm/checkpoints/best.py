"""Says which checkpoint is the best by a metric, so that none deletes it. Pure. Travels with the agent.

A checkpoint is as good as the evaluation nearest to its step that was not made after it. One of which no evaluation is
known is neither good nor bad. Values are noted next to the checkpoints, so that the agent of the next VM knows them.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from typing import Collection, Mapping, NamedTuple, Sequence

MOST_EVALUATIONS = 5000  # of one run that are remembered
_NAMES = 1000  # of checkpoints in a note


class Best(NamedTuple):
    """The best checkpoint: its name at the location, its step, and the value of the metric."""

    name: str
    step: int
    value: float


class Evaluations:
    """The values of a metric by the step at which they were printed, as far as a run has come."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._values: list[float] = []

    def add(self, step: int, value: float) -> None:
        """Takes a value. One at an earlier step than the last was printed by a run that goes on from there."""
        if not math.isfinite(value):
            return
        keep = bisect_right(self._steps, step - 1)
        del self._steps[keep:], self._values[keep:]
        self._steps.append(step)
        self._values.append(value)
        if len(self._steps) > MOST_EVALUATIONS:
            del self._steps[0], self._values[0]

    def at(self, step: int) -> float | None:
        """Returns the value nearest to a step and not after it; None where there is none."""
        place = bisect_right(self._steps, step)
        return self._values[place - 1] if place else None


class KnownValues:
    """The metric's values of the checkpoints at a location. `better` is "lower" or "higher"; "" where it has none."""

    def __init__(self, better: str) -> None:
        self.better = better
        self._values: dict[str, tuple[int, float]] = {}

    @property
    def is_wanted(self) -> bool:
        return bool(self.better)

    def read(self, note: bytes, held: Collection[str]) -> None:
        """Reads the note of an earlier run, for those that are still there. One that cannot be read says nothing."""
        try:
            noted = json.loads(note.decode("utf-8"))
            is_same = noted["better"] == self.better
            rows = [(str(name), int(step), float(value)) for name, (step, value) in noted["values"].items()]
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if is_same:
            self._values = {name: (step, value) for name, step, value in rows if name in held and math.isfinite(value)}

    def note(self) -> bytes:
        newest = sorted(self._values.items(), key=lambda one: one[1][0], reverse=True)[:_NAMES]
        return json.dumps({"better": self.better, "values": dict(newest)}, sort_keys=True).encode()

    def forget(self, name: str) -> None:
        """Drops what was known of a checkpoint that is written again."""
        self._values.pop(name, None)

    def learn(self, steps: Mapping[str, int], evaluations: Evaluations, only: Collection[str]) -> bool:
        """Learns the values of checkpoints, whose `steps` are by name. This run's, `only`, have its evaluations.

        Those that are gone are dropped. Returns whether anything changed.
        """
        before = dict(self._values)
        self._values = {name: pair for name, pair in self._values.items() if name in steps}
        for name in only:
            if name in steps and (value := evaluations.at(steps[name])) is not None:
                self._values[name] = (steps[name], value)
        return self._values != before

    def of(self, name: str) -> float | None:
        """Returns the value of one checkpoint; None where it is not known."""
        pair = self._values.get(name)
        return pair[1] if pair is not None else None

    def best(self) -> Best | None:
        """Returns the best; of equal values the earliest. None where no value is known."""
        if not self._values or not self.better:
            return None
        sign = -1.0 if self.better == "higher" else 1.0
        name = min(self._values, key=lambda one: (sign * self._values[one][1], self._values[one][0], one))
        return Best(name, *self._values[name])


def to_delete(newest: Sequence[str], keep: int, always: Collection[str]) -> list[str]:
    """Returns the checkpoints to delete, of names from the newest on: all but the first `keep` (0: all stay)."""
    return [name for name in newest[keep:] if name not in always] if keep else []
