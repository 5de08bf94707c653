"""Reads files that a command writes for Costguard or for its own later runs: the step file, and transformers'
trainer_state.json.

Travels with the agent: Python 3.8 and its standard library must do.
"""

from __future__ import annotations

import json
import re
from typing import Any

from costguard_vm.progress.log_line import TRAIN, LogReading
from costguard_vm.progress.log_reader import OutputReader

_TOTALS = ("total", "total_steps", "max_steps")


def number_in_step_file(text: str) -> int | None:
    """The step of a file that holds a number, or whose first number is the step; None of one with JSON lines."""
    if text.lstrip()[:1] == "{":
        return None
    match = re.search(r"\d{1,18}", text[:200])
    return int(match.group()) if match else None


def readings_of_json_lines(text: str, reader: OutputReader) -> list[LogReading]:
    """Reads each complete line that is an object: `{"step": 120, "total": 9000, "loss": 0.31, "eval_acc": 0.9}`."""
    readings = []
    for line in text.split("\n"):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        reading = reader.read_values(values) if isinstance(values, dict) else None
        if reading is None or not isinstance(values, dict):
            continue
        totals = [values[name] for name in _TOTALS if type(values.get(name)) is int and values[name] > 0]
        if reading.step is not None and totals:
            metrics = {name: value for name, value in reading.metrics.items() if name not in _TOTALS}
            reading = reading._replace(total=totals[0], metrics=metrics)
        readings.append(reading)
    return readings


def readings_of_trainer_state(document: Any, after_step: int) -> list[LogReading]:
    """Reads what transformers' Trainer notes in each checkpoint, of the steps after one.

    `TrainerState` in transformers/trainer_callback.py: `global_step`, `max_steps`, `num_train_epochs`, and in
    `log_history` one dictionary for each logging and evaluation, with its `step` and `epoch`.
    """
    if not isinstance(document, dict):
        return []
    total, epochs, last = (_whole(document.get(name)) for name in ("max_steps", "num_train_epochs", "global_step"))
    history = document.get("log_history")
    reader = OutputReader()
    readings = []
    for values in history if isinstance(history, list) else []:
        reading = reader.read_values(values) if isinstance(values, dict) else None
        if reading is not None and reading.step is not None and reading.step > after_step:
            readings.append(reading._replace(total=total or None, epoch_total=epochs or None))
    newest = readings[-1].step if readings else None
    if last is not None and last > max(after_step, newest or 0):
        readings.append(LogReading(TRAIN, step=last, total=total or None, epoch_total=epochs or None))
    return readings


def _whole(value: Any) -> int | None:
    """transformers writes `num_train_epochs` as a float in some versions."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and 0 < value < 1e15 else None
