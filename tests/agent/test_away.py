"""A guard that is away, forgets, refuses or answers nonsense: every event arrives, in order."""

from __future__ import annotations

import subprocess

import pytest
from tests.agent.fake_guard import AWAY, LOSES_ANSWERS, FakeGuard, Listener
from tests.agent.scripts import COUNTS
from tests.agent.vm import Vm


def test_nothing_is_lost_while_the_guard_is_away(vm: Vm, guard_and_port: tuple[FakeGuard, Listener]) -> None:
    """A whole run happens while connections are refused; later all of it arrives, in its order, without a gap."""
    guard, port = guard_and_port
    vm.train("print('alone')")
    agent = vm.boot()
    spool = vm.home / "attempts" / "nightly-7f3a-1" / "spool"
    while not list(spool.glob("*-exit.json")):
        with pytest.raises(subprocess.TimeoutExpired):  # it stays until it was heard
            agent.wait(0.05)
    port.listen()
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "start", "exit"]
    assert [event["seq"] for event in guard.events] == list(range(1, len(guard.events) + 1))
    assert not list(spool.glob("*.json"))


def test_what_an_agent_could_not_send_the_next_one_sends(vm: Vm, guard: FakeGuard) -> None:
    """The spool outlives the agent, and numbers go on where they were."""
    vm.train(COUNTS)
    vm.boot()
    guard.wait_for("start")
    guard.failure = lambda _: AWAY
    guard.wait_for_requests(3)
    vm.crash()
    vm.boot()
    (vm.work / "go").touch()
    guard.wait_for_requests(3)
    guard.failure = lambda _: 0
    assert guard.wait_for("exit")["code"] == 0
    assert guard.kinds_once() == ["boot", "start", "boot", "exit"]
    assert [event["seq"] for event in guard.events] == list(range(1, len(guard.events) + 1))


def test_a_lost_answer_means_that_events_come_again_under_their_number(vm: Vm, guard: FakeGuard) -> None:
    """Events come at least once: the guard knows them by their numbers."""
    guard.failure = lambda _: LOSES_ANSWERS
    vm.train(COUNTS)
    vm.boot()
    guard.wait_for("start")
    guard.wait_for_requests(3)
    guard.failure = lambda _: 0
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "start", "exit"]


def test_a_refused_token_is_tried_again(vm: Vm, guard: FakeGuard) -> None:
    """It may be repaired; until then nothing is thrown away."""
    vm.train("print('hello')")
    guard.token = "another"
    vm.boot()
    guard.wait_for_requests(3)
    guard.token = "the-token-of-this-attempt"
    guard.wait_for("exit")
    assert guard.kinds() == ["boot", "start", "exit"]


def test_one_event_that_the_guard_refuses_does_not_hold_up_the_others(vm: Vm, guard: FakeGuard) -> None:
    """It is tried alone, then given up and written down on the VM."""
    guard.failure = lambda events: 422 if any(event["kind"] == "start" for event in events) else 0
    vm.train("print('hello')")
    vm.boot()
    guard.wait_for("exit")
    assert vm.finished() == 0
    assert guard.kinds() == ["boot", "exit"]
    assert "is given up" in vm.spoken.read_text()


def test_a_redirect_does_not_get_the_token(vm: Vm, guard: FakeGuard) -> None:
    """It is a failure like any other."""
    guard.failure = lambda _: 307
    vm.train("print('hello')")
    vm.boot()
    guard.wait_for_requests(3)
    guard.failure = lambda _: 0
    guard.wait_for("exit")


def test_a_long_absence_costs_old_heartbeats_alone(vm: Vm, guard: FakeGuard) -> None:
    """The spool is bounded: the oldest heartbeats go first, and nothing else ever does."""
    guard.failure = lambda _: AWAY
    vm.train(COUNTS, spool_most=10, heartbeat_s=0.01)
    vm.boot()
    spool = vm.home / "attempts" / "nightly-7f3a-1" / "spool"
    while not any(int(path.name.split("-")[0]) > 30 for path in spool.glob("*-heartbeat.json")):
        guard.wait_for_requests(1)
    assert len(list(spool.glob("*.json"))) <= 11
    guard.failure = lambda _: 0
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert guard.kinds() == ["boot", "start", "exit"]
    numbers = [event["seq"] for event in guard.events]
    assert numbers == sorted(numbers)
    assert numbers[-1] > len(numbers)
