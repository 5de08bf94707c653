"""The agent takes profiles of a command: the real py-spy on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.agent.fake_guard import Event, FakeGuard
from tests.agent.vm import Vm

from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.tool import ToolFinder
from costguard_vm.agent.watch.profile_watch import (
    AGAIN_S,
    LATER_S,
    OFTEN,
    REFUSED_S,
    SHARE,
    ProfileWatch,
    pause_after,
    take_window,
)
from costguard_vm.profile.frames import Frame
from costguard_vm.profile.window import StackProfile, group_of, read_profile

TRAINS = """
import multiprocessing, os, time

def read_items(secret):
    while True:
        sum(range(10_000))

def train_step():
    time.sleep(0.2)

def train(password):
    print("begun", flush=True)
    while True:
        train_step()

if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=read_items, args=("s3cret",), daemon=True)
    worker.start()
    train("s3cret")
"""
WINDOW = StackProfile(10.0, 0.0, group_of({(Frame("f", "a.py", 1, is_own=True),): 200}, {}))


@contextmanager
def _training(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "train.py").write_text(TRAINS)
    command = [sys.executable, "train.py", "--token", "s3cret"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, start_new_session=True) as training:
        try:
            assert training.stdout is not None
            assert training.stdout.readline() == b"begun\n"
            yield training
        finally:
            os.killpg(training.pid, signal.SIGKILL)  # its worker too, which computes on


def test_window_has_the_main_thread_and_the_workers_apart(tmp_path: Path) -> None:
    """Files are those of the project; a thread that sleeps did not run, and one that computes did."""
    with _training(tmp_path) as training:
        window = take_window(str(vm_tools()["py-spy"].path), training.pid, str(tmp_path / "looks"), 2)

    assert window.error == ""
    main = {stack[-1].function: seen for stack, seen in window.main.stacks.items()}
    count, ran = main["train_step"]
    assert count > 0.8 * window.main.looks
    assert ran <= 0.5 * count
    (leaf,) = {stack[-1] for stack in window.workers.stacks}
    assert (leaf.function, leaf.file, leaf.is_own) == ("read_items", "train.py", True)
    count, ran = next(iter(window.workers.stacks.values()))
    assert ran > 0.5 * count
    assert 0 < window.cpu_s < 5


def test_window_holds_no_values_and_leaves_no_file(tmp_path: Path) -> None:
    """Neither arguments of functions nor the command line are in it, and py-spy's own files go."""
    with _training(tmp_path) as training:
        window = take_window(str(vm_tools()["py-spy"].path), training.pid, str(tmp_path / "looks"), 1)

    assert "s3cret" not in repr(window)
    assert list((tmp_path / "looks").iterdir()) == []


def test_program_that_is_not_python_is_unknown(tmp_path: Path) -> None:
    """A training without stacks says so, and has no empty profile."""
    with subprocess.Popen(["sleep", "60"]) as program:
        window = take_window(str(vm_tools()["py-spy"].path), program.pid, str(tmp_path), 1)
        program.kill()

    assert window.main.looks == 0
    assert window.error.startswith("py-spy read no stacks: ")


@pytest.mark.parametrize("cpu_s", [0.0, 0.1, 0.5, 4.0, 60.0])
@pytest.mark.parametrize("times", [1, OFTEN, 100])
def test_next_window_waits_until_the_last_one_is_a_quarter_of_a_percent(cpu_s: float, times: int) -> None:
    """The processor time of the looks is what they cost at most, on a VM without a free processor."""
    pause = pause_after(WINDOW._replace(cpu_s=cpu_s), times)

    assert cpu_s <= SHARE * pause * (1 + 1e-9)
    assert SHARE <= 0.005
    assert pause >= (AGAIN_S if times < OFTEN else LATER_S)


def test_what_was_refused_is_asked_for_once_an_hour() -> None:
    """A VM on which py-spy may not attach will not allow it a minute later."""
    assert pause_after(StackProfile(error="Permission denied"), 1) == REFUSED_S


def test_windows_arrive_where_they_are_allowed(vm: Vm, guard: FakeGuard) -> None:
    """The agent's own report of a real process."""
    (vm.tools / "py-spy").symlink_to(vm_tools()["py-spy"].path)
    vm.train(TRAINS, profile=True, activity_s=1.0, activity_look_s=0.05)
    vm.boot()

    event: Event = guard.wait_for("profile")

    window = read_profile(event["window"])
    assert window is not None
    assert window.error == ""
    assert "train_step" in {stack[-1].function for stack in window.main.stacks}
    assert event["number"] > 1_700_000_000


def test_missing_py_spy_is_reported(vm: Vm, guard: FakeGuard) -> None:
    """The profile is unknown, with the reason."""
    vm.train(TRAINS, profile=True, activity_s=0.5, activity_look_s=0.05)
    vm.boot()

    window = read_profile(guard.wait_for("profile")["window"])

    assert window is not None
    assert window.main.looks == 0
    assert "this VM has no py-spy" in window.error


@pytest.mark.parametrize(
    ("settings", "is_taken"),
    [
        ({}, False),
        ({"profile": True}, True),
        ({"profile": True, "gang": {"node": "0", "nodes": "2"}}, True),
        ({"profile": True, "gang": {"node": "1", "nodes": "2"}}, False),
        ({"profile": True, "gang": {"node": "1", "nodes": "2", "least": "1"}}, True),
    ],
    ids=["not allowed", "allowed", "first of two", "second of two", "of a range"],
)
def test_only_the_first_vm_of_a_job_is_looked_at(tmp_path: Path, settings: dict[str, object], is_taken: bool) -> None:
    """Ranks of one training do the same; in a range of VMs any may become the first."""
    made = AttemptSettings()._replace(activity_s=0.0, **settings)  # type: ignore[arg-type]
    reports: list[str] = []
    watch = ProfileWatch(
        made, ToolFinder.py_spy(made, "", str(tmp_path)), str(tmp_path), lambda kind, **_: reports.append(kind)
    )
    watch.after(1)
    if watch._thread is not None:
        watch._thread.join(60)

    assert reports == (["profile"] if is_taken else [])
