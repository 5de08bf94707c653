"""Preemption drills, really held: the agent, and trainings whose faults are planted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.drilled import FIRST_SAVE, TRAINER
from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.s3_server import rclone_path
from tests.agent.vm import ATTEMPT, Vm, wait_until_unlocked

ENDLESS = 1000.0
# Generous where a save must be in time; a grace of nothing where it cannot be.
TIMELY: dict[str, Any] = {"notice_grace_s": 60.0, "drill_patience_s": 80.0}
LATE: dict[str, Any] = {"notice_grace_s": 0.1, "drill_patience_s": 80.0}
STUCK: dict[str, Any] = {"notice_grace_s": 0.5, "drill_patience_s": 2.0}


def _train(vm: Vm, fault: str, **more: Any) -> None:
    saved = str(vm.folder / "saved")
    checkpoint = {"location": saved, "framework": "marker", "marker": "DONE", **more.pop("checkpoint", {})}
    vm.train(
        TRAINER,
        checkpoint=checkpoint,
        resume_arguments=["--from", "{checkpoint}"],
        environment={"FAULT": fault, "SAVED": saved, **more.pop("environment", {})},
        look_s=0.1,
        **{"drill_stake_s": ENDLESS, "drill_settle_s": ENDLESS, **TIMELY, **more},
    )


def _drilled(vm: Vm, guard: FakeGuard) -> Event:
    """Drills once it has saved, or would have."""
    vm.boot()
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > FIRST_SAVE)
    guard.drill = 1
    return guard.wait_for("drill", lambda event: event["phase"] == "over")


FAULTS = {
    "none": (TIMELY, "saved", "yes"),
    "exits with a code": (TIMELY, "saved", "yes"),
    "never saves": (TIMELY, "never", ""),
    "exits at once": (TIMELY, "never", "yes"),
    "saves too late": (LATE, "too_late", "yes"),
    "tears its checkpoint": (TIMELY, "torn", "yes"),
    "one rank deadlocks": (STUCK, "torn", "yes"),
    "ignores the notice": (STUCK, "never", "yes"),
    "saves elsewhere": (TIMELY, "never", "yes"),
    "saves an old state": (TIMELY, "old", "yes"),
    "crashes on resume": (TIMELY, "saved", "no"),
    "resumes from zero": (TIMELY, "saved", "no"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_reported_right(vm: Vm, guard: FakeGuard, fault: str) -> None:
    """The drill reports the save on the notice, and whether it goes on; and the training runs on after each."""
    more, result, resumed = FAULTS[fault]
    _train(vm, fault, **more)
    over = _drilled(vm, guard)
    assert (over["result"], over.get("resumed", "")) == (result, resumed), over
    last = len(guard.events)
    guard.wait_for("heartbeat", lambda event: event["seq"] > last and event["step"] is not None)
    assert "exit" not in guard.kinds()
    assert {event["run"] for event in guard.events} == {1}


@pytest.fixture
def bucket(vm: Vm) -> Path:
    """A folder that stands for a bucket; the real rclone copies to it."""
    (vm.tools / "rclone").symlink_to(rclone_path())
    folder = vm.folder / "bucket"
    folder.mkdir()
    return folder


# Copies nothing, for as long as its agent lives.
STUCK_COPY = """
import os, sys, time
parent = os.getppid()
while "copy" in sys.argv and os.getppid() == parent:
    time.sleep(0.05)
os.execv(REAL, ["rclone", *sys.argv[1:]])
"""


def _travels(vm: Vm, bucket: Path, fault: str, **more: Any) -> None:
    checkpoint = {"location": f"file://{bucket}", "local": str(vm.folder / "saved"), "keep": "3"}
    _train(vm, fault, checkpoint=checkpoint, **more)


def test_a_save_that_travels_is_timed_to_the_end_of_its_upload(vm: Vm, guard: FakeGuard, bucket: Path) -> None:
    """It lies complete in the bucket, and the command goes on from the copy on its disk."""
    _travels(vm, bucket, "none")
    over = _drilled(vm, guard)
    assert (over["result"], over["resumed"]) == ("saved", "yes")
    assert over["uploaded_s"] >= over["saved_s"]
    assert (bucket / over["name"] / "DONE").exists()
    assert f"step {over['saved_step']}\n" not in vm.output(2)
    assert vm.output(2).startswith(f"step {over['saved_step'] + 1}\n")


def test_a_save_that_is_uploaded_in_part_is_too_late(vm: Vm, guard: FakeGuard, bucket: Path) -> None:
    """It is complete on the disk in time, and its bucket takes the weights of no checkpoint but the first."""
    _travels(vm, bucket, "none", drill_patience_s=4.0)
    vm.boot()
    guard.wait_for("saved")
    real = rclone_path()
    (vm.tools / "rclone").unlink()
    vm.tool("rclone", STUCK_COPY.replace("REAL", repr(str(real))))
    guard.drill = 1
    over = guard.wait_for("drill", lambda event: event["phase"] == "over")
    assert (over["result"], over["resumed"]) == ("too_late", "yes")
    assert "uploaded_s" not in over


def test_what_the_command_itself_writes_to_a_bucket_is_judged_there(vm: Vm, guard: FakeGuard, bucket: Path) -> None:
    """It resumes with the arguments for what lies there, and not with those that it was launched with."""
    stored = {"location": f"file://{bucket}", "framework": "marker", "marker": "DONE"}
    vm.order(
        *(sys.executable, "-u", "-c", TRAINER),
        "--from",
        f"file://{bucket}/step-3",
        stored_checkpoint=stored,
        plain_command=[sys.executable, "-u", "-c", TRAINER],
        resume_arguments=["--from", "{checkpoint}"],
        environment={"FAULT": "none", "SAVED": str(bucket)},
        drill_stake_s=ENDLESS,
        drill_settle_s=ENDLESS,
        look_s=0.1,
        **TIMELY,
    )
    over = _drilled(vm, guard)
    assert (over["result"], over["resumed"]) == ("saved", "yes")
    assert vm.output(2).startswith(f"step {over['saved_step'] + 1}\n")
    (resumed,) = vm.folder.glob("**/runs/2/resumed.json")
    path = json.loads(resumed.read_text())["resume_from"]
    assert path == f"{bucket}/step-{over['saved_step']}", "as the guard names it, and the command's own argument"


@pytest.mark.parametrize("phase", ["waiting", "stopping", "resuming"])
def test_an_agent_that_is_killed_goes_on_with_the_drill(vm: Vm, guard: FakeGuard, phase: str) -> None:
    """The drill goes on from where it stood, with one end reported, and the training goes on."""
    _train(vm, "waits for the word")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > FIRST_SAVE)
    guard.drill = 1
    guard.wait_for("drill")
    if phase == "resuming":
        (vm.folder / "saved/word").touch()
    guard.wait_for("drill", lambda event: event["phase"] == phase)
    vm.crash()
    vm.boot()
    (vm.folder / "saved/word").touch()
    over = guard.wait_for("drill", lambda event: event["phase"] == "over")
    assert (over["result"], over["resumed"]) == ("saved", "yes")
    vm.crash()
    vm.boot()
    last = len(guard.events)
    guard.wait_for("heartbeat", lambda event: event["seq"] > last and (event["step"] or 0) > over["saved_step"])
    assert len({event["number"] for event in guard.events if event["kind"] == "drill"}) == 1
    assert "exit" not in guard.kinds()


def test_an_agent_that_is_killed_as_it_gives_the_notice_takes_its_effect_for_no_success(
    vm: Vm, guard: FakeGuard
) -> None:
    """The sending of the notice is not on the disk: an end with code 0 after that moment is the drill's."""
    _train(vm, "waits for the word")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > FIRST_SAVE)
    guard.drill = 1
    guard.wait_for("drill", lambda event: event["phase"] == "stopping")
    vm.crash()
    path = vm.home / "attempts" / ATTEMPT / "state.json"
    state = json.loads(path.read_text())
    state["drill"].pop("is_signalled", None)
    path.write_text(json.dumps(state))
    (vm.folder / "saved/word").touch()
    wait_until_unlocked(vm.run_folders()[0] / "lock")
    vm.boot()
    over = guard.wait_for("drill", lambda event: event["phase"] == "over")
    assert (over["result"], over["resumed"]) == ("saved", "yes")
    assert "exit" not in guard.kinds()


def test_a_preemption_during_a_drill_is_a_preemption(vm: Vm, guard: FakeGuard) -> None:
    """The drill is interrupted; the command gets no second SIGTERM, and its end is the preemption's."""
    _train(vm, "waits for the word")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > FIRST_SAVE)
    guard.drill = 1
    guard.wait_for("drill", lambda event: event["phase"] == "stopping")
    vm.metadata.set("instance/preempted", "TRUE")
    guard.wait_for("stopping")
    (vm.folder / "saved/word").touch()
    end = guard.wait_for("exit")
    assert (end["asked"], end["code"]) == ("preemption", 0)
    assert guard.wait_for("drill", lambda event: event["phase"] == "over")["result"] == "interrupted"
    assert "twice" not in vm.output()


def test_a_cancelled_job_is_not_started_again_by_its_drill(vm: Vm, guard: FakeGuard) -> None:
    """The job stays cancelled even where the command has its notice already."""
    _train(vm, "waits for the word")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > FIRST_SAVE)
    guard.drill = 1
    guard.wait_for("drill", lambda event: event["phase"] == "stopping")
    guard.is_to_cancel = True
    guard.wait_for("stopping")
    (vm.folder / "saved/word").touch()
    assert guard.wait_for("exit")["asked"] == "cancel"
    assert len(vm.run_folders()) == 1


def test_a_drill_waits_while_much_is_at_stake(vm: Vm, guard: FakeGuard) -> None:
    """A drill waits while the work since the newest complete checkpoint is more than the drill may cost."""
    _train(vm, "none", drill_stake_s=0.0)
    vm.boot()
    guard.drill = 1
    waiting = guard.wait_for("drill")
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > 2 * FIRST_SAVE)
    assert [event for event in guard.events if event["kind"] == "drill"] == [waiting]


def test_the_end_of_a_drill_is_reported_again_where_the_guard_asks_again(vm: Vm, guard: FakeGuard) -> None:
    """An older database was restored there; the drill is not held twice."""
    _train(vm, "none")
    over = _drilled(vm, guard)
    vm.crash()
    vm.boot()
    again = guard.wait_for("drill", lambda event: event["phase"] == "over" and event["seq"] > over["seq"])
    assert {**again, "seq": 0, "at": ""} == {**over, "seq": 0, "at": ""}
    assert len(vm.run_folders()) == 2
