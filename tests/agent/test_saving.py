"""Saves that the agent asks the running command for, by a file or by a signal, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.vm import Vm

from costguard_vm.agent.saving import catching
from costguard_vm.agent.settings import read_settings

# Saves when it is asked to, by the number in the file or by the signal, and at no other time.
TRAINER = """
import os, pathlib, signal, subprocess, sys, time
saved = pathlib.Path(os.environ["SAVED"])
by = os.environ["BY"]
wanted, answered = [], ""
if by != "file":
    # A loader without a handler, which the signal would end.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    signal.signal(getattr(signal, by), lambda *_: wanted.append(1))
step = 0
while True:
    step += 1
    print("step", step, flush=True)
    if by == "file":
        try:
            asked = open(os.environ["COSTGUARD_SAVE_REQUEST"]).read()
        except FileNotFoundError:
            asked = ""
        if asked != answered:
            answered = asked
            wanted.append(1)
    elif child.poll() is not None:
        sys.exit(7)
    if wanted:
        wanted.clear()
        folder = saved / f"step-{step}"
        folder.mkdir(parents=True)
        (folder / "weights").write_bytes(b"w" * 1000)
        time.sleep(0.2)
        (folder / "DONE").touch()
    time.sleep(0.02)
"""


def _train(vm: Vm, by: str, **more: Any) -> Path:
    saved = vm.folder / "saved"
    vm.train(
        TRAINER,
        checkpoint={"location": str(saved), "framework": "marker", "marker": "DONE"},
        environment={"BY": by, "SAVED": str(saved)},
        look_s=0.05,
        save_on=by,
        **more,
    )
    return saved


def _wait_for_saves(guard: FakeGuard, count: int) -> None:
    """Heartbeats carry the newest complete checkpoint on the disk."""
    seen: set[str] = set()

    def is_another(event: dict[str, Any]) -> bool:
        seen.add(event.get("checkpoint", {}).get("resume_from", ""))
        return len(seen - {""}) >= count

    guard.wait_for("heartbeat", is_another)


@pytest.mark.parametrize("by", ["file", "SIGUSR1", "SIGUSR2"])
def test_command_is_asked_for_a_save_at_each_interval(vm: Vm, guard: FakeGuard, by: str) -> None:
    """It runs on, as do its processes without a handler; nothing is saved but on request.

    Two requests that a busy command answers late may come close to each other, but there are no more of them.
    """
    saved = _train(vm, by, save_every_s=0.5)
    vm.boot()
    _wait_for_saves(guard, 3)
    assert guard.kinds() == ["boot", "start"], "a fixed interval needs no word of the guard"
    moments = sorted(weights.stat().st_mtime for weights in saved.glob("*/weights"))
    begun = datetime.fromisoformat(guard.wait_for("start")["started_at"]).timestamp()
    assert len(moments) <= (moments[-1] - begun) / 0.5


def test_guard_says_how_often_and_learns_how_long_a_save_takes(vm: Vm, guard: FakeGuard) -> None:
    """The agent asks, uses the answer, and asks again once a save was measured."""
    guard.save_every_s = 0.4
    _train(vm, "file")
    vm.boot()
    first = guard.wait_for("save")
    assert "save_s" not in first
    measured = guard.wait_for("save", lambda event: "save_s" in event)
    assert 0.1 <= measured["save_s"] < 60
    assert measured["every_s"] == 0.4


def test_own_saves_of_the_command_count(vm: Vm, guard: FakeGuard) -> None:
    """It saves more often than the interval, so that it is never asked."""
    script = TRAINER.replace("if wanted:\n        wanted.clear()", "if step % 5 == 1 or wanted:")
    saved = vm.folder / "saved"
    vm.train(
        script,
        checkpoint={"location": str(saved), "framework": "marker", "marker": "DONE"},
        environment={"BY": "file", "SAVED": str(saved)},
        look_s=0.05,
        save_on="file",
        save_every_s=5.0,
    )
    vm.boot()
    _wait_for_saves(guard, 3)
    begun = datetime.fromisoformat(guard.wait_for("start")["started_at"])
    later = begun + timedelta(seconds=7)
    guard.wait_for("heartbeat", lambda event: datetime.fromisoformat(event["at"]) > later)
    (run,) = vm.run_folders()
    assert not (run / "step" / "save-request").exists()


def test_without_the_option_nothing_is_asked(vm: Vm, guard: FakeGuard) -> None:
    """The command has no variable for requests, and the guard hears no question."""
    vm.train("import os, time\nprint('asks' if 'COSTGUARD_SAVE_REQUEST' in os.environ else 'no')\ntime.sleep(0.3)")
    vm.boot()
    guard.wait_for("exit")
    assert vm.output() == "no\n"
    assert "save" not in guard.kinds()


def test_signal_goes_to_the_outermost_process_with_a_handler() -> None:
    """A process without one would be ended by it; a child of one with a handler has inherited that."""
    script = (
        "import os, signal, subprocess, sys, time\n"
        "plain = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "child = os.fork()\n"
        "if child: print(os.getpid(), plain.pid, child, flush=True)\n"
        "time.sleep(60)"
    )
    outer = subprocess.Popen(
        ["sh", "-c", f'{sys.executable} -c "$0" & wait', script], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert outer.stdout is not None
        main, plain, _ = map(int, outer.stdout.readline().split())
        assert catching(outer.pid, signal.SIGUSR1) == [main]
        assert catching(outer.pid, signal.SIGUSR2) == []
        assert catching(plain, signal.SIGUSR1) == []
    finally:
        os.killpg(outer.pid, signal.SIGKILL)
        outer.communicate()


def test_wrong_way_to_ask_is_a_wrong_setting() -> None:
    """A file and two signals ask without ending the command; nothing else does."""
    given = {"attempt": "a", "guard": "https://g", "command": ["x"], "save_on": "SIGKILL"}
    assert read_settings(json.dumps(given))[1] == ["save_on must be file, SIGUSR1 or SIGUSR2"]
