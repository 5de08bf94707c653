"""Jobs of several VMs: a real guard, a simulated cloud, real agents, and a training that needs all of its ranks."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

from tests.gangs import judge, train_plain
from tests.gangs.job import GangJob, node_of
from tests.gangs.life import gang_ground, money_wrong
from tests.scenario.training_ground import PROJECT, TrainingWorld

from costguard_sandbox.gce.vm import VM

STEPS, SPEED = 30, 60.0


def test_gang_goes_on_after_a_lost_vm_a_killed_rank_and_a_killed_guard(tmp_path: Path) -> None:
    """The other VMs stay, no two rounds live at once, and the weights are those of an undisturbed training."""
    with gang_ground(tmp_path / "ground", SPEED) as place:
        job = _launched(place, 3)
        others = {vm.id for vm in job.up if node_of(vm) != 1}
        place.world.preempt(PROJECT, _vm(job, 1).name)
        place.kill()
        place.wait(lambda: job.runs_in(2), "the second round runs")
        os.kill(job.processes(_vm(job, 0)).command[-1], signal.SIGKILL)
        place.wait(lambda: job.runs_in(3), "the third round runs")
        _finish(job)
        assert {vm.id for vm in job.vms if node_of(vm) != 1} == others
        assert sorted(node_of(vm) for vm in job.vms) == [0, 1, 1, 2]
        assert job.detail["job"]["preemptions"] == 1


def test_partial_grant_is_given_back_within_five_minutes(tmp_path: Path) -> None:
    """Three of four came: they go, and later all four come in one zone."""
    with gang_ground(tmp_path / "ground", SPEED) as place:
        short = place.world.faults.add("stockout", after=3)
        job = GangJob(place, "plain", 4, "job")
        job.launch(STEPS)
        place.wait(lambda: len(job.vms) == 3 and not job.up and all(vm.runs for vm in job.vms), "three are given back")
        given_back = list(job.vms)
        assert job.written == []
        place.world.faults.remove(short.id)
        _finish(job)
        for vm in given_back:
            assert sum((run.ended - run.began for run in vm.runs if run.ended), timedelta()) <= timedelta(minutes=5)
        rest = [vm for vm in job.vms if vm not in given_back]
        assert sorted(map(node_of, rest)) == [0, 1, 2, 3]
        assert len({vm.zone for vm in rest}) == 1


def test_gang_moves_as_a_whole_where_its_zone_is_full(tmp_path: Path) -> None:
    """The lost VM cannot be had there: the other one is given back, and both come elsewhere."""
    with gang_ground(tmp_path / "ground", SPEED) as place:
        job = _launched(place, 2)
        lost = _vm(job, 1)
        place.world.faults.add("stockout", zone=lost.zone)
        place.world.preempt(PROJECT, lost.name)
        place.wait(lambda: job.runs_in(2), "the second round runs")
        assert {vm.zone for vm in job.up} != {lost.zone}
        _finish(job)
        zones = [vm.zone for vm in job.vms]
        assert zones[0] == zones[1] == lost.zone
        assert zones[2] == zones[3] != lost.zone
        assert len(zones) == 4


def _launched(place: TrainingWorld, nodes: int) -> GangJob:
    """Returns a gang that has saved once, and waits before its last step."""
    job = GangJob(place, "plain", nodes, "job")
    job.launch(STEPS, "--last-after", str(job.home / "go"), "--patience", "90")
    place.wait(lambda: job.runs_in(1) and job.step >= 5, "the first round has saved")
    return job


def _vm(job: GangJob, node: int) -> VM:
    vm = job.vm_of(node)
    assert vm is not None
    return vm


def _finish(job: GangJob) -> None:
    """Lets it end, and judges what every gang must show."""
    (job.home / "go").touch()
    job.place.wait_for_state(job.id, "succeeded")
    job.place.wait_until_nothing_bills()
    wrong = [*judge.wrong_weights(job.finals, job.nodes, train_plain.undisturbed(job.nodes, STEPS))]
    wrong += [*judge.at_once(job.written), *judge.one_process_each(job.written, job.nodes), *money_wrong(job.place)[0]]
    assert wrong == []
