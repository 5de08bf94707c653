"""The real agent as a process reports each minute what bounds a command, on a minute of half a second."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.vm import Vm
from tests.waiting import until

from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard_vm.agent.events import Spool
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.tool import ToolFinder
from costguard_vm.agent.watch.activity import ActivityWatch
from costguard_vm.agent.watch.gpu_watch import GpuWatch
from costguard_vm.agent.watch.profile_watch import ProfileWatch
from costguard_vm.agent.watch.stack_watch import StackWatch
from costguard_vm.diagnosis.signals import CommandSignals, Minute, read_minute

COMPUTES = "print('begun', flush=True)\nwhile True: pass"
QUICK = {"activity_s": 0.5, "activity_look_s": 0.05}


def minute_of(event: Event) -> Minute:
    minute = read_minute(event["minute"])
    assert minute is not None
    return minute


def test_signals_of_the_command_arrive(vm: Vm, guard: FakeGuard) -> None:
    """A loop in Python is seen as one: its main thread computes, and nothing else does."""
    vm.train(COMPUTES, **QUICK)
    vm.boot()

    def computes(event: Event) -> bool:
        command = minute_of(event).command
        return command is not None and (command.main_cpu or 0) + (command.main_queue or 0) > 0.5

    minute = minute_of(guard.wait_for("activity", computes))

    assert minute.command is not None
    assert minute.command.workers == 0
    assert minute.gpus == ()
    assert minute.host is not None
    assert minute.host.cpus is not None
    assert minute.agent_cpu is not None
    assert minute.agent_memory_bytes is not None


def test_nothing_is_reported_before_and_after_the_command(vm: Vm, guard: FakeGuard) -> None:
    """The agent's own work before and after a command bounds no training."""
    vm.train("print('done')", setup="sleep 0.3", **QUICK)
    vm.boot()
    vm.finished()

    kinds = [event["kind"] for event in guard.events]
    activities = [place for place, kind in enumerate(kinds) if kind == "activity"]
    assert all(kinds.index("start") < place < kinds.index("exit") for place in activities)


def test_vm_with_gpus_that_cannot_be_read_says_so(vm: Vm, guard: FakeGuard) -> None:
    """The GPUs are unread without a driver: not idle, and not absent."""
    smi = vm.tools / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-1, NVIDIA L4, 55, 100, 23034'\n")
    smi.chmod(0o755)
    vm.train(COMPUTES, gpus=1, **QUICK)
    vm.boot()

    event = guard.wait_for("activity")

    assert "gpus" not in event["minute"]


READS = """
import time
def get_batch(): time.sleep(0.05)
print('begun', flush=True)
while True: get_batch()
"""


def test_stacks_are_read_where_the_owner_allows_it(vm: Vm, guard: FakeGuard) -> None:
    """The real py-spy on a real process: the main thread stands where the script reads its data."""
    (vm.tools / "py-spy").symlink_to(vm_tools()["py-spy"].path)
    vm.train(READS, stacks=True, activity_s=1.0, activity_look_s=0.05)
    vm.boot()

    stacks = minute_of(guard.wait_for("activity", lambda event: bool(event["minute"].get("stacks")))).stacks

    assert stacks is not None
    assert stacks.error is None
    assert stacks.looks
    assert stacks.places == {"storage": 1.0}
    assert list(stacks.frames or ()) == ["get_batch (<string>)"]
    assert not list(vm.home.rglob("*.raw"))  # they name people's functions


def test_stacks_are_left_alone_without_permission(vm: Vm, guard: FakeGuard) -> None:
    """py-spy is neither sought nor run."""
    spy = vm.tools / "py-spy"
    spy.write_text(f"#!/bin/sh\ntouch {vm.folder}/was-run\n")
    spy.chmod(0o755)
    vm.train(READS, **QUICK)
    vm.boot()

    guard.wait_for("activity", count=3)

    assert not (vm.folder / "was-run").exists()
    assert all("stacks" not in event["minute"] for event in guard.events if event["kind"] == "activity")


def test_unreadable_stacks_say_why(vm: Vm, guard: FakeGuard) -> None:
    """The signals go on without py-spy, with the reason in place of the stacks."""
    vm.train(READS, stacks=True, **QUICK)
    vm.boot()

    stacks = minute_of(guard.wait_for("activity", lambda event: bool(event["minute"].get("stacks")))).stacks

    assert stacks is not None
    assert stacks.places is None
    assert "this VM has no py-spy" in (stacks.error or "")


def test_container_is_found_where_docker_has_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker run` is not the parent of what it runs: the container's processes hang from Docker's service."""
    spin, wait = ([sys.executable, "-c", code] for code in ("while True: pass", "import time; time.sleep(600)"))
    minutes: list[Minute] = []
    with subprocess.Popen(spin) as inside, subprocess.Popen(wait) as client:
        docker = tmp_path / "docker"
        words = "container inspect --format {{json .State}} c1"
        docker.write_text(
            f"""#!/bin/sh\n[ "$*" = "{words}" ] && echo '{{"Status": "running", "Pid": {inside.pid}}}'\n"""
        )
        docker.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        settings = AttemptSettings(activity_s=0.4, activity_look_s=0.05)
        stacks = StackWatch(settings, ToolFinder.py_spy(settings, "", ""), "")
        profiles = ProfileWatch(settings, ToolFinder.py_spy(settings, "", ""), "", print)

        def report(kind: str, minute: object) -> None:
            assert kind == "activity"
            minutes.append(read_minute(minute) or Minute())

        watch = ActivityWatch(settings, GpuWatch(1.0), stacks, profiles, lambda: client.pid, lambda: "c1", report)
        over = threading.Event()
        thread = threading.Thread(target=watch.watch, args=(over,), daemon=True)
        thread.start()
        try:
            until(lambda: any((one.command or CommandSignals()).main_running == 1 for one in minutes))
        finally:
            over.set()
            thread.join(30)
            for process in (inside, client):
                process.kill()

    assert {one.command.processes for one in minutes if one.command is not None} == {1.0}


def test_signals_are_dropped_before_news(tmp_path: Path) -> None:
    """A guard that is away for long misses old heartbeats and activities, and no other event."""
    spool = Spool(str(tmp_path), 4)
    for kind in ("start", "activity", "heartbeat", "activity", "notice", "stopping", "exit"):
        spool.add(kind, {})

    assert [event["kind"] for event in spool.batch(100)] == ["start", "notice", "stopping", "exit"]
