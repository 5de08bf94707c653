"""An agent that dies, a VM that restarts: the command runs once, and nothing that was reported is lost."""

from __future__ import annotations

import os
import signal

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import COUNTS, IGNORES
from tests.agent.vm import Vm, parent, wait_until_unlocked


def test_an_agent_that_was_killed_finds_its_command_again(vm: Vm, guard: FakeGuard) -> None:
    """The command does not notice, and the next agent reports its exit code."""
    vm.train(COUNTS)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["step"] == 1)
    vm.crash()
    vm.boot()
    guard.wait_for("boot", count=2)
    guard.wait_for("heartbeat", lambda event: event["seq"] > guard.wait_for("boot", count=2)["seq"])
    (vm.work / "go").touch()
    end = guard.wait_for("exit")
    assert (end["code"], end["output"]) == (0, ["step 1", "finished"])
    assert guard.kinds_once() == ["boot", "start", "boot", "exit"]
    assert (vm.work / "starts").read_text() == "started\n"


def test_an_exit_while_no_agent_lives_is_reported_by_the_next_one(vm: Vm, guard: FakeGuard) -> None:
    """The runner wrote it down."""
    vm.train(COUNTS)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["step"] == 1)
    vm.crash()
    (vm.work / "go").touch()
    wait_until_unlocked(vm.run_folders()[0] / "lock")
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert vm.finished() == 0


def test_an_agent_after_the_exit_starts_nothing(vm: Vm, guard: FakeGuard) -> None:
    """It tells that the VM is up, and ends."""
    vm.train("print('once')", resume=True)
    vm.boot()
    assert vm.finished() == 0
    vm.boot()
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "start", "exit", "boot"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_rebooted_vm_runs_the_command_again_only_where_resume_is_set(vm: Vm, guard: FakeGuard, resume: bool) -> None:
    """Otherwise it tells that the command was cut off. A second run has a number and a log of its own."""
    vm.train(COUNTS, resume=resume)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["step"] == 1)
    vm.reboot()
    vm.boot()
    if resume:
        guard.wait_for("start", lambda event: event["run"] == 2)
        (vm.work / "go").touch()
        end = guard.wait_for("exit")
        assert (end["run"], end["code"], end["step"]) == (2, 0, 2)
        assert vm.output(2) == "step 2\nfinished\n"
    else:
        end = guard.wait_for("exit")
        assert (end["run"], end["reason"], end["code"]) == (1, "cut_off", None)
    assert vm.finished() == 0
    assert (vm.work / "starts").read_text() == "started\n" * (2 if resume else 1)


def test_a_runner_that_was_killed_is_reported_as_cut_off(vm: Vm, guard: FakeGuard) -> None:
    """The rest of its command is ended, since nobody could tell how it went on."""
    vm.train(IGNORES)
    vm.boot()
    os.kill(parent(guard.wait_for("start")["pid"]), signal.SIGKILL)
    end = guard.wait_for("exit")
    assert end["reason"] == "cut_off"
    assert "was ended" in end["error"]
    assert vm.finished() == 0


def test_a_cancelled_run_is_not_begun_again(vm: Vm, guard: FakeGuard) -> None:
    """A reboot in the middle of its grace begins no run either."""
    vm.train(IGNORES, resume=True)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["ready"])
    guard.is_to_cancel = True
    guard.wait_for("stopping")
    vm.reboot()
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["run"], end["reason"], end["asked"]) == (1, "cut_off", "cancel")


def test_a_restarted_agent_does_not_signal_twice(vm: Vm, guard: FakeGuard) -> None:
    """A second SIGTERM could break the saving that the first one began; the kill after the grace still comes."""
    vm.train(IGNORES, notice_grace_s=3)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["ready"])
    vm.metadata.set("instance/preempted", "TRUE")
    guard.wait_for("stopping")
    vm.crash()
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["output"], end["was_killed"], end["asked"]) == (["ready", "not yet"], True, "preemption")


def test_two_agents_are_never_at_work(vm: Vm, guard: FakeGuard) -> None:
    """The boot script may be started by hand."""
    vm.train(COUNTS)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["step"] == 1)
    vm.boot()
    assert vm.finished() == 0
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert guard.kinds() == ["boot", "start", "exit"]
