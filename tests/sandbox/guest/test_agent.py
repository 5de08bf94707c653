"""The real boot script and the real agent, in VMs that run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard, guard_at_a_port
from tests.sandbox.guest.served_vms import ServedVMs, served_vms
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, T4, ZONE, body

from costguard.jobs.act.attempts.boot import metadata_items
from costguard_sandbox.gce.vm import VM, Status

ATTEMPT = "nightly-7f3a-1"
TRAINS = """
import pathlib, signal, sys, time
checkpoint = pathlib.Path(sys.argv[1])
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
def save(*_):
    checkpoint.write_text(str(step))
    print("saved at", step)
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
print("begins at", step)
while step < 40 or len(sys.argv) > 2:
    step += 1
    print("step", step)
    time.sleep(0.01)
"""


@pytest.fixture
def guard() -> Iterator[FakeGuard]:
    with guard_at_a_port() as (guard, listener):
        listener.listen()
        yield guard


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[ServedVMs]:
    with served_vms(tmp_path) as made:
        yield made


def launch(
    cloud: ServedVMs, guard: FakeGuard, *command: str, more: dict[str, Any] | None = None, **settings: Any
) -> VM:
    """Launches as the guard launches an attempt."""
    order: dict[str, object] = {
        "attempt": ATTEMPT,
        "guard": guard.url,
        "command": command,
        "heartbeat_s": 0.1,
        "poll_s": 0.03,
        "retry_s": 0.02,
        "notice_grace_s": 15,
        **settings,
    }
    items = metadata_items(order, guard.token, with_drivers=False)
    metadata = {"items": [{"key": key, "value": value} for key, value in items.items()]}
    cloud.world.insert(PROJECT, ZONE, body("train", **{**SPOT, "metadata": metadata, **(more or {})}))
    cloud.world.advance(MINUTE)
    return cloud.world.instance(PROJECT, "train")


def test_an_attempt_runs_to_its_end(cloud: ServedVMs, guard: FakeGuard) -> None:
    """Boot script, agent and command from the metadata alone; the guard hears of the exit."""
    launch(cloud, guard, sys.executable, "-u", "-c", TRAINS, str(cloud.folder / "checkpoint"))
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["asked"], end["step"]) == ("exited", 0, None, 40)
    assert guard.kinds() == ["boot", "start", "exit"]


def test_a_preempted_attempt_saves_and_the_next_vm_goes_on_from_there(cloud: ServedVMs, guard: FakeGuard) -> None:
    """The exit is reported before the VM is TERMINATED, and nothing is left of it.

    Without a time of notice, the metadata and the SIGTERM race each other to the agent.
    """
    checkpoint = cloud.folder / "checkpoint"
    vm = launch(cloud, guard, sys.executable, "-u", "-c", TRAINS, str(checkpoint), "for-ever")
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > 3)
    cloud.world.preempt(PROJECT, "train")
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["was_killed"]) == ("exited", 3, False)
    assert end["asked"] in ("preemption", "shutdown")
    # The notice may come between two writes of the line before.
    assert end["output"][-1].endswith(f"saved at {checkpoint.read_text()}")
    cloud.wait_until_gone(vm)
    cloud.world.advance(MINUTE)
    assert vm.status is Status.TERMINATED
    assert cloud.processes(vm) == []

    cloud.world.delete(PROJECT, "train")
    cloud.world.advance(timedelta(minutes=5))
    with guard_at_a_port() as (second, listener):
        listener.listen()
        launch(cloud, second, sys.executable, "-u", "-c", TRAINS, str(checkpoint))
        end = second.wait_for("exit")
    assert end["code"] == 0
    assert checkpoint.read_text() != "0"


def test_a_stop_shuts_the_attempt_down(cloud: ServedVMs, guard: FakeGuard) -> None:
    """No notice in the metadata: the SIGTERM to the agent tells it, and the command may save."""
    checkpoint = cloud.folder / "checkpoint"
    vm = launch(cloud, guard, sys.executable, "-u", "-c", TRAINS, str(checkpoint), "for-ever")
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > 3)
    cloud.world.stop(PROJECT, "train")
    cloud.world.advance(timedelta(seconds=1))
    end = guard.wait_for("exit")
    assert (end["code"], end["asked"]) == (3, "shutdown")
    cloud.wait_until_gone(vm)


def test_an_attempt_in_an_image_on_a_gpu_uses_the_stand_ins(cloud: ServedVMs, guard: FakeGuard) -> None:
    """The VM has its GPU and a Docker, as far as the agent can see; the container has its own environment."""
    launch(
        cloud,
        guard,
        sys.executable,
        "-c",
        "import os; print(sorted(os.environ.keys() - {'PATH', 'HOME', 'HOSTNAME', 'LC_CTYPE'})); print('step 7')",
        image="europe-docker.pkg.dev/acme/train@sha256:" + "0" * 64,
        gpus=1,
        environment={"RATE": "0.1"},
        more={**T4, "scheduling": SPOT["scheduling"]},
    )
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["step"]) == ("exited", 0, 7)
    own = ["COSTGUARD_ATTEMPT", "COSTGUARD_GPUS", "COSTGUARD_NPROC", "COSTGUARD_RUN", "COSTGUARD_STEP_FILE"]
    ranks = ["MASTER_ADDR", "MASTER_PORT", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE"]
    assert end["output"][0] == str([*own, *ranks, "PYTHONUNBUFFERED", "RATE"])
    gpus = guard.wait_for("heartbeat", lambda event: bool((event["machine"] or {}).get("gpus")))["machine"]["gpus"]
    assert [(one["name"], one["utilisation"]) for one in gpus] == [("Tesla T4", None)]


def test_a_preempted_container_saves(cloud: ServedVMs, guard: FakeGuard) -> None:
    """The notice is reported; SIGTERM goes through docker to the command, and its exit code comes back."""
    checkpoint = cloud.folder / "checkpoint"
    vm = launch(cloud, guard, sys.executable, "-u", "-c", TRAINS, str(checkpoint), "for-ever", image="acme/train")
    guard.wait_for("heartbeat", lambda event: (event["step"] or 0) > 3)
    cloud.world.trigger_after_notice("preempt", PROJECT, "train", notice=2 * MINUTE)
    assert guard.wait_for("notice")["what"] == "preemption"
    end = guard.wait_for("exit")
    assert (end["code"], end["asked"], end["was_killed"]) == (3, "preemption", False)
    assert vm.status is Status.RUNNING
    cloud.world.advance(2 * MINUTE)
    cloud.wait_until_gone(vm)
