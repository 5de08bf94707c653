"""A command that makes no progress any more, as its agent reports it: five kinds of real hangs, and what is none."""

from __future__ import annotations

import sys

import pytest
from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.planted_hangs import KINDS, planted
from tests.agent.vm import Vm

PY_SPY = """
import sys
if sys.argv[1:] == ['--version']:
    print('py-spy 0.4.1')
else:
    assert sys.argv[1:4] == ['dump', '--nonblocking', '--pid']
    print('wait (x.py:3)')
"""


def reported(guard: FakeGuard) -> Event:
    """The first heartbeat with a hang."""
    return guard.wait_for("heartbeat", lambda event: "hang" in event)


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_hang_is_reported_within_twice_its_bound(vm: Vm, guard: FakeGuard, kind: str) -> None:
    """The bounds are a hundredth of the usual ones or less, with steps first. 40 hangs: make alive."""
    vm.train(planted(kind, steps=8), hang_least_s=0.75 if kind == "loop" else 1.5)
    vm.boot()
    hang = reported(guard)["hang"]
    assert hang["step"] == 8
    assert hang["kind"] == ("computing" if kind == "loop" else "still")
    assert hang["quiet_s"] <= 2 * hang["bound_s"]
    assert hang["waits"]
    guard.is_to_cancel = True
    assert guard.wait_for("exit")["asked"] == "cancel"


def test_progress_ends_a_hang(vm: Vm, guard: FakeGuard) -> None:
    """The heartbeat after the next step says nothing of it any more."""
    vm.train(
        planted("fifo", steps=8) + "print('step 9', flush=True)\nos.mkfifo('never')\nopen('never').read()\n",
        hang_least_s=1.0,
    )
    vm.boot()
    reported(guard)
    (vm.work / "pipe").open("w").close()
    guard.wait_for("heartbeat", lambda event: event["step"] == 9 and "hang" not in event)


def test_stacks_come_with_the_owners_permission_alone(vm: Vm, guard: FakeGuard) -> None:
    """The stacks say where Python stands, with permission and a py-spy on the VM."""
    vm.tool("py-spy", PY_SPY)
    vm.train(planted("fifo", steps=8), hang_least_s=1.0, stacks=True)
    vm.boot()
    assert reported(guard)["hang"]["stacks"].startswith("wait (x.py:3)")


def test_without_permission_no_stack_is_read(vm: Vm, guard: FakeGuard) -> None:
    """A py-spy that lies there is not called."""
    vm.tool("py-spy", f"open({str(vm.folder / 'called')!r}, 'w')")
    vm.train(planted("fifo", steps=8), hang_least_s=1.0)
    vm.boot()
    assert "stacks" not in reported(guard)["hang"]
    assert not (vm.folder / "called").exists()


def test_a_hang_that_the_guard_stops_is_told_from_a_cancelled_job(vm: Vm, guard: FakeGuard) -> None:
    """The command runs again on a restarted VM, as after a crash."""
    vm.train(planted("fifo", steps=8), hang_least_s=1.0, resume=True)
    vm.boot()
    reported(guard)
    guard.why = "hang"
    guard.is_to_cancel = True
    assert guard.wait_for("exit")["asked"] == "hang"
    assert vm.finished() == 0
    guard.is_to_cancel = False
    vm.restart()
    assert guard.wait_for("start", lambda event: event["run"] == 2)["run"] == 2


def test_a_command_that_computes_without_steps_is_no_hang(vm: Vm, guard: FakeGuard) -> None:
    """Nothing is known of its progress, and nothing is claimed."""
    vm.order(sys.executable, "-c", "while True: pass", hang_least_s=0.2)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["is_running"], count=25)
    assert not [event for event in guard.events if "hang" in event]
