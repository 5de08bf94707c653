"""Tracks a training's progress in its output: its position, its total, its speed, its points.

The position counts steps where the training counts them over the whole run, else batches over its epochs, else epochs.
Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

from costguard_vm.progress.log_line import EVAL, LogReading, is_evaluation, is_known_metric, name_of_loss, printable

EPOCH, BATCH, STEP = "epoch", "batch", "step"  # units, the surest last
_RANK = {"": -1, EPOCH: 0, BATCH: 1, STEP: 2}
MOST_METRICS = 20
MOST_POINTS = 40  # that wait to be sent: of more, evaluations and values that are not finite come first
WINDOW_S = 300.0  # over which the speed is measured
_LEAST_FRACTION = 0.02  # of an epoch, from which its share of the steps says how many there will be


class Point(NamedTuple):
    """A moment of a series. `done` is None before the training counted anything."""

    at: str
    unit: str
    done: float | None
    phase: str
    loss: float | None
    metrics: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"at": self.at, "phase": self.phase}
        if self.done is not None:
            fields.update(unit=self.unit, done=printable(self.done))
        if self.loss is not None:
            fields["loss"] = printable(self.loss)
        if self.metrics:
            fields["metrics"] = {name: printable(value) for name, value in self.metrics.items()}
        return fields


class Track:
    """Takes readings in their order. `at` is the moment as text, `now_s` seconds of a clock that never jumps."""

    def __init__(self) -> None:
        self._last: LogReading | None = None
        self._read_at: str | None = None
        self._unit = ""
        self._done: float | None = None
        self._of: float | None = None
        self._fields: dict[str, Any] = {}
        self._metrics: dict[str, float] = {}
        self._epoch_base = 1.0
        self._last_batch, self._wraps = 0, 0
        self._marks: deque[tuple[float, float]] = deque()
        self._train: Point | None = None  # the newest of the training that is not in `_points` yet
        self._points: list[Point] = []
        self._first: Point | None = None  # with a position: it says when the training began, and is never left out

    @property
    def done(self) -> float | None:
        return self._done

    @property
    def unit(self) -> str:
        return self._unit

    def take(self, reading: LogReading, at: str, now_s: float) -> None:
        self._last, self._read_at = reading, at
        is_eval = reading.phase == EVAL
        self._note_fields(reading)
        if not is_eval or reading.step is not None:
            self._count(reading)
        if not is_eval:
            self._mark(now_s)
        metrics = dict(list(reading.metrics.items())[:MOST_METRICS])
        for name, value in metrics.items():
            if name in self._metrics or len(self._metrics) < MOST_METRICS:
                self._metrics[name] = value
        loss, kept = _curves(reading)
        point = Point(at, self._unit, self._done, reading.phase, loss, kept)
        if self._first is None and self._done is not None:
            self._first = point
        if is_eval or not _is_finite(point):
            self._keep(point)
        elif reading.loss is not None or self._train is None or self._train.loss is None:
            if self._train is not None and self._train is self._first:
                self._points.append(self._train)
            self._train = point  # one that bears a loss is not replaced by a bar that bears none
        elif point.metrics:
            self._train = point._replace(loss=self._train.loss)

    def count(self, step: int, at: str, now_s: float, total: int | None = None) -> None:
        """A step that the owner's pattern or the step file names: surer than what is read from lines."""
        if step != self._done or self._unit != STEP:
            self.take(LogReading("train", step=step, total=total), at, now_s)

    def state(self) -> dict[str, Any]:
        """The field `progress` of a heartbeat; empty before the first reading."""
        if self._last is None:
            return {}
        state: dict[str, Any] = {"phase": self._last.phase, "read_at": self._read_at, **self._fields}
        if self._done is not None:
            state.update(unit=self._unit, done=printable(self._done))
        if self._of is not None:
            state["of"] = printable(self._of)
        if self._metrics:
            state["metrics"] = {name: printable(value) for name, value in self._metrics.items()}
        speed = self.speed()
        if speed is not None:
            state["steps_per_s"] = float(f"{speed:.4g}")
        return state

    def speed(self) -> float | None:
        """Units a second over the last minutes; None before there is enough."""
        if len(self._marks) < 2:
            return None
        (began, first), (ended, last) = self._marks[0], self._marks[-1]
        return (last - first) / (ended - began) if ended > began and last > first else None

    def take_points(self) -> list[Point]:
        """Takes the points since the last call, in their order: evaluations, and the training's newest."""
        points, self._points = self._points, []
        if self._train is not None:
            points.append(self._train)
            self._train = None
        return sorted(points, key=lambda point: point.at)

    def has_bad_value(self) -> bool:
        """Says whether a value that is not finite waits to be sent."""
        return not all(_is_finite(point) for point in self._points)

    def _note_fields(self, reading: LogReading) -> None:
        for name in ("step", "total", "epoch", "epoch_total", "batch", "batch_total", "loss"):
            value = getattr(reading, name)
            if value is not None:
                self._fields[name] = printable(value)

    def _count(self, reading: LogReading) -> None:
        if reading.step is None and self._unit == STEP and reading.batch_total == self._of == self._done:
            self._unit, self._of, self._wraps = "", None, 1  # what looked like the whole run was its first epoch
            self._fields = {name: value for name, value in self._fields.items() if name not in ("step", "total")}
        unit, done, end = self._position(reading)
        if done is None or _RANK[unit] < _RANK[self._unit]:
            self._refine(reading)
            return
        if unit != self._unit:
            self._marks.clear()
            self._of = None
        self._unit, self._done = unit, done
        self._of = end if end is not None else self._of
        self._refine(reading)

    def _position(self, reading: LogReading) -> tuple[str, float | None, float | None]:
        epoch = reading.epoch
        if epoch is not None and epoch < self._epoch_base:
            self._epoch_base = 0.0
        if reading.step is not None:
            return STEP, float(reading.step), None if reading.total is None else float(reading.total)
        if reading.batch is not None:
            return self._batches(reading)
        if epoch is None:
            return "", None, None
        return EPOCH, epoch, None if reading.epoch_total is None else float(reading.epoch_total)

    def _batches(self, reading: LogReading) -> tuple[str, float | None, float | None]:
        batch, per_epoch = reading.batch or 0, reading.batch_total
        if batch < self._last_batch:
            self._wraps += 1
        self._last_batch = batch
        if not per_epoch:
            return BATCH, None, None
        epoch = reading.epoch
        if epoch is None or epoch != int(epoch):
            return BATCH, float(self._wraps * per_epoch + batch), None
        end = None
        if reading.epoch_total is not None:
            # From 0, "9/9" is the last of ten for some programs: rather too much than too little.
            end = (reading.epoch_total + 1 - self._epoch_base) * per_epoch
        return BATCH, (epoch - self._epoch_base) * per_epoch + batch, end

    def _refine(self, reading: LogReading) -> None:
        """The steps of the whole run, where only its epochs are known: by the steps of a share of an epoch."""
        epoch, epochs = reading.epoch, self._fields.get("epoch_total")
        if (
            self._unit == STEP
            and "total" not in self._fields
            and reading.step is not None
            and epoch is not None
            and epochs
            and epoch != int(epoch)
            and epoch > _LEAST_FRACTION
        ):
            self._of = float(round(reading.step / epoch * float(epochs)))

    def _mark(self, now_s: float) -> None:
        if self._done is None:
            return
        if self._marks and self._done < self._marks[-1][1]:
            self._marks.clear()  # it began again
        if not self._marks or self._done > self._marks[-1][1]:
            self._marks.append((now_s, self._done))
        while len(self._marks) > 2 and now_s - self._marks[1][0] >= WINDOW_S:
            self._marks.popleft()

    def _keep(self, point: Point) -> None:
        if self._train is not None:
            self._points.append(self._train)
            self._train = None
        self._points.append(point)
        if len(self._points) > MOST_POINTS:
            plain = [one for one in self._points if one.phase != EVAL and _is_finite(one)]
            self._points.remove(plain[0] if plain else self._points[0])


def _curves(reading: LogReading) -> tuple[float | None, dict[str, float]]:
    """The training loss, and evaluations by name: a learning rate or a norm is no curve to keep.

    A line of an evaluation may hold both losses, as nanoGPT's "step 0: train loss 4.2, val loss 4.3", or its own alone,
    as Keras' evaluate: "loss: 0.4 - accuracy: 0.9", which is then named eval_loss.
    """
    loss, kept = reading.loss, {}
    names = list(reading.metrics)[:MOST_METRICS]
    evaluations = [name for name in names if is_evaluation(name)]
    if reading.phase != EVAL:
        return loss, {name: reading.metrics[name] for name in evaluations}
    plain = name_of_loss(name for name in names if not is_evaluation(name))
    for name in names:
        if name == plain and evaluations:
            loss = reading.metrics[name]
        elif is_known_metric(name):
            kept[f"eval_{name}" if name == plain else name] = reading.metrics[name]
    return loss, kept


def _is_finite(point: Point) -> bool:
    values = [*point.metrics.values(), *([] if point.loss is None else [point.loss])]
    return all(math.isfinite(value) for value in values)
