"""Trainings whose checkpoints lie on their VM's own disk: whatever happens to it, the same VM goes on."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path

import pytest
from tests.scenario.training_ground import OWNER, PROJECT, TrainingWorld, ground, uninterrupted

from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.scenarios import training

STEPS, EVERY, PREEMPTED_AT = 80, 20, 40
OPTIONS = ("--steps", str(STEPS), "--every", str(EVERY))
SAVED, ON_THE_VM = "/saved", "var/checkpoints"


def test_a_preempted_vm_is_started_again_with_what_lies_on_its_disk(tmp_path: Path) -> None:
    """A command has time to save, another is cut off while it does; each goes on by itself, on its only VM ever."""
    with ground(tmp_path) as place:
        preempted = tmp_path / "preempted"  # without it the prompt one would be done before a busy machine looks
        jobs = [
            _launch(place, "prompt", "--last-after", str(preempted)),
            _launch(place, "slow", "--slow-at", str(PREEMPTED_AT)),
        ]
        prompt, slow = (_vm_of(place, job) for job in jobs)
        place.wait((_saved(place, prompt, PREEMPTED_AT) / "DONE").exists, "a checkpoint is written")
        place.world.preempt(PROJECT, prompt.name)
        place.wait((_saved(place, slow, PREEMPTED_AT) / "state.json").exists, "the slow checkpoint is begun")
        place.world.preempt(PROJECT, slow.name)
        # The first may be up again before the second is down.
        place.wait(lambda: all(vm.last_stop is not None for vm in (prompt, slow)), "both VMs went down")
        preempted.touch()
        assert not (_saved(place, slow, PREEMPTED_AT) / "DONE").exists()
        place.end_guard()
        place.start_guard()  # its first pass comes at once, and no reported event is lost
        finished = [place.wait_for_state(job, "succeeded") for job in jobs]
        place.wait_until_nothing_bills()
    for one, name in zip(finished, ("prompt", "slow"), strict=True):
        assert (tmp_path / f"{name}.json").read_text() == uninterrupted(tmp_path, *OPTIONS)
        (attempt,) = one["attempts"]
        assert (attempt["outcome"], attempt["restarts"], attempt["run"]) == ("succeeded", 1, 2)
        assert (one["job"]["preemptions"], one["job"]["crashes"]) == (1, 0)
        assert not any(interruption["from_zero"] for interruption in one["interruptions"])
    assert len(place.vms) == 2


@pytest.mark.long
def test_a_failed_command_resumes_from_its_newest_complete_checkpoint(tmp_path: Path) -> None:
    """It dies with code 3 after a checkpoint and with another one half written; the same VM runs it again.

    What it ends with equals the result of a training that never failed, so nothing of the checkpoint was lost.
    """
    with ground(tmp_path) as place:
        job = _launch(place, "fails", "--fail-at", "50")
        finished = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
    assert (tmp_path / "fails.json").read_text() == uninterrupted(tmp_path, *OPTIONS)
    (attempt,) = finished["attempts"]
    assert (attempt["outcome"], attempt["run"], attempt["resume_step"]) == ("succeeded", 2, 40)
    assert attempt["resume_from"] == f"{SAVED}/step-40"
    assert finished["job"]["crashes"] == 1
    assert not any(interruption["from_zero"] for interruption in finished["interruptions"])
    assert len(place.vms) == 1


@pytest.mark.long
def test_a_job_that_failed_for_good_keeps_its_checkpoints_until_its_owner_agrees(tmp_path: Path) -> None:
    """The guard may be dead in between. Then the VM and its disk go, and only then."""
    with ground(tmp_path) as place:
        job = _launch(place, "broken", "--fail-at", "30", crashes=0)
        place.wait_for_state(job, "failed")
        place.kill()
        (vm,) = place.vms
        place.wait(lambda: vm.status is Status.TERMINATED, "its VM is stopped")
        place.wait(lambda: place.ask(f"jobs/{job}")["kept_disk"], "its disk is shown")
        kept = place.ask(f"jobs/{job}")["kept_disk"]
        assert (_saved(place, vm, 20) / "DONE").exists()
        assert "step 20" in kept["holds"]
        assert Decimal(kept["monthly"]) > 0
        place.ask(f"jobs/{job}/delete-disk", {"by": OWNER})
        place.wait_until_nothing_bills()
        assert not _saved(place, vm, 20).exists()
        assert place.ask(f"jobs/{job}")["kept_disk"] is None


def _launch(place: TrainingWorld, name: str, *more: str, crashes: int = 3) -> str:
    """Launches in an image: the folder in it is one of the VM's disk."""
    result = str(place.folder / f"{name}.json")
    return place.launch(
        key=name,
        command=[sys.executable, training.__file__, "--checkpoints", SAVED, "--result", result, *OPTIONS, *more],
        image="acme/train:1",
        max_crashes=crashes,
        mounts=[f"/{ON_THE_VM}:{SAVED}"],
        checkpoint={
            "location": SAVED,
            "framework": "marker",
            "pattern": "step-{step}/",
            "marker": "DONE",
            "resume": "--from_checkpoint {checkpoint}",
        },
    )


def _vm_of(place: TrainingWorld, job: str) -> VM:
    def vms() -> list[VM]:
        return [vm for vm in place.vms if vm.name.startswith(f"cg-{job}-")]

    place.wait(vms, "a VM is made")
    return vms()[0]


def _saved(place: TrainingWorld, vm: VM, step: int) -> Path:
    """Returns where the simulated cloud keeps that checkpoint of the VM's disk."""
    assert vm.boot_disk is not None
    return place.folder / "vms" / str(vm.boot_disk.id) / ON_THE_VM / f"step-{step}"
