"""Trains a small real model, for VMs of the simulated cloud: standard library only, one file.

A network with one hidden layer learns two moons by gradient descent. Its state is its weights and its random
numbers: a run resumed from a checkpoint ends with exactly the result of an uninterrupted one.
`python3 training.py --steps 400 --checkpoints FOLDER --result FILE [--from_checkpoint FOLDER/step-120]`
With `--from_checkpoint FOLDER` it uses the newest complete checkpoint. Where its VM has a simulated GPU, each step is
counted there as a kernel that ran.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import signal
import struct
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HIDDEN = 12
POINTS = 200
BATCH = 16
RATE = 0.15

State = dict[str, Any]  # JSON: {"step", "weights", "random"}


def moons(count: int) -> list[tuple[float, float, int]]:
    """Two interleaving half circles, always the same."""
    numbers = random.Random(7)
    points = []
    for index in range(count):
        angle, label = math.pi * numbers.random(), index % 2
        x, y = math.cos(angle), math.sin(angle)
        if label:
            x, y = 1 - x, 0.5 - y
        points.append((x + numbers.gauss(0, 0.1), y + numbers.gauss(0, 0.1), label))
    return points


def beginning(seed: int) -> State:
    numbers = random.Random(seed)
    hidden = [[numbers.gauss(0, 1) for _ in range(3)] for _ in range(HIDDEN)]
    return {"step": 0, "weights": {"hidden": hidden, "out": [0.0] * (HIDDEN + 1)}, "random": _random_state(numbers)}


def evaluate(state: State, points: list[tuple[float, float, int]]) -> float:
    """The loss over all points."""
    return sum(_loss(_guess(state, x, y)[0], label) for x, y, label in points) / len(points)


def _guess(state: State, x: float, y: float) -> tuple[float, list[float]]:
    """The chance that a point has the label 1, and the hidden units' values."""
    active = [math.tanh(a * x + b * y + c) for a, b, c in state["weights"]["hidden"]]
    out = state["weights"]["out"]
    score = out[-1] + sum(weight * value for weight, value in zip(out, active, strict=False))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, score)))), active


def _loss(guess: float, label: int) -> float:
    return -math.log(max(1e-12, guess if label else 1 - guess))


def train_one(state: State, points: list[tuple[float, float, int]], rate: float = RATE) -> float:
    """Trains one step of gradient descent on one batch, in place, and returns the batch's loss."""
    numbers = random.Random()
    version, inner, gauss = state["random"]
    numbers.setstate((version, tuple(inner), gauss))
    hidden, out = state["weights"]["hidden"], state["weights"]["out"]
    out_gradient = [0.0] * len(out)
    hidden_gradient = [[0.0] * 3 for _ in hidden]
    loss = 0.0
    for x, y, label in numbers.sample(points, BATCH):
        guess, active = _guess(state, x, y)
        loss += _loss(guess, label)
        error = guess - label
        out_gradient[-1] += error
        for index, value in enumerate(active):
            out_gradient[index] += error * value
            inward = error * out[index] * (1 - value * value)
            for place, given in enumerate((x, y, 1.0)):
                hidden_gradient[index][place] += inward * given
    for index, gradient in enumerate(out_gradient):
        out[index] -= rate * gradient / BATCH
    for row, gradients in zip(hidden, hidden_gradient, strict=True):
        for place, gradient in enumerate(gradients):
            row[place] -= rate * gradient / BATCH
    state["random"] = _random_state(numbers)
    state["step"] += 1
    return loss / BATCH


def save(state: State, folder: Path, write_s: float, slow_s: float | None = None) -> None:
    """Write a checkpoint folder; DONE is written last, so that a folder without it is incomplete.

    `write_s` is how long the writing takes, as with gigabytes; `slow_s` is that of the first attempt.
    """
    place = folder / f"step-{state['step']}"
    if (place / "DONE").exists():
        return
    write_s = write_s if place.exists() or slow_s is None else slow_s
    place.mkdir(parents=True, exist_ok=True)
    text = json.dumps(state)
    half = len(text) // 2
    with (place / "state.json").open("w") as file:
        file.write(text[:half])
        file.flush()
        os.fsync(file.fileno())
        if write_s:
            threading.Event().wait(write_s)
        file.write(text[half:])
        file.flush()
        os.fsync(file.fileno())
    (place / "DONE").write_text("")


def tear(state: State, folder: Path) -> None:
    """Write the torn checkpoint that a crash during a save leaves."""
    place = folder / f"step-{state['step']}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "state.json").write_text(json.dumps(state)[:100])


def load(place: Path) -> State:
    state: State = json.loads((place / "state.json").read_text())
    return state


def newest(place: Path) -> Path | None:
    """The checkpoint itself, or the newest complete one of a folder of checkpoints."""
    if (place / "state.json").exists():
        return place
    complete = (done.parent for done in place.glob("step-*/DONE"))
    return max(complete, key=lambda one: int(one.name.rpartition("-")[2]), default=None)


class SimulatedGpu:
    """Counts for how long kernels ran, in the file that the simulated driver of the VM reads; "" without one."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT) if file else None
        self._busy_s = 0.0

    def ran(self, seconds: float) -> None:
        self._busy_s += seconds
        if self._file is not None:
            os.pwrite(self._file, struct.pack("d", self._busy_s), 0)


@contextmanager
def batches(seconds: float) -> Iterator[Connection | None]:
    """A loader's process that has the next batch ready so many seconds after the last one; None where it is 0."""
    if not seconds:
        yield None
        return
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    loader = context.Process(target=_load, args=(there, seconds), daemon=True)
    loader.start()
    try:
        yield here
    finally:
        loader.terminate()
        loader.join()


def _load(batches: Connection, seconds: float) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        threading.Event().wait(seconds)
        batches.send(None)


def _wait_for(ready: Connection | None, signals: Collection[int]) -> None:
    while ready is not None and not signals:
        if ready.poll(0.1):
            ready.recv()
            return


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    with batches(given.input_seconds) as ready:
        return train(given, signals, ready)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--from_checkpoint", type=Path)
    parser.add_argument("--step-seconds", type=float, default=0.02, help="how long a step takes at least")
    parser.add_argument("--write-seconds", type=float, default=0.0, help="how long a checkpoint takes to be written")
    parser.add_argument("--slow-at", type=int, help="the step whose checkpoint takes 20 seconds at the first try")
    parser.add_argument("--fail-at", type=int, help="the step at which a run from the beginning fails, with code 3")
    parser.add_argument("--last-after", type=Path, help="a file without which the last step does not begin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=RATE, help="the learning rate")
    parser.add_argument("--schedule", type=int, default=0, help="the step by which the rate falls to 0; 0: it stays")
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps between two evaluations; 0: none")
    parser.add_argument("--input-seconds", type=float, default=0.0, help="how long a loader takes for each batch")
    return parser.parse_args(arguments)


def train(given: argparse.Namespace, signals: Collection[int], ready: Connection | None) -> int:
    """Trains to the last step, or until a signal came, after which it saves."""
    saved = newest(given.from_checkpoint) if given.from_checkpoint else None
    state = load(saved) if saved else beginning(given.seed)
    print(f"from step {state['step']}", flush=True)
    points, gpu = moons(POINTS), SimulatedGpu(os.environ.get("SIMULATED_GPU", ""))
    begin, loss = state["step"], 0.0
    while state["step"] < given.steps:
        while state["step"] == given.steps - 1 and given.last_after and not given.last_after.exists() and not signals:
            threading.Event().wait(0.05)
        _wait_for(ready, signals)
        began = time.monotonic()
        if not signals:
            left = max(0.0, 1 - state["step"] / given.schedule) if given.schedule else 1.0
            loss = train_one(state, points, given.rate * left)
            print(f"step {state['step']} loss {loss:.6f}", flush=True)
        if signals:
            save(state, given.checkpoints, given.write_seconds)
            print(f"saved at step {state['step']} and stopped on request", flush=True)
            return 0
        if given.fail_at == state["step"] and begin < given.every:
            tear(state, given.checkpoints)
            print(f"failed at step {state['step']}", flush=True)
            return 3
        if state["step"] % given.every == 0:
            save(state, given.checkpoints, given.write_seconds, 20.0 if state["step"] == given.slow_at else None)
        if given.evaluate_every and state["step"] % given.evaluate_every == 0:
            print(f"step {state['step']} eval_loss {evaluate(state, points):.6f}", flush=True)
        threading.Event().wait(given.step_seconds)
        gpu.ran(time.monotonic() - began)
    given.result.write_text(json.dumps({"step": state["step"], "weights": state["weights"], "loss": loss}))
    print(f"finished with loss {loss:.6f}", flush=True)
    return 0


def _random_state(numbers: random.Random) -> list[object]:
    version, inner, gauss = numbers.getstate()
    return [version, list(inner), gauss]


if __name__ == "__main__":
    sys.exit(main())
