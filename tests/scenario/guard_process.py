"""A guard in a process of its own, by the simulated cloud's clock: `python -m tests.scenario.guard_process SETTINGS`.

It says its address in one line, and serves until SIGTERM; tests also end it with SIGKILL.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from costguard import main
from costguard.cli import demo_cloud
from costguard.settings import load


def run(path: Path) -> None:
    settings = load(path, {})
    cloud = settings.compute.endpoint
    assert cloud is not None
    clock = demo_cloud.clock_of(cloud)
    with main.opened(settings, clock, demo_cloud.speed_of(cloud)) as guard:
        main.serve(guard, _say)


def _say(url: str, _server: Any) -> None:
    print(url, flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
