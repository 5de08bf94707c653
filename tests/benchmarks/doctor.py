"""`costguard doctor` over many projects, each of whose answers takes 150 ms."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Measured

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_ANSWER_S, _HANGS_S = 0.15, 60.0
_SETTINGS = """
[watch]
projects = {projects}
[database]
url = "sqlite:///{folder}/costguard.db"
[compute]
endpoint = "{url}"
"""


def doctor(folder: Path) -> Iterator[Measured]:
    """Measures from the command's start to its last line; what hangs may be unknown, and nothing else."""
    yield Measured("costguard doctor, 20 projects with answers of 150 ms", "s", [_seconds(folder, 20)], 10)
    yield Measured("the same, one project never answers", "s", [_seconds(folder, 20, hangs=True)], 10)
    yield Measured("costguard doctor, 500 projects with answers of 150 ms", "s", [_seconds(folder, 500)], 60)


def _seconds(folder: Path, count: int, *, hangs: bool = False) -> float:
    projects = [f"project-{number}" for number in range(1, count + 1)]
    world = World(ScaledClock(), projects=projects)
    if hangs:
        world.faults.add("slow", seconds=_HANGS_S, project=projects[0])  # before the other: the first one counts
    world.faults.add("slow", seconds=_ANSWER_S)
    program = str(Path(sys.executable).with_name("costguard"))
    with running(world) as url:
        path = folder / "doctor.toml"
        path.write_text(_SETTINGS.format(projects=json.dumps(projects), folder=folder, url=url))
        began = time.monotonic()
        command = [program, "doctor", "--config", str(path), "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=_environ(), check=False)
        seconds = time.monotonic() - began
    findings = json.loads(done.stdout)["findings"]
    silent = {one["where"] for one in findings if one["topic"] in ("permissions", "apis") and one["state"] != "ok"}
    assert silent == ({projects[0]} if hangs else set()), silent
    return seconds


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
