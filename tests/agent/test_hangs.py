"""A command that makes no progress any more, as its agent reports it: five kinds of real hangs, and what is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.planted_hangs import KINDS, planted
from tests.agent.vm import Vm
from tests.waiting import until

from costguard_vm.agent.liveness import Liveness
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.tool import ToolFinder

LEAST_S, LOOK_S, STEPS = 0.75, 0.125, 8
LOOKS = int(8 * LEAST_S / LOOK_S)  # after six times the least, a command that stands still is one that hangs

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


class Watched:
    """A real command that the agent's watch looks at, by a clock that only a test moves: a busy machine changes
    nothing.
    """

    def __init__(self, folder: Path, script: str) -> None:
        self._log = folder / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-c", script], stdout=log, stderr=log, cwd=folder, start_new_session=True
            )
        settings = AttemptSettings()._replace(hang_least_s=LEAST_S)
        py_spy = ToolFinder.py_spy(settings, "", str(folder))
        self.now = 0.0
        self._liveness = Liveness(settings, str(self._log), py_spy, lambda: self.now)

    def begins(self) -> None:
        """Waits until it has printed, and gives it steps a look apart until its own gaps count."""
        until(lambda: self._log.stat().st_size > 0)
        for step in range(1, STEPS + 1):
            assert self.look(step) == {}

    def look(self, step: int | None, works: bool = False) -> dict[str, Any]:
        """Looks an eighth of a second later. With `works`, once it has had some processor time since the last look."""
        if works:
            before = self._processor_ticks()
            until(lambda: self._processor_ticks() > before)
        self.now += LOOK_S
        return self._liveness.look(self.process.pid, {"step": step})

    def hang(self, works: bool) -> dict[str, Any]:
        """Looks until there is a hang. Reading what it waits in takes real time, and no time of this clock."""
        hang: dict[str, Any] = {}

        def is_reported() -> bool:
            hang.update(self.look(STEPS, works).get("hang", {}))
            return bool(hang)

        until(is_reported)
        return hang

    def _processor_ticks(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@contextmanager
def watched(folder: Path, script: str) -> Iterator[Watched]:
    made = Watched(folder, script)
    try:
        yield made
    finally:
        os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_hang_is_reported_within_twice_its_bound(tmp_path: Path, kind: str) -> None:
    """The bounds are a hundredth of the usual ones or less, with steps first. 40 hangs of real agents: make alive."""
    with watched(tmp_path, planted(kind, steps=1, work=0, pause=0)) as command:
        command.begins()
        hang = command.hang(works=kind == "loop")
    assert hang["step"] == STEPS
    assert hang["kind"] == ("computing" if kind == "loop" else "still")
    assert hang["bound_s"] <= hang["quiet_s"] <= 2 * hang["bound_s"]
    assert hang["waits"]


def test_a_command_that_computes_without_steps_is_no_hang(tmp_path: Path) -> None:
    """Nothing is known of its progress, and nothing is claimed."""
    with watched(tmp_path, "print(flush=True)\nwhile True: pass") as command:
        until(lambda: (tmp_path / "log").stat().st_size > 0)
        reports = [command.look(None, works=True) for _ in range(LOOKS)]
    assert reports == [{}] * LOOKS


def test_an_agent_reports_a_hang_until_the_job_is_cancelled(vm: Vm, guard: FakeGuard) -> None:
    """The heartbeat has the last step, and what the command waits in."""
    vm.train(planted("deadlock", steps=8), hang_least_s=1.0)
    vm.boot()
    hang = guard.wait_for("heartbeat", lambda event: event.get("hang", {}).get("step") == 8)["hang"]
    assert hang["kind"] == "still"
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
