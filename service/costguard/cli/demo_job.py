"""The demo's job: a small model that is really trained, on VMs that Google takes away."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costguard.cli.client import Server

OWNER = "dana@example.com"  # somebody of the simulated workspace
FASTEST = 100.0  # beyond, the longest silence that settings allow is too short for VMs that live in real time
_TRAINING = ("-m", "costguard_sandbox.scenarios.training")
_STEP_S = 0.1
_OVER = frozenset({"succeeded", "failed", "cancelled"})


def impossible(steps: int, speed: float, guard_url: str, platform: str = sys.platform) -> str:
    """Why there is no job in this demo, as a sentence; "" where there is one, or nobody wants one."""
    if not steps:
        return ""
    if platform != "linux":
        return "There is no job in this demo: its VMs are processes of this machine, which needs Linux."
    if speed > FASTEST:
        return f"There is no job in this demo: its VMs live in real time, which needs a --speed of {FASTEST:g} or less."
    if not guard_url:
        return "There is no job in this demo: its VMs reach the guard at 127.0.0.1, at a port that is known (--listen)."
    return ""


def launch(server: Server, folder: Path, project: str, steps: int) -> DemoJob:
    """Asks for it as anybody would, over REST. Raises CostguardError."""
    checkpoints, result = folder / "checkpoints", folder / "result.json"
    checkpoints.mkdir()
    places = ["--checkpoints", str(checkpoints), "--result", str(result), "--steps", str(steps)]
    body = {
        "preset": "a100",
        "project": project,
        "owner": OWNER,
        "name": "train-moons",
        "command": [Path(sys.executable).name, *_TRAINING, *places, "--step-seconds", str(_STEP_S)],
        "checkpoint": {
            "location": f"file://{checkpoints}",
            "resume": "--from_checkpoint {checkpoint}",
            "framework": "marker",
            "pattern": "step-{step}/",
            "marker": "DONE",
        },
        "expected_hours": 2,
        "ceiling": "25.00",
    }
    return DemoJob(str(server.post("jobs", body=body, key="demo")["job"]["id"]), folder, steps)


@dataclass(slots=True)
class DemoJob:
    """Once it has succeeded, the same training is run without a stop, to see whether it comes to the same."""

    id: str
    folder: Path
    steps: int
    told: str = ""  # how the results compare; "" until that is known
    _without_stop: subprocess.Popen[bytes] | None = None

    def look(self, server: Server) -> tuple[dict[str, Any], list[str]]:
        """How it stands, and the last lines that it printed."""
        detail, output = server.get("jobs", self.id), server.get("jobs", self.id, "output")
        self._compare(detail["job"])
        return detail, str(output["output"]).splitlines()[-2:]

    def end(self) -> None:
        if self._without_stop is not None:
            self._without_stop.kill()
            self._without_stop.wait()

    def _compare(self, job: dict[str, Any]) -> None:
        if self.told or job["state"] != "succeeded":
            return
        again = self.folder / "uninterrupted.json"
        if self._without_stop is None:
            places = ["--checkpoints", str(self.folder / "others"), "--result", str(again), "--steps", str(self.steps)]
            # A checkpoint at its end alone, and no pause between two steps: it takes a second.
            hasty = ["--every", str(self.steps), "--step-seconds", "0"]
            self._without_stop = subprocess.Popen(  # noqa: S603 - no shell, and every argument is ours
                [sys.executable, *_TRAINING, *places, *hasty], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        elif self._without_stop.poll() is not None:
            self.told = _compared(job, self.folder / "result.json", again)


def _compared(job: dict[str, Any], result: Path, again: Path) -> str:
    try:
        found, other = result.read_text("utf-8"), again.read_text("utf-8")
        loss = float(json.loads(found)["loss"])
    except (OSError, ValueError, KeyError) as error:
        return f"{job['title']}: its result could not be compared with that of an uninterrupted run: {error}"
    if found != other or math.isnan(loss):
        return f"{job['title']}: NOT the result of an uninterrupted run: something was lost or done twice."
    vms = f"{job['attempts']} VMs, {job['preemptions']} of them preempted"
    return f"{job['title']}: same result as an uninterrupted run, to the last bit: loss {loss:.6f} on {vms}."
