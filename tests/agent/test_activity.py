"""What bounds a command, reported each minute: the real agent as a process, on a minute of half a second."""

from __future__ import annotations

from pathlib import Path

from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.vm import Vm

from costguard.agent.events import Spool
from costguard.diagnosis.signals import Minute, read_minute

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
    """What an agent does before and after a command bounds no training."""
    vm.train("print('done')", setup="sleep 1", **QUICK)
    vm.boot()
    vm.finished()

    kinds = [event["kind"] for event in guard.events]
    activities = [place for place, kind in enumerate(kinds) if kind == "activity"]
    assert all(kinds.index("start") < place < kinds.index("exit") for place in activities)


def test_vm_with_gpus_that_cannot_be_read_says_so(vm: Vm, guard: FakeGuard) -> None:
    """Without a driver, the GPUs are unread: not idle, and not absent."""
    smi = vm.tools / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-1, NVIDIA L4, 55, 100, 23034'\n")
    smi.chmod(0o755)
    vm.train(COMPUTES, gpus=1, **QUICK)
    vm.boot()

    event = guard.wait_for("activity")

    assert "gpus" not in event["minute"]


def test_signals_are_dropped_before_news(tmp_path: Path) -> None:
    """A guard that is away for long misses old heartbeats and activities, and no other event."""
    spool = Spool(str(tmp_path), 4)
    for kind in ("start", "activity", "heartbeat", "activity", "notice", "stopping", "exit"):
        spool.add(kind, {})

    assert [event["kind"] for event in spool.batch(100)] == ["start", "notice", "stopping", "exit"]
