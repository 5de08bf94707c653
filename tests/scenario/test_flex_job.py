"""A training bought by flex-start, over HTTP: its request waits, bills nothing, is granted, and the training ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.training_ground import OWNER, TrainingWorld, ground, uninterrupted

from costguard_sandbox.gce.vm import Status

OPTIONS = ("--steps", "40", "--every", "20")
# The ground's settings go on with the table [jobs]; the preset's comes after it.
L4 = """
[presets.l4]
limit = "never"
match = { gpu_types = ["nvidia-l4"] }
[presets.l4.launch]
machine_type = "g2-standard-4"
gpu_type = "nvidia-l4"
gpu_count = 1
zones = ["us-central1-a", "us-central1-b"]
buy = "flex"
"""
WAIT_S = 600  # of the fleet's clock, which is sixty times as fast


@pytest.mark.parametrize(
    "ends_inserts",
    [pytest.param(False, id="operation waits"), pytest.param(True, id="operation done", marks=pytest.mark.long)],
)
def test_a_training_waits_for_its_vm_and_ends(tmp_path: Path, ends_inserts: bool) -> None:
    """The guard is killed while it waits: there is one VM ever, which bills from its grant on."""
    with ground(tmp_path, more_settings=L4) as place:
        place.world.flex_start.ends_inserts = ends_inserts
        place.world.faults.add("flex_start", seconds=WAIT_S)
        job = place.launch(*OPTIONS, preset="l4")
        place.wait(lambda: _reason(place, job).startswith("waits in us-central1-a for a flex-start VM"), "it waits")
        (vm,) = place.vms
        assert (vm.status, place.ask(f"jobs/{job}")["job"]["state"]) == (Status.PENDING, "queued")
        (attempt,) = place.ask(f"jobs/{job}")["attempts"]
        assert (attempt["state"], attempt["provisioning_model"]) == ("waiting", "flex_start")
        place.kill()
        finished = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
        place.wait(lambda: [one["ended_at"] for one in _lifetimes(place)] not in ([], [None]), "the ledger has its end")
        (life,) = _lifetimes(place)
        assert len(place.vms) == 1
        (run,) = vm.runs
        assert run.began - vm.created_at >= timedelta(seconds=WAIT_S)
        began = datetime.fromisoformat(life["started_at"])
        # To the second where a look showed it up; else from the turn that did, each a second of 60 of the fleet's.
        assert abs(began - run.began) <= timedelta(minutes=3)
    assert (tmp_path / "result.json").read_text() == uninterrupted(tmp_path, *OPTIONS)
    assert [one["outcome"] for one in finished["attempts"]] == ["succeeded"]
    assert life["provisioning_model"] == "flex_start"


def test_a_request_that_is_not_wanted_any_more_is_deleted(tmp_path: Path) -> None:
    """A cancel ends it at once, and nothing of it ever billed as a VM."""
    with ground(tmp_path, more_settings=L4) as place:
        place.world.faults.add("flex_start", never=True)
        job = place.launch(*OPTIONS, preset="l4")
        place.wait(lambda: _reason(place, job).startswith("waits in us-central1-a"), "it waits")
        place.ask(f"jobs/{job}/cancel", {"by": OWNER})
        place.wait_for_state(job, "cancelled")
        place.wait_until_nothing_bills()
        (vm,) = place.vms
        assert (list(vm.runs), _lifetimes(place)) == ([], [])


def _lifetimes(place: TrainingWorld) -> list[dict[str, Any]]:
    lives: list[dict[str, Any]] = place.ask("lifetimes")["lifetimes"]
    return lives


def _reason(place: TrainingWorld, job: str) -> str:
    return str(place.ask(f"jobs/{job}")["job"]["reason"])
