"""The guard's process is killed again and again: no VM is made twice, none is left, and the job succeeds."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.training_ground import OWNER, PROJECT, TrainingWorld, ground, uninterrupted

from costguard_sandbox.gce.vm import Status

STEPS, EVERY = 160, 20
OPTIONS = ("--steps", str(STEPS), "--every", str(EVERY))
SLOWLY = ("--step-seconds", "0.04")  # so that a command is preempted in the middle
_HELD_S = 2.0  # how long an answer is held back: longer than it takes to notice and to kill


def test_a_guard_that_is_killed_at_every_turn_of_a_job(tmp_path: Path) -> None:
    """Thirteen times: around each call to Google, each word of an agent, and at random; nothing happens twice."""
    with ground(tmp_path) as place:
        pauses = random.Random(5)
        _lose(place, "POST", "before")
        job = place.launch(*OPTIONS, *SLOWLY, "--last-after", str(tmp_path / "go"))
        place.kill()
        _when_lost(place)
        _lose(place, "POST", "after")
        _when_lost(place)
        place.wait(lambda: place.up[0].status is Status.RUNNING, "the VM runs")
        place.kill()
        place.wait(lambda: _last(place, job)["state"] == "running", "its agent was heard")
        place.kill()
        place.wait((place.step(EVERY) / "DONE").exists, "a checkpoint is saved")
        place.kill()
        _lose(place, "POST", "after")
        place.preempt()
        place.kill()
        _when_lost(place)
        _pause(pauses)
        place.kill()
        _until_running(place, job, 2)
        place.preempt()
        _pause(pauses)
        place.kill()
        _until_running(place, job, 3)
        _lose(place, "DELETE", "after")
        (tmp_path / "go").touch()
        place.wait(place.result.exists, "the command is finished")
        place.kill()
        place.wait(lambda: _last(place, job)["exit"] is not None, "the agent told so")
        place.kill()
        _when_lost(place)
        _pause(pauses)
        place.kill()
        finished = place.wait_for_state(job, "succeeded")
        place.wait_until_nothing_bills()
        _each_vm_once(place, job)
    assert place.result.read_text() == uninterrupted(tmp_path, *OPTIONS)
    assert [one["outcome"] for one in finished["attempts"]] == ["preempted", "preempted", "succeeded"]
    assert [(one["attempt"], one["outcome"]) for one in finished["interruptions"]] == [
        (1, "preempted"),
        (2, "preempted"),
    ]
    assert (finished["job"]["preemptions"], finished["job"]["crashes"]) == (2, 0)


@pytest.mark.long
def test_one_of_two_jobs_is_cancelled_between_kills(tmp_path: Path) -> None:
    """The command gets its notice and saves; the other one, preempted meanwhile, goes on as if alone.

    A VM has longer to end than the next guard takes to begin on a busy machine: before that, no guard hears how the
    command left.
    """
    with ground(tmp_path, grace_s=25) as place:
        _lose(place, "POST", "after")
        left = place.launch("--steps", "5000", "--every", str(EVERY), key="left", home="left")
        options = (*OPTIONS, *SLOWLY, "--last-after", str(tmp_path / "go"))
        kept = place.launch(*options, key="kept", home="kept")
        _when_lost(place)
        place.wait((place.step(EVERY, "kept") / "DONE").exists, "the one to be preempted has saved")
        place.world.preempt(PROJECT, _last(place, kept)["name"])
        place.kill()
        place.wait((place.step(EVERY, "left") / "DONE").exists, "the one to be cancelled has saved")
        place.ask(f"jobs/{left}/cancel", {"by": OWNER, "reason": "not needed"})
        place.kill()
        place.wait(lambda: _last(place, left)["exit"] is not None, "the cancelled command has left")
        place.kill()
        cancelled = place.wait_for_state(left, "cancelled")
        output = place.ask(f"jobs/{left}/output")["output"]
        place.wait(lambda: _last(place, kept)["number"] == 2, "the other job has its second VM")
        (tmp_path / "go").touch()
        place.wait((tmp_path / "kept" / "result.json").exists, "the other command is finished")
        place.kill()
        finished = place.wait_for_state(kept, "succeeded")
        place.wait_until_nothing_bills()
        _each_vm_once(place, kept, left)
    assert (tmp_path / "kept" / "result.json").read_text() == uninterrupted(tmp_path, *OPTIONS)
    assert [one["outcome"] for one in finished["attempts"]] == ["preempted", "succeeded"]
    assert [one["outcome"] for one in cancelled["attempts"]] == ["cancelled"]
    assert output.rstrip().endswith("and stopped on request"), output
    assert not (tmp_path / "left" / "result.json").exists()


def _lose(place: TrainingWorld, method: str, when: str) -> None:
    """The next insert (POST) or delete gets no answer: it took effect, or never did."""
    path = r"/instances$" if method == "POST" else r"/instances/[^/]+$"
    how = {"method": method, "path": path, "when": when, "how": "silence", "seconds": _HELD_S, "count": 1}
    place.world.faults.add("lost_answer", **how)


def _when_lost(place: TrainingWorld) -> None:
    """The guard is killed while it waits for the answer that does not come."""
    place.wait(lambda: not place.world.faults.listed(), "the call reached Google")
    place.kill()


def _last(place: TrainingWorld, job: str) -> Mapping[str, Any]:
    """The job's last attempt; nothing of it is known before there is one."""
    attempts = place.ask(f"jobs/{job}/attempts")["attempts"]
    return attempts[-1] if attempts else {"number": 0, "state": "", "exit": None}


def _until_running(place: TrainingWorld, job: str, number: int) -> None:
    def runs() -> bool:
        last = _last(place, job)
        return bool(last["number"] == number and last["state"] == "running")

    place.wait(runs, f"attempt {number} runs")


def _pause(pauses: random.Random) -> None:
    """Pauses for a moment that means nothing: whatever the guard does then is cut short."""
    threading.Event().wait(pauses.uniform(0, 1.5))


def _each_vm_once(place: TrainingWorld, *jobs: str) -> None:
    """Every VM there ever was is one attempt's own, and every attempt is over."""
    tried = [one for job in jobs for one in place.ask(f"jobs/{job}/attempts")["attempts"]]
    assert sorted(vm.name for vm in place.vms) == sorted(one["name"] for one in tried)
    assert {str(vm.id) for vm in place.vms} == {one["gce_id"] for one in tried}
    place.wait(
        lambda: {one["state"] for job in jobs for one in place.ask(f"jobs/{job}/attempts")["attempts"]} == {"over"},
        "the guard knows that all VMs are gone",
    )
