"""README.md's way to a guarded fleet, command by command, in a project in which nothing is granted yet."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli.typed import Typist
from tests.first_hour import readme
from tests.first_hour.machine import PROJECT, Machine, Newcomer, Typed, with_gcloud
from tests.ports import free_port

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.scenarios.scenario import build, load
from costguard_sandbox.server import running


def test_twelve_commands_are_enough() -> None:
    """The commands lead from the installation to the server that watches, and to what it sees."""
    assert 1 + readme.set_up_commands().index(readme.SERVE) + 1 <= readme.MOST_COMMANDS


def test_the_readme_leads_to_a_guarded_fleet_in_shadow_mode(tmp_path: Path) -> None:
    """Each command shows what it should, nothing at Google is changed, and a right that is taken away is named."""
    world = build(load(str(readme.scenario())), ScaledClock())
    world.rights.begin(PROJECT)
    with Typist() as typist, running(world) as url:
        machine = Machine(tmp_path, [Path(sys.executable).parent], url, typist)
        with_gcloud(machine, tmp_path, real=False)
        newcomer = Newcomer(machine, free_port())
        typed: list[Typed] = []
        readme.follow(newcomer, typed.append)
        readme.check_guarded(machine, world.rights.new[PROJECT])
        readme.check_a_permission_taken_away(newcomer, world.rights.new[PROJECT])
    assert len(typed) == len(readme.set_up_commands())
