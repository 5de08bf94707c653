"""Checkpoints on the VM's own disk: the agent judges them, and the next run resumes from the newest complete one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import Vm

from costguard_vm.agent.checkpoints import DiskCheckpoints, failed_runs, on_the_vm
from costguard_vm.agent.settings import AttemptSettings

# Saves the checkpoints that its environment names, says how it was called, and fails.
FAILS = """
import os, pathlib, sys
print(sys.argv[1:])
for name in os.environ["SAVES"].split():
    place = pathlib.Path(os.environ["SAVED"]) / name.rstrip("!")
    place.mkdir(parents=True, exist_ok=True)
    (place / "weights").write_text("1")
    if not name.endswith("!"):
        (place / "DONE").touch()
sys.exit(int(os.environ.get("CODE", "3")))
"""


def _train(vm: Vm, saves: str, script: str = FAILS, **environment: str) -> None:
    saved = str(vm.folder / "saved")
    vm.train(
        script,
        resume=True,
        checkpoint={"location": saved, "framework": "marker", "pattern": "step-{step}/", "marker": "DONE"},
        resume_arguments=["--from", "{checkpoint}", "--at={step}"],
        environment={"SAVES": saves, "SAVED": saved, **environment},
    )


def _fails_and_is_started_again(vm: Vm, guard: FakeGuard) -> dict[str, Any]:
    vm.boot()
    assert vm.finished() == 0
    vm.restart()
    return guard.wait_for("exit", lambda event: event["run"] == 2)


def test_a_failed_command_runs_again_from_the_newest_complete_checkpoint(vm: Vm, guard: FakeGuard) -> None:
    """The torn one after it is passed over: what the command is given was judged, not guessed."""
    _train(vm, "step-10 step-20 step-30!")
    end = _fails_and_is_started_again(vm, guard)
    best = str(vm.folder / "saved/step-20")
    assert (end["code"], end["output"]) == (3, [f"['--from', '{best}', '--at=20']"])


def test_a_checkpoint_that_a_run_failed_with_at_once_is_passed_over(vm: Vm, guard: FakeGuard) -> None:
    """Complete as it looks, it may not load: the third run tries the one before, and says why."""
    _train(vm, "step-10 step-20", FAILS.replace("for name in", "for name in [] if sys.argv[1:] else"))
    _fails_and_is_started_again(vm, guard)
    vm.restart()
    guard.wait_for("exit", lambda event: event["run"] == 3)
    vm.restart()
    guard.wait_for("exit", lambda event: event["run"] == 4)
    starts = [event["checkpoint"] for event in guard.events if event["kind"] == "start" and event["run"] > 1]
    folder = vm.folder / "saved"
    assert [one["step"] for one in starts] == [20, 10, 20]
    newest = f"run 2 failed at once after it resumed from step 20, {folder}/step-20"
    assert starts[0]["why"] == ""
    assert starts[1]["why"] == f"{newest}: the complete checkpoint before it is tried"
    assert starts[2]["why"] == f"{newest}, and no other is complete: it is tried once more"


def test_a_run_that_was_stopped_makes_no_checkpoint_a_suspect(tmp_path: Path) -> None:
    """A checkpoint is no suspect either if the run came further, was cut off by Google, ran for long, or is not
    known.
    """
    checkpoint = {"resume_from": "/ckpt/step-20", "step": 20, "looked_at": "2026-11-20T12:00:00.000+00:00"}
    crash = {"reason": "exited", "code": 1, "started_at": "2026-11-20T12:00:01.000+00:00", "step": None}
    soon, late = "2026-11-20T12:01:00.000+00:00", "2026-11-20T12:30:00.000+00:00"

    def is_suspect(**ended: Any) -> bool:
        (tmp_path / "2").mkdir(exist_ok=True)
        (tmp_path / "2/resumed.json").write_text(json.dumps(checkpoint))
        (tmp_path / "2/ended.json").write_text(json.dumps({**crash, "ended_at": soon, **ended}))
        return bool(failed_runs(str(tmp_path), 3, 600.0))

    assert is_suspect()
    assert is_suspect(step=20, ended_at=late)
    assert not is_suspect(ended_at=late)
    assert not is_suspect(step=21)
    assert not is_suspect(asked="preemption")
    assert not is_suspect(reason="cut_off", code=None)
    assert not is_suspect(code=0)
    (tmp_path / "2/ended.json").unlink()
    assert failed_runs(str(tmp_path), 3, 600.0) == ()


def test_what_a_run_resumes_from_is_reported_with_its_start(vm: Vm, guard: FakeGuard) -> None:
    """The guard can say what the interruption cost."""
    _train(vm, "step-10 step-20!")
    _fails_and_is_started_again(vm, guard)
    first, second = (event for event in guard.events if event["kind"] == "start")
    assert "checkpoint" not in first
    assert second["checkpoint"]["resume_from"] == str(vm.folder / "saved/step-10")
    assert second["checkpoint"]["step"] == 10
    assert second["checkpoint"]["torn"] == ["step-20: DONE is missing."]


def test_without_a_complete_checkpoint_the_plain_command_runs(vm: Vm, guard: FakeGuard) -> None:
    """A torn one is none."""
    _train(vm, "step-10!")
    end = _fails_and_is_started_again(vm, guard)
    assert end["output"] == ["[]"]


def test_the_exit_reports_what_lies_on_the_disk(vm: Vm, guard: FakeGuard) -> None:
    """The exit has also the number of files: a disk on which nothing was saved need not be kept."""
    _train(vm, "step-10 step-20")
    vm.boot()
    seen = guard.wait_for("exit")["checkpoint"]
    assert (seen["step"], seen["files"], seen["error"]) == (20, 4, "")
    assert seen["written_at"] is not None


def test_an_empty_disk_is_reported_as_empty(vm: Vm, guard: FakeGuard) -> None:
    """Nothing was saved, and the folder is not even there."""
    _train(vm, "")
    vm.boot()
    seen = guard.wait_for("exit")["checkpoint"]
    assert (seen["resume_from"], seen["files"], seen["error"]) == ("", 0, "")


def test_a_disk_that_cannot_be_read_is_not_an_empty_one(vm: Vm, guard: FakeGuard) -> None:
    """The command does not begin again from the beginning: days of work may lie there."""
    _train(vm, "")
    (vm.folder / "saved").symlink_to(vm.folder / "saved")  # ELOOP
    vm.train("import sys; sys.exit(3)", **_settings(vm))
    vm.boot()
    assert vm.finished() == 0
    vm.restart()
    end = guard.wait_for("exit", lambda event: event["run"] == 2)
    assert end["reason"] == "not_started"
    assert "cannot be looked at" in end["error"]


def test_a_running_command_is_looked_at(vm: Vm, guard: FakeGuard) -> None:
    """Heartbeats bring the newest complete checkpoint, so that it is known what a preemption would cost."""
    waits = FAILS.replace("sys.exit", f"{WAIT}\nwait('go')\nsys.exit")
    vm.train(waits, look_s=0.05, **_settings(vm), environment={"SAVES": "step-40", "SAVED": str(vm.folder / "saved")})
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event.get("checkpoint", {}).get("step") == 40)
    (vm.work / "go").touch()
    guard.wait_for("exit")


def test_a_command_that_succeeded_does_not_run_again(vm: Vm, guard: FakeGuard) -> None:
    """The VM is started later for another purpose."""
    _train(vm, "step-10", CODE="0")
    vm.boot()
    assert vm.finished() == 0
    vm.restart()
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "start", "exit", "boot"]


def test_a_run_is_not_begun_against_the_guards_word(vm: Vm, guard: FakeGuard) -> None:
    """A VM whose job is over was started to fetch what is on its disk: nothing may write there."""
    _train(vm, "step-10")
    vm.boot()
    assert vm.finished() == 0
    guard.is_to_cancel = True
    vm.restart()
    end = guard.wait_for("exit", lambda event: event["run"] == 2)
    assert (end["reason"], end["asked"]) == ("not_started", "cancel")
    assert not [event for event in guard.events if event["kind"] == "start" and event["run"] == 2]


def test_a_crashed_agent_begins_no_second_run(vm: Vm, guard: FakeGuard) -> None:
    """A second run begins only on a VM that was started again; within one boot a run that ended has ended."""
    _train(vm, "step-10")
    vm.boot()
    guard.wait_for("exit")
    vm.boot()
    assert vm.finished() == 0
    assert not [event for event in guard.events if event["run"] == 2]


@pytest.mark.parametrize(
    ("mounts", "path"),
    [
        (["/var/ckpt:/saved"], "/vm/var/ckpt/run-1"),
        (["/data:/", "/var/ckpt:/saved:rw"], "/vm/var/ckpt/run-1"),
        (["/var/ckpt:/saved/run-1"], "/vm/var/ckpt"),
        (["/var/ckpt:/save"], "/saved/run-1"),
    ],
)
def test_in_an_image_the_folder_is_where_it_is_mounted_from(mounts: list[str], path: str) -> None:
    """Docker's rule: the innermost mount holds a path."""
    settings = AttemptSettings(image="acme/train:1", mounts=mounts)
    assert on_the_vm(settings, "/saved/run-1", "/vm").rstrip("/") == path


def test_a_framework_that_this_agent_does_not_know_is_an_error(tmp_path: Path) -> None:
    """A newer guard may know more layouts: that is not an empty disk either."""
    saved = DiskCheckpoints(AttemptSettings(checkpoint={"location": str(tmp_path), "framework": "of-tomorrow"}))
    assert "of-tomorrow" in saved.look()["error"]
    json.dumps(saved.look())


def _settings(vm: Vm) -> dict[str, Any]:
    return {
        "resume": True,
        "checkpoint": {"location": str(vm.folder / "saved"), "framework": "marker", "marker": "DONE"},
        "resume_arguments": ["--from", "{checkpoint}"],
    }
