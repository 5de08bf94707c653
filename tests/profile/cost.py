"""Measures what a profile costs a training: `python -m tests.profile.cost --python PYTHON`, some twelve minutes.

Steps of a real PyTorch training are counted in spans of ten seconds, with the agent's sampler and without it in turns:
A without, B with, B with, A without, so that a slow change of the machine falls on both. What is measured is the loss
of steps *within* a window; over a run it counts for the share of the time that windows take. A training that the agent
samples in every fifth minute is in windows for 3 % of the time.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from costguard_vm.agent.watch.profile_watch import AGAIN_S, LATER_S, SHARE, SPAN_S, take_window

TRAININGS = Path(__file__).parent / "trainings"
QUADS = 8
_REPEATS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--trainings", nargs="*", default=["heavy_model", "once_tokenize"])
    arguments = parser.parse_args()
    for name in arguments.trainings:
        print(measured(arguments.python, name), flush=True)


def measured(python: str, name: str) -> str:
    kind = "slow" if name.startswith(("rows", "once", "reads", "validation")) else "sound"
    with tempfile.TemporaryDirectory() as folder:
        began, steps = Path(folder) / "began", Path(folder) / "steps"
        environment = {**os.environ, "TRAINING_BEGAN": str(began), "TRAINING_STEPS": str(steps)}
        command = [python, str(TRAININGS / f"{kind}.py"), name, folder]
        with subprocess.Popen(command, cwd=TRAININGS, env=environment, start_new_session=True) as training:
            try:
                nap = threading.Event()
                while not began.exists() and training.poll() is None:
                    nap.wait(0.5)
                nap.wait(5)
                pairs, cpu_s = _pairs(training.pid, steps, folder)
            finally:
                os.killpg(training.pid, signal.SIGKILL)
    losses = sorted(1 - _ratio(random.Random(seed).choices(pairs, k=len(pairs))) for seed in range(_REPEATS))
    low, middle, high = losses[_REPEATS // 40], 1 - _ratio(pairs), losses[-_REPEATS // 40]
    used = statistics.mean(cpu_s)
    often = max(AGAIN_S, used / SHARE)
    later = max(LATER_S, used / SHARE)
    return (
        f"{name}: {middle:.2%} fewer steps within a window ({low:.2%} to {high:.2%}, 95 %, {len(pairs)} pairs of "
        f"{SPAN_S} s); py-spy used {used:.2f} s of a processor for each window, so one comes every {often:.0f} s at "
        f"first, every {later:.0f} s later: {middle * SPAN_S / often:.3%}, later {middle * SPAN_S / later:.3%} "
        f"(at most {high * SPAN_S / often:.3%} and {high * SPAN_S / later:.3%})"
    )


def _pairs(pid: int, steps: Path, folder: str) -> tuple[list[tuple[int, int]], list[float]]:
    """Returns pairs of the steps without and with the sampler, and the processor time of each window."""
    pairs: list[tuple[int, int]] = []
    cpu_s: list[float] = []
    for _ in range(QUADS):
        spans = [_span(pid, steps, folder, cpu_s, is_sampled=sampled) for sampled in (False, True, True, False)]
        pairs += [(spans[0], spans[1]), (spans[3], spans[2])]
    return pairs, cpu_s


def _span(pid: int, steps: Path, folder: str, cpu_s: list[float], *, is_sampled: bool) -> int:
    before, over = int(steps.read_bytes()), threading.Event()
    timer = threading.Timer(SPAN_S, over.set)
    timer.start()
    if is_sampled:
        py_spy = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
        recorder = threading.Thread(
            target=lambda: cpu_s.append(take_window(py_spy, pid, f"{folder}/looks", SPAN_S).cpu_s), daemon=True
        )
        recorder.start()
    over.wait()
    after = int(steps.read_bytes())
    if is_sampled:
        recorder.join()
    return after - before


def _ratio(pairs: list[tuple[int, int]]) -> float:
    return sum(sampled for _, sampled in pairs) / sum(free for free, _ in pairs)


if __name__ == "__main__":
    main()
