"""An upload leaves the CPU to the command, until uploads fall behind its saves."""

from __future__ import annotations

import os
import subprocess
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.builders import at

from costguard_vm.agent import processes
from costguard_vm.agent.transfers.upload_pace import MOST, UploadPace

MINUTE = timedelta(minutes=1)
# Its class and its nice value, by proc_pid_stat(5). An interpreter that is last in line on a busy machine takes a
# minute to begin; a shell does not.
NOTES_PRIORITY = """
noted=$1 left=600
while [ $left -gt 0 ]; do
  read -r line < /proc/$$/stat
  set -- $line
  echo "${41} ${19}" >> "$noted"
  [ "${41} ${19}" = "0 FLOOR" ] && break
  left=$((left - 1))
  sleep 0.05
done
""".replace("FLOOR", str(processes.FLOOR))


def saved(*minutes: int, uploaded: int | None = None) -> UploadPace:
    """Returns the pace where a checkpoint was written at each of these minutes, and one of them is uploaded."""
    pace = UploadPace()
    for minute in minutes:
        pace.seen(f"step-{minute}", [at("12:00"), at("12:00") + minute * MINUTE])
    if uploaded is not None:
        pace.uploaded(f"step-{uploaded}")
    return pace


def after(minutes: float) -> datetime:
    return at("12:00") + minutes * MINUTE


@pytest.mark.parametrize(
    ("saves", "uploaded", "now", "is_behind"),
    [
        ((), None, 100, False),
        ((10,), None, 100, False),
        ((10, 20), 10, 29, False),
        ((10, 20), 10, 31, True),
        ((10, 20, 30), 20, 39, False),
        ((10, 20, 30), 20, 41, True),
        ((10, 20, 30), 30, 300, False),
        ((10, 20), None, 29, False),
        ((10, 20), None, 31, True),
    ],
)
def test_uploads_are_behind_once_the_newest_is_older_than_two_saves(
    saves: tuple[int, ...], uploaded: int | None, now: float, is_behind: bool
) -> None:
    """A command that has stopped saving is none that uploads fall behind, nor is one that saved once."""
    assert saved(*saves, uploaded=uploaded).is_behind(after(now)) is is_behind


def test_an_older_upload_does_not_count_back() -> None:
    """The newest of several says how much is safe."""
    pace = saved(10, 20, 30, uploaded=30)
    pace.uploaded("step-10")
    assert not pace.is_behind(after(45))


def test_many_saves_are_forgotten() -> None:
    """A training of weeks leaves no more than the newest."""
    pace = saved(*range(1000))
    assert len(pace._written) == MOST


def test_a_gentle_process_gets_its_share_once_it_falls_behind(tmp_path: Path) -> None:
    """It begins last in line, and then has a nice value that a busy command leaves something."""
    noted, behind = tmp_path / "priorities", threading.Event()

    def wait(_: float) -> None:
        if noted.exists():
            behind.set()

    code, _ = processes.run(
        ["sh", "-c", NOTES_PRIORITY, "sh", str(noted)],
        os.environ,
        wait,
        b"",
        lambda _: None,
        lambda: not behind.is_set(),
    )
    assert code == 0
    words = noted.read_text().split("\n")
    assert words[0].startswith(f"{os.SCHED_IDLE} ")
    assert words[-2] == f"{os.SCHED_OTHER} {processes.FLOOR}"


def test_a_process_with_a_larger_share_keeps_it() -> None:
    """It is only ever hastened: neither its nice value nor that of its autogroup is raised."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        if os.sched_getscheduler(process.pid) != os.SCHED_OTHER:  # all tests may run last in line
            os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        before = _priority(process.pid)
        processes.hasten(process.pid)
        after = _priority(process.pid)
        process.kill()
    assert after == before
    assert before[0] == os.getpriority(os.PRIO_PROCESS, 0)


def _priority(pid: int) -> tuple[int, str]:
    group = Path(f"/proc/{pid}/autogroup")
    return os.getpriority(os.PRIO_PROCESS, pid), group.read_text() if group.exists() else ""
