"""Fits a number to data, step by step: the program that the tasks of these workflows run. Standard library only.

`python3 fit.py --data FOLDER --rate 0.1 --checkpoints FOLDER --model FOLDER [--from FILE]`. Resumed, it ends
with exactly the model of an uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from pathlib import Path
from typing import Any

STEPS, EVERY = 60, 10


def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("--data", "--checkpoints", "--model"):
        options.add_argument(name, type=Path, required=True)
    options.add_argument("--rate", type=float, required=True)
    options.add_argument("--from", type=Path, dest="resumed")
    options.add_argument("--step-seconds", type=float, default=0.4)
    given = options.parse_args()
    numbers = [float(line) for path in sorted(given.data.glob("*.txt")) for line in path.read_text().split()]
    state: dict[str, Any] = json.loads(given.resumed.read_text()) if given.resumed else {"step": 0, "value": 0.0}
    given.checkpoints.mkdir(parents=True, exist_ok=True)
    pause = threading.Event()
    while state["step"] < STEPS:
        number = numbers[state["step"] % len(numbers)]
        state = {"step": state["step"] + 1, "value": state["value"] + given.rate * (number - state["value"])}
        print(f"step {state['step']} loss {abs(number - state['value']):.6f}", flush=True)
        if state["step"] % EVERY == 0:
            _write(given.checkpoints / f"fit-{state['step']}.json", json.dumps(state))
        pause.wait(given.step_seconds)
    given.model.mkdir(parents=True, exist_ok=True)
    _write(given.model / "model.json", json.dumps({**state, "numbers": len(numbers)}))


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


if __name__ == "__main__":
    main()
