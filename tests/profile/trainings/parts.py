"""The recorded trainings share these parts: data that they make, and a device whose work a step waits for."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

torch.set_num_threads(1)
ROWS, WIDTH = 20_000, 32


class Device:
    """Stands for a GPU: a step waits for so many seconds of its work, which takes no processor here."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s

    def synchronize(self) -> None:
        threading.Event().wait(self.step_s)


class Trainer:
    """A small model, trained by the batch."""

    def __init__(self, width: int = WIDTH, step_s: float = 0.0, hidden: int = 16) -> None:
        layers = (torch.nn.Linear(width, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.device = Device(step_s)
        self.steps = 0
        if "TRAINING_STEPS" in os.environ:
            self.counter = os.open(os.environ["TRAINING_STEPS"], os.O_RDWR | os.O_CREAT)

    def train_step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        self.steps += 1
        if self.steps == 3:
            began()
        if "TRAINING_STEPS" in os.environ:
            os.pwrite(self.counter, b"%012d" % self.steps, 0)
        loss = (self.model(x.float()).squeeze(-1) - y.float()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.device.step_s:
            self.device.synchronize()
        return loss.item()

    def train_epoch(self, batches) -> None:
        for x, y in batches:
            self.train_step(x, y)


def began() -> None:
    """Says that the steps have begun."""
    Path(os.environ["TRAINING_BEGAN"]).touch()


def images(count: int, side: int = 160) -> list[bytes]:
    """PNG files in memory."""
    random = np.random.default_rng(1)
    made = []
    for _ in range(count):
        file = io.BytesIO()
        low = random.integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
        Image.fromarray(low).resize((side, side)).save(file, "PNG")
        made.append(file.getvalue())
    return made


def texts(count: int, words: int = 120) -> list[str]:
    random = np.random.default_rng(2)
    return [
        json.dumps({"text": " ".join(f"w{one}" for one in random.integers(0, 5000, words)), "label": int(n % 2)})
        for n in range(count)
    ]


def small_files(folder: Path, count: int, size: int = 4096) -> list[str]:
    """Many files that are on the disk, and not in the page cache."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        path = folder / f"{number:06}.bin"
        path.write_bytes(np.full(size // 4, number, dtype=np.float32).tobytes())
        paths.append(str(path))
    os.sync()
    for path in paths:
        forget(path)
    return paths


def forget(path: str) -> None:
    """Takes a file out of the page cache, as where a data set is larger than the memory."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(trainings: Sequence[Callable[[Path], None]]) -> None:
    """Runs the training that the command line names; prints all names without one."""
    if len(sys.argv) < 3:
        print("\n".join(one.__name__ for one in trainings))
    else:
        next(one for one in trainings if one.__name__ == sys.argv[1])(Path(sys.argv[2]))
