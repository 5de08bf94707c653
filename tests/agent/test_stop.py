"""Ends that were asked for: a preemption, maintenance, a cancel, a machine that goes down."""

from __future__ import annotations

import os
import signal

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import IGNORES, SAVES, WAIT
from tests.agent.vm import Vm, parent


def start(vm: Vm, guard: FakeGuard, script: str, ready: str, **more: object) -> None:
    vm.train(script, **more)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == [ready])


def test_a_preempted_command_saves_and_its_end_is_reported(vm: Vm, guard: FakeGuard) -> None:
    """The guard hears of the notice at once; the command gets SIGTERM and its time; the exit says why it was asked."""
    start(vm, guard, SAVES, "step 7")
    vm.metadata.set("instance/preempted", "TRUE")
    assert guard.wait_for("notice")["what"] == "preemption"
    guard.wait_for("heartbeat", lambda event: "saving" in event["output"])
    assert "exit" not in guard.kinds()
    (vm.work / "may-save").touch()
    end = guard.wait_for("exit")
    assert (end["code"], end["signal"], end["asked"], end["was_killed"]) == (3, None, "preemption", False)
    assert (vm.work / "checkpoint").read_text() == "step 7"
    assert guard.kinds() == ["boot", "start", "notice", "stopping", "exit"]
    assert vm.finished() == 0


@pytest.mark.parametrize(
    ("value", "ends"), [("TERMINATE_ON_HOST_MAINTENANCE", True), ("MIGRATE_ON_HOST_MAINTENANCE", False)]
)
def test_maintenance_stops_the_command_only_where_it_ends_the_vm(
    vm: Vm, guard: FakeGuard, value: str, ends: bool
) -> None:
    """A migration is reported and disturbs nothing."""
    start(vm, guard, f"{WAIT}\nprint('ready')\nwait('go')", "ready")
    vm.metadata.set("instance/maintenance-event", value)
    assert guard.wait_for("notice")["value"] == value
    if not ends:
        (vm.work / "go").touch()
    end = guard.wait_for("exit")
    assert (end["code"], end["signal"], end["asked"]) == ((None, 15, "maintenance") if ends else (0, None, None))


def test_a_cancel_is_the_guards_answer_to_a_heartbeat(vm: Vm, guard: FakeGuard) -> None:
    """The command may save; however often the guard repeats itself, there is one SIGTERM."""
    start(vm, guard, SAVES, "step 7")
    guard.is_to_cancel = True
    assert guard.wait_for("stopping")["why"] == "cancel"
    guard.wait_for_requests(5)
    (vm.work / "may-save").touch()
    end = guard.wait_for("exit")
    assert (end["code"], end["asked"]) == (3, "cancel")
    assert end["output"] == ["step 7", "saving"]


def test_a_command_that_ignores_sigterm_is_killed_after_its_grace(vm: Vm, guard: FakeGuard) -> None:
    """The exit says so."""
    start(vm, guard, IGNORES, "ready", cancel_grace_s=3)
    guard.is_to_cancel = True
    end = guard.wait_for("exit")
    assert (end["signal"], end["was_killed"], end["output"]) == (9, True, ["ready", "not yet"])


def test_a_preemption_shortens_the_grace_of_a_cancel(vm: Vm, guard: FakeGuard) -> None:
    """No second SIGTERM, but not more time than the machine has either. The first reason is the one that counts."""
    start(vm, guard, IGNORES, "ready", cancel_grace_s=600, notice_grace_s=3)
    guard.is_to_cancel = True
    guard.wait_for("stopping")
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert (end["asked"], end["was_killed"], end["output"]) == ("cancel", True, ["ready", "not yet"])


def test_a_vm_that_goes_down_gives_the_command_its_notice(vm: Vm, guard: FakeGuard) -> None:
    """systemd's SIGTERM to the agent is passed on, and the exit is reported before the agent ends."""
    start(vm, guard, SAVES, "step 7")
    vm.agents[-1].send_signal(signal.SIGTERM)
    assert guard.wait_for("stopping")["why"] == "shutdown"
    (vm.work / "may-save").touch()
    assert guard.wait_for("exit")["asked"] == "shutdown"
    assert vm.finished() == 0


def test_a_shutdown_that_signals_every_process_at_once_is_no_cut_off(vm: Vm, guard: FakeGuard) -> None:
    """The runner outlives its SIGTERM without systemd too, and sees how the command ends, which has its own."""
    start(vm, guard, SAVES, "step 7")
    command = guard.wait_for("start")["pid"]
    for process in (parent(command), command, vm.agents[-1].pid):
        os.kill(process, signal.SIGTERM)
    guard.wait_for("stopping")
    guard.wait_for("heartbeat", lambda event: "saving" in event["output"])
    (vm.work / "may-save").touch()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["asked"]) == ("exited", 3, "shutdown")
    assert vm.finished() == 0


def test_a_shell_that_dies_at_once_does_not_take_the_saving_child_along(vm: Vm, guard: FakeGuard) -> None:
    """The whole group gets the SIGTERM, and processes that still hold the output are waited for."""
    vm.work.mkdir()
    (vm.work / "train.py").write_text(SAVES)
    vm.order("sh", "-c", "/usr/bin/env python3 -u train.py; echo the shell goes on")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["step 7"])
    vm.metadata.set("instance/preempted", "TRUE")
    guard.wait_for("heartbeat", lambda event: "saving" in event["output"])
    (vm.work / "may-save").touch()
    end = guard.wait_for("exit")
    assert end["signal"] == 15
    assert (vm.work / "checkpoint").exists()


def test_a_preemption_before_the_start_starts_nothing(vm: Vm, guard: FakeGuard) -> None:
    """Here while the drivers of the GPU are still being installed."""
    vm.tool("nvidia-smi", "raise SystemExit(9)")
    vm.order("touch", "started", gpus=1)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: not event["is_running"])
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert (end["reason"], end["asked"]) == ("not_started", "preemption")
    assert not (vm.work / "started").exists()


@pytest.mark.parametrize("notice_s", [0, 600])
def test_notice_before_the_shutdown_gives_the_command_that_much_more(vm: Vm, guard: FakeGuard, notice_s: int) -> None:
    """A save that takes longer than the last seconds of a VM comes to its end within a notice, and not without."""
    start(vm, guard, SAVES, "step 7", notice_s=notice_s, notice_grace_s=0.1)
    vm.metadata.set("instance/preempted", "TRUE")
    assert guard.wait_for("stopping")["grace_s"] == notice_s + 0.1
    if notice_s:
        guard.wait_for("heartbeat", lambda event: "saving" in event["output"])
        (vm.work / "may-save").touch()
    end = guard.wait_for("exit")
    assert (end["was_killed"], (vm.work / "checkpoint").exists()) == (not notice_s, bool(notice_s))


def test_shutdown_within_a_notice_leaves_the_last_seconds(vm: Vm, guard: FakeGuard) -> None:
    """The soft-off comes at the end of the notice; whatever the agent thought, seconds are left then."""
    start(vm, guard, IGNORES, "ready", notice_s=600, notice_grace_s=0.5)
    vm.metadata.set("instance/preempted", "TRUE")
    guard.wait_for("stopping")
    vm.agents[-1].send_signal(signal.SIGTERM)
    end = guard.wait_for("exit")
    assert (end["asked"], end["was_killed"]) == ("preemption", True)
