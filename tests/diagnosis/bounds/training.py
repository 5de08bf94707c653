"""Runs one training with a planted cause as a command would, then answers by interventions what bounds it.

    python -m tests.diagnosis.bounds.training '{"kind": "vit", "cause": "decode", "workers": 1, "ratio": 1.8, ...}'

The run proper comes first and is watched from outside. Then come the interventions, each for a few seconds in the same
process: data that is resident, half of the work on the device, more workers, and the host's own part left out.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.diagnosis.bounds.device import Computing, StandIn
from tests.diagnosis.bounds.models import KINDS
from torch.utils.data import DataLoader, Dataset

# What is planted. `ratio` is the time that it takes, in steps of the device.
RESIDENT, DECODE, SLEEP, DISK = "resident", "decode", "sleep", "disk"  # of data
HOST, ITEM, CHECKPOINT, LAUNCHES = "host", "item", "checkpoint", "launches"  # of what the host does; data is resident
OF_DATA = (DECODE, SLEEP, DISK)
_SAMPLES = 64
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Plan:
    """The plan of one run. On the stand-in `address` is its socket; empty: a GPU."""

    kind: str
    cause: str
    ratio: float = 1.0
    workers: int = 0
    seconds: float = 22.5
    check_s: float = 2.5
    scale: float = 1.0
    half: bool = False
    batch: int = 0  # 0: as its kind has it
    address: str = ""
    device: str = "cuda"
    folder: str = "/tmp"


def first_batch(kind: str, most: int = 0) -> torch.Tensor:
    """Decoded; the same in every process."""
    made, random = KINDS[kind], np.random.default_rng(7)
    return torch.stack([made.decoded(made.encoded(random)) for _ in range(most or made.batch)])


class Samples(Dataset[torch.Tensor]):
    """A batch for each index: `repeats` decodes, a sleep, or so many blocks read from the disk itself."""

    def __init__(self, plan: Plan, repeats: int, pause_s: float, blocks: int) -> None:
        random = np.random.default_rng(3)
        self.kind, self.size = KINDS[plan.kind], plan.batch or KINDS[plan.kind].batch
        self.encoded = [self.kind.encoded(random) for _ in range(_SAMPLES)]
        self.repeats, self.pause_s, self.blocks, self.file = repeats, pause_s, blocks, Path(plan.folder) / "blocks"

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.pause_s:
            time.sleep(self.pause_s)  # noqa: TID251 - storage that answers late
        for number in range(self.blocks):
            self._read(index * self.blocks + number)
        samples = (self.encoded[(index + number) % _SAMPLES] for number in range(max(self.repeats, self.size)))
        decoded = [self.kind.decoded(sample) for sample in samples]
        return torch.stack(decoded[: self.size])

    def _read(self, block: int) -> None:
        """Reads from the disk: its pages are not kept."""
        with self.file.open("rb") as file:
            size = os.fstat(file.fileno()).st_size // _BLOCK
            os.posix_fadvise(file.fileno(), block % size * _BLOCK, _BLOCK, os.POSIX_FADV_DONTNEED)
            os.pread(file.fileno(), _BLOCK, block % size * _BLOCK)


def _itself(batch: list[torch.Tensor]) -> torch.Tensor:
    return batch[0]


class Run:
    """The loop of a training."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.batch = plan, first_batch(plan.kind, plan.batch)
        self.device: Any = (
            StandIn(plan.address)
            if plan.address
            else Computing(plan.kind, plan.scale, plan.half, self.batch, plan.device)
        )
        self.state = {"weights": torch.randn(6_000_000)}
        self.step_s = self._timed(lambda: (self.device.launch(None), self.device.synchronize()), 12)
        sample = KINDS[plan.kind].encoded(np.random.default_rng(1))
        self.decode_s = self._timed(lambda: KINDS[plan.kind].decoded(sample), 200)
        self.words = [f"token{number} of {number * 7}" for number in range(400)]
        self.chunk_s = self._timed(self._some_python, 50)
        self.block_s = 0.0
        if plan.cause == DISK:
            self._make_blocks()
        if plan.cause == CHECKPOINT:
            self.save_s = self._timed(self._save, 3)

    def _timed(self, do: Any, times: int) -> float:
        """The least on a shared machine, where the rest waited for a CPU; on a GPU the median."""
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            do()
            taken.append(time.perf_counter() - began)
        return min(taken) if self.plan.address else statistics.median(taken)

    def _make_blocks(self) -> None:
        file = Path(self.plan.folder) / "blocks"
        file.write_bytes(os.urandom(256 * _BLOCK))
        os.sync()
        samples = Samples(self.plan, 0, 0.0, 1)
        self.block_s = self._timed(lambda: samples._read(np.random.randint(256)), 40)

    def _some_python(self) -> int:
        """Does what a host does between steps: words, dictionaries, numbers."""
        counts: dict[str, int] = {}
        for word in self.words:
            for part in word.split():
                counts[part.lower()] = counts.get(part.lower(), 0) + len(part)
        return sum(counts.values())

    def _save(self) -> None:
        file = Path(self.plan.folder) / "checkpoint.pt"
        torch.save(self.state, file.with_suffix(".part"))
        with file.with_suffix(".part").open("rb") as written:
            os.fsync(written.fileno())
        file.with_suffix(".part").rename(file)

    def loop(
        self, cause: str, seconds: float, *, workers: int | None = None, pieces: int = 1, host: float = 1.0
    ) -> float:
        """Trains for a time; returns the mean seconds of a step, without its first steps."""
        plan, taken, begins = self.plan, [], 0.0
        batches = self._batches(cause, plan.workers if workers is None else workers)
        ends = time.monotonic() + seconds
        for number in itertools.count():
            batch = next(batches)
            self._train(cause, number, batch, pieces, host)
            if number == 2:
                begins = time.monotonic()
            taken.append(number)
            if time.monotonic() > ends and number > 4:
                break
        self.device.synchronize()
        return (time.monotonic() - begins) / (len(taken) - 3)

    def _train(self, cause: str, number: int, batch: torch.Tensor | None, pieces: int, host: float) -> None:
        of_host = self.plan.ratio * self.step_s * host
        if cause == LAUNCHES:  # many small kernels, with the work of a host before each
            for _ in range(max(1, len(self.batch))):
                self.device.launch(None, len(self.batch) * pieces)
                self._busy(of_host / len(self.batch))
        else:
            self.device.launch(batch, pieces)
        if cause == HOST:
            self._busy(of_host)
        if cause == ITEM:
            self.device.synchronize()
            self._busy(of_host)
        if cause == CHECKPOINT and of_host and number % max(1, round(self.save_s / of_host)) == 0:
            self.device.synchronize()
            self._save()
        if number % 50 == 0:
            print(f"step {number}", flush=True)

    def _busy(self, seconds: float) -> None:
        for _ in range(round(seconds / self.chunk_s)):
            self._some_python()

    def _batches(self, cause: str, workers: int) -> Iterator[torch.Tensor | None]:
        if cause not in OF_DATA:
            return itertools.repeat(None)
        wanted = self.plan.ratio * self.step_s
        repeats = round(wanted / self.decode_s) if cause == DECODE else 0
        blocks = max(1, round(wanted / self.block_s)) if cause == DISK else 0
        samples = Samples(self.plan, repeats, wanted if cause == SLEEP else 0.0, blocks)
        return iter(DataLoader(samples, batch_size=1, num_workers=workers, collate_fn=_itself))


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    torch.set_num_threads(1)
    run = Run(plan)
    print(json.dumps({"began": True, "step_s": run.step_s}), flush=True)
    steps = {"real": run.loop(plan.cause, plan.seconds)}
    print(json.dumps({"ended": True}), flush=True)
    steps["real again"] = run.loop(plan.cause, plan.check_s)
    steps["resident"] = run.loop(RESIDENT, plan.check_s)
    steps["half the work"] = run.loop(plan.cause, plan.check_s, pieces=2)
    if plan.cause not in OF_DATA:
        steps["without the host's part"] = run.loop(plan.cause, plan.check_s, host=0.0)
    if plan.cause in OF_DATA:
        steps["more workers"] = run.loop(plan.cause, plan.check_s, workers=max(1, 4 * plan.workers))
    steps["real at last"] = run.loop(plan.cause, plan.check_s)
    print(json.dumps({"steps": steps, "plan": asdict(replace(plan, address="", folder=""))}), flush=True)


if __name__ == "__main__":
    main()
