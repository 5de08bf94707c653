"""The table [machines] of a scenario: whether its VMs really run, and how."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from costguard_sandbox.guest.machines import DOCKERS, MachineSettings
from costguard_sandbox.scenarios.keys import Keys


def here() -> MachineSettings:
    """As this process finds programs, and in its language."""
    return MachineSettings(path=os.environ.get("PATH", os.defpath), language=os.environ.get("LANG", "C.UTF-8"))


def read_machines(keys: Keys) -> tuple[bool, MachineSettings]:
    """Whether they run, which is off unless it is turned on, and how they do where the program is told to run them."""
    runs = keys.flag("run")
    folder = keys.text("folder", "")
    usual = here()
    settings = replace(
        usual,
        folder=Path(folder).expanduser() if folder else None,
        boot=keys.duration_or("boot", usual.boot),
        grace=keys.duration_or("grace", usual.grace),
        stop_grace=keys.duration_or("stop_grace", usual.stop_grace),
        docker=keys.choice("docker", DOCKERS, usual.docker),
    )
    keys.done()
    return runs, settings
