"""Plants causes in real trainings, judges each by the rule and by intervention: `make bounds`.

    python -m tests.diagnosis.bounds [--device stand-in|cuda] [--only TEXT] [--samples FILE]

Without a GPU a process stands in for one (device.py). Truth comes from what shortens a step, never from the plan.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.diagnosis.bounds import report
from tests.diagnosis.bounds.grid import PLANS, PLANS_OF_A_GPU, PlannedRun
from tests.diagnosis.bounds.watch import MeteredStandIn, RealGpu, watch

from costguard_vm.diagnosis.signals import as_json

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("COSTGUARD_TRAINERS", str(ROOT / ".cache" / "trainers" / "venv"))) / "bin" / "python"
_MINUTE_S, _MINUTE_OF_A_GPU_S = 2.0, 11.0
_PATIENCE_S = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.diagnosis.bounds", description=__doc__)
    parser.add_argument("--device", choices=("stand-in", "cuda"), default="stand-in")
    parser.add_argument("--half", type=int, choices=(1, 2), help="only this one: 1 chose the thresholds")
    parser.add_argument("--only", default="", help="only runs with this in their names")
    parser.add_argument("--samples", type=Path, default=ROOT / ".cache" / "bounds.jsonl")
    parser.add_argument("--keep", action="store_true", help="as the recorded runs of the tests and the page")
    given = parser.parse_args()
    if given.device == "cuda" and not _has_gpu():
        print("PyTorch finds no GPU here: leave out --device cuda, and a process stands in for one.")
        return 2
    given.samples.parent.mkdir(exist_ok=True)
    made = []
    plans = [
        one
        for one in (PLANS if given.device == "stand-in" else PLANS_OF_A_GPU)
        if given.only in one.name and given.half in (None, one.half)
    ]
    for number, plan in enumerate(plans, 1):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            run = _run(plan, Path(folder), on_gpu=given.device == "cuda")
        made.append(run)
        with given.samples.open("a") as samples:
            samples.write(json.dumps(run) + "\n")
        print(f"{number} of {len(plans)}: {plan.name} in {time.monotonic() - began:.0f} s: {run['steps']}", flush=True)
    runs = [report.RecordedRun(**run) for run in made]
    print(report.tables(runs))
    if given.keep:
        report.store(made)
        report.write_page(runs)
    held = [report.outcome(run.truth, run.held(with_stacks=True)) for run in runs]
    return int(report.WRONG in held)


def _has_gpu() -> bool:
    words = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([str(PYTHON), "-c", words], check=False).returncode == 0


def _run(plan: PlannedRun, folder: Path, *, on_gpu: bool) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    address = "" if on_gpu else str(folder / "device")
    words = json.dumps({**plan.settings, "address": address, "folder": str(folder)})
    with ExitStack() as stack:
        if not on_gpu:
            stack.enter_context(_stand_in(plan, folder, environment))
        training = stack.enter_context(_started(["training", words], environment))
        answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=_read, args=(training, answers), daemon=True).start()
        _next(answers, "began")
        device = RealGpu() if on_gpu else MeteredStandIn(folder / "counters")
        minute_s = _MINUTE_OF_A_GPU_S if on_gpu else _MINUTE_S
        cpus = len(os.sched_getaffinity(0))
        minutes = list(watch(training.pid, device, cpus, minute_s, lambda: not answers.empty()))
        _next(answers, "ended")
        steps = _next(answers, "steps")["steps"]
    return {
        "name": plan.name,
        "half": plan.half,
        "steps": {name: float(f"{value:.4g}") for name, value in steps.items()},
        "minutes": [
            {**as_json(one.minute), "raw_stacks": dict(one.stacks)} for one in minutes[:-1]
        ],  # the last one is cut
    }


@contextmanager
def _started(words: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    module, *rest = words
    command = [str(PYTHON), "-m", f"tests.diagnosis.bounds.{module}", *rest]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def _stand_in(plan: PlannedRun, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    words = ["device", str(folder / "device"), str(plan.settings["kind"]), "1.0", str(folder / "counters")]
    with _started(words, environment) as device:
        assert device.stdout is not None
        if device.stdout.readline() != "ready\n":
            raise SystemExit(f"{plan.name}: the stand-in for a GPU did not start; its error stands above.")
        yield


def _read(training: subprocess.Popen[str], answers: queue.Queue[dict[str, Any] | None]) -> None:
    assert training.stdout is not None
    for line in training.stdout:
        if line.startswith("{"):
            answers.put(json.loads(line))
    answers.put(None)


def _next(answers: queue.Queue[dict[str, Any] | None], name: str) -> dict[str, Any]:
    answer = answers.get(timeout=_PATIENCE_S)
    if answer is None or name not in answer:
        raise SystemExit(f"The training ended before it said {name!r}; its error stands above.")
    return answer


if __name__ == "__main__":
    sys.exit(main())
