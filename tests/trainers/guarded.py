"""Runs an unchanged Trainer script under the guard, in simulated VMs that really run, preempted twice."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.scenario.training_ground import OWNER, TrainingWorld, ground
from tests.trainers.bench_client import ALONE, PYTHON, ROOT

SCRIPT = ROOT / "tests" / "trainers" / "train_gpt2.py"
_PATIENCE_S = 300.0
_SHORT_S = 0.01  # between looks for a folder that is just being made
_FIRST, _SECOND = 30, 75  # steps whose checkpoints are begun when the VM is taken away


@dataclass(frozen=True)
class GuardedRun:
    """`resumed_at` are the steps of the attempts after the first one; the digests are of the final weights."""

    outcomes: tuple[str, ...]
    resumed_at: tuple[int | None, ...]
    torn: tuple[str, ...]
    final: str
    uninterrupted: str

    @property
    def is_right(self) -> bool:
        return self.outcomes == ("preempted", "preempted", "succeeded") and self.final == self.uninterrupted


def guarded(folder: Path) -> GuardedRun:
    run, plain = folder / "run", folder / "plain"
    subprocess.run(
        [str(PYTHON), str(SCRIPT), "--output_dir", str(plain)],
        env={**os.environ, **ALONE},
        check=True,
        capture_output=True,
    )
    run.mkdir()
    with ground(folder) as place:
        job = _launch(place, run)
        for count, step in enumerate((_FIRST, _SECOND), 1):
            _wait(place, (run / f"checkpoint-{step}").exists, f"checkpoint-{step} is begun", _SHORT_S)
            place.preempt()
            _wait(place, partial(_is_preempted, place, job, count), f"{count} preemptions are counted")
        _wait(place, lambda: place.ask(f"jobs/{job}")["job"]["state"] == "succeeded", "the job has succeeded")
        job_detail = place.ask(f"jobs/{job}")
        torn = [event["text"] for event in place.ask("events?kind=CheckpointTorn")["events"]]
        place.wait_until_nothing_bills()
    return GuardedRun(
        tuple(attempt["outcome"] for attempt in job_detail["attempts"]),
        tuple(attempt["resume_step"] for attempt in job_detail["attempts"][1:]),
        tuple(torn),
        _weights(run),
        _weights(plain),
    )


def _launch(place: TrainingWorld, run: Path) -> str:
    job_request = {
        "preset": "t4",
        "owner": OWNER,
        "command": [str(PYTHON), str(SCRIPT), "--output_dir", str(run)],
        "environment": ALONE,
        "checkpoint": {
            "location": f"file://{run}",
            "framework": "hugging-face",
            "resume": "--resume_from_checkpoint {checkpoint}",
        },
    }
    return str(place.ask("jobs", job_request, Idempotency_Key="trainers")["job"]["id"])


def _is_preempted(place: TrainingWorld, job: str, times: int) -> bool:
    return bool(place.ask(f"jobs/{job}")["job"]["preemptions"] == times)


def _wait(place: TrainingWorld, until: Callable[[], object], what: str, every_s: float = 0.5) -> None:
    """Longer than the ground itself waits: importing PyTorch takes a minute on a busy machine."""
    pause = threading.Event()
    for _ in range(int(_PATIENCE_S / every_s)):
        if until():
            return
        pause.wait(every_s)
    log = (place.folder / "guard.log").read_text()[-3000:]
    raise AssertionError(f"waited {_PATIENCE_S:g} s in vain until {what}\n{log}")


def _weights(folder: Path) -> str:
    return hashlib.sha256((folder / "final" / "model.safetensors").read_bytes()).hexdigest()
