"""Jobs of several VMs: a real guard, a simulated cloud, real agents, and a training that needs all of its ranks."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from tests.gangs import judge, train_plain
from tests.gangs.job import GangJob, node_of
from tests.gangs.life import SETTINGS, gang_ground, money_wrong
from tests.scenario.test_flex_job import L4
from tests.scenario.training_ground import PROJECT, TrainingWorld, ground

from costguard_sandbox.gce.vm import VM

STEPS = 30
SPEED = 10.0  # a lost VM that is not there again within five minutes of the fleet's clock makes its gang move


def test_gang_goes_on_after_a_lost_vm_a_killed_rank_and_a_killed_guard(tmp_path: Path) -> None:
    """The other VMs stay, no two rounds live at once, and the weights are those of an undisturbed training."""
    with gang_ground(tmp_path / "ground", SPEED) as place:
        job = _requested(place, 3)
        _wait_for_first_save(job)
        others = {vm.id for vm in job.up if node_of(vm) != 1}
        place.world.preempt(PROJECT, _vm(job, 1).name)
        place.kill()
        place.wait(lambda: job.runs_after(1), "the next round runs")
        killed_in = _kill_first_rank(job)
        place.wait(lambda: job.runs_after(killed_in), "the round after that runs")
        _finish(job)
        assert {vm.id for vm in job.vms if node_of(vm) != 1} == others
        assert sorted(node_of(vm) for vm in job.vms) == [0, 1, 1, 2]
        assert job.detail["job"]["preemptions"] == 1


FLEX = f"""{L4}
service_account = "trainer@{PROJECT}.iam.gserviceaccount.com"
"""


@pytest.mark.long
def test_gang_on_flex_start_is_granted_at_once_and_proves_which_vms_it_has(tmp_path: Path) -> None:
    """The guard is killed while the request waits and after a VM was lost; nothing of the group stays behind."""
    with gang_ground(tmp_path / "ground", SPEED, FLEX) as place:
        place.world.faults.add("flex_start", seconds=120)
        job = GangJob(place, "plain", 3, "job")
        job.launch(STEPS, "--last-after", str(job.home / "go"), "--patience", "90", preset="l4")
        waits = "waits in us-central1-a for 3 flex-start VMs at once"
        place.wait(lambda: job.detail["job"]["reason"].startswith(waits), "it waits")
        assert place.vms == []
        place.kill()
        _wait_for_first_save(job)
        assert len({vm.created_at for vm in job.vms}) == 1
        lost, *others = job.up
        place.world.faults.clear("flex_start")
        place.world.faults.add("flex_start", seconds=5)
        place.world.trigger("host-error", PROJECT, lost.name)
        place.kill()
        place.wait(lambda: job.runs_in(2), "the second round runs")
        _finish(job)
        assert [vm for vm in job.vms if vm.id in {one.id for one in others}] == others
        assert len(job.vms) == 4
        left = [*place.world.groups.of(PROJECT), *place.world.managed_groups.templates]
        place.wait(lambda: not [*place.world.groups.of(PROJECT), *place.world.managed_groups.templates], f"{left} go")


@pytest.mark.long
def test_gang_is_had_whole_or_not_at_all(tmp_path: Path) -> None:
    """A part of it is given back within five minutes, and all are had together then. `make gangs` loses one too."""
    with gang_ground(tmp_path / "ground", SPEED) as place:
        faults = place.world.faults
        short = faults.add("stockout", after=1)
        job = _requested(place, 2)
        place.wait(lambda: job.vms and all(vm.runs and vm.runs[-1].ended for vm in job.vms), "a part is given back")
        (part,) = job.vms
        faults.remove(short.id)
        _wait_for_first_save(job)
        assert part.runs[-1].ended is not None
        assert part.runs[-1].ended - part.runs[0].began <= timedelta(minutes=5)
        whole = [vm for vm in job.vms if vm is not part]
        _finish(job)
        assert sorted(map(node_of, whole)) == [0, 1]
        assert len({vm.zone for vm in whole}) == 1


@pytest.mark.long
def test_gang_takes_what_can_be_had(tmp_path: Path) -> None:
    """It begins with two of three, grows once the third is there, and goes on without one that is lost."""
    with gang_ground(tmp_path / "ground", SPEED) as place:
        short = place.world.faults.add("stockout", after=2)
        job, steps = GangJob(place, "plain", 3, "job"), 1000
        options = ("--last-after", str(job.home / "go"), "--patience", "90", "--step-seconds", "0.4", "--shards", "3")
        job.launch(steps, *options, nodes="2..3", work_hours=40)
        place.wait(lambda: _ranks(job, 1) == {0, 1} and job.step >= 5, "two VMs have saved")
        assert "2 of 2..3 VMs" in job.detail["job"]["reason"]
        place.world.faults.remove(short.id)
        place.wait(lambda: any(_ranks(job, number) == {0, 1, 2} for number in range(2, job.round + 1)), "it has grown")
        grown = job.round
        place.world.preempt(PROJECT, job.up[0].name)
        place.wait(lambda: job.round > grown and len(_ranks(job, job.round)) >= 2, "it goes on")
        (job.home / "go").touch()
        place.wait_for_state(job.id, "succeeded")
        place.wait_until_nothing_bills()
        assert set(job.finals) == {train_plain.undisturbed(3, steps)}
        wrong = [*judge.at_once(job.written), *judge.one_process_each(job.written, 3), *money_wrong(place)[0]]
        assert wrong == []


@pytest.mark.long
def test_gang_stands_close_together(tmp_path: Path) -> None:
    """The policy is there before the VMs, all of them name it, also the one for a lost VM, and it goes after them."""
    preset = """
[presets.l4]
limit = "never"
match = { gpu_types = ["nvidia-l4"] }
[presets.l4.launch]
machine_type = "g2-standard-4"
gpu_type = "nvidia-l4"
gpu_count = 1
zones = ["us-central1-a"]
"""
    (tmp_path / "ground").mkdir()
    with ground(tmp_path / "ground", 5.0, SETTINGS + preset, speed=SPEED, bills=True) as place:
        job = GangJob(place, "plain", 2, "job")
        options = ("--last-after", str(job.home / "go"), "--patience", "90")
        job.launch(STEPS, *options, preset="l4", placement="compact")
        _wait_for_first_save(job)
        place.world.preempt(PROJECT, _vm(job, 1).name)
        place.wait(lambda: job.runs_in(2), "the second round runs")
        name = f"projects/{PROJECT}/regions/us-central1/resourcePolicies/cg-{job.id}"
        assert [vm.given.get("resourcePolicies") for vm in job.vms] == [[name]] * 3
        assert _policies(place) == [name]
        _finish(job)
        place.wait(lambda: not _policies(place), "the policy is deleted")


def _policies(place: TrainingWorld) -> list[str]:
    return [one.path for one in place.world.belongings if one.path.endswith(one.name) and "Policies/" in one.path]


def _ranks(job: GangJob, number: int) -> set[int]:
    """Returns the places whose processes have begun in a round."""
    return {one.node for one in job.written if one.round == number}


def _requested(place: TrainingWorld, nodes: int) -> GangJob:
    """Returns a gang that waits before its last step."""
    job = GangJob(place, "plain", nodes, "job")
    job.launch(STEPS, "--last-after", str(job.home / "go"), "--patience", "90")
    return job


def _wait_for_first_save(job: GangJob) -> None:
    job.place.wait(lambda: job.runs_in(1) and job.step >= 5, "the first round has saved")


def _vm(job: GangJob, node: int) -> VM:
    vm = job.vm_of(node)
    assert vm is not None
    return vm


def _kill_first_rank(job: GangJob) -> int:
    """Kills the command of the first VM. Returns the round in which it ran."""
    commands: list[int] = []

    def has_command() -> bool:
        commands[:] = job.processes(_vm(job, 0)).command
        return bool(commands)

    job.place.wait(has_command, "the first VM's rank runs")
    number = job.round
    os.kill(commands[-1], signal.SIGKILL)
    return number


def _finish(job: GangJob) -> None:
    """Lets it end, and judges what every gang must show."""
    (job.home / "go").touch()
    job.place.wait_for_state(job.id, "succeeded")
    job.place.wait_until_nothing_bills()
    wrong = [*judge.wrong_weights(job.finals, job.nodes, train_plain.undisturbed(job.nodes, STEPS))]
    wrong += [*judge.at_once(job.written), *judge.one_process_each(job.written, job.nodes), *money_wrong(job.place)[0]]
    assert wrong == []
