"""A disk that a command filled: its exit code is known, its last words are kept, and the agent lives on."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.test_boot import attempt, put, run_script
from tests.agent.vm import Vm, parent, wait_until_unlocked

from costguard.jobs.act.attempts.boot import metadata_items
from costguard_vm.agent.output import OutputLog, tail

DISK_BYTES = 12 << 20
LEFT_BYTES = 64 << 10  # the agent, which replaces files of its own, may leave some pages

# Takes all there is, as a checkpoint that does not fit, and then fails as a training does.
FILLS = f"""{WAIT}
print('step 7', flush=True)
junk = open('junk', 'wb', buffering=0)
try:
    while True:
        junk.write(b'x' * 65536)
except OSError:
    pass
while True:
    try:
        junk.write(b'x')
    except OSError as full:
        print('full', flush=True)
        wait(GO)
        raise
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of its own, of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("only root can mount a filesystem of a few megabytes")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def on(vm: Vm, disk: Path) -> Path:
    """All of the VM's files are on that disk. Returns what the command waits for, elsewhere."""
    vm.home, vm.logs, vm.work = disk / "home", disk / "logs", disk / "work"
    vm.work.mkdir()
    return vm.folder / "go"


def fill(vm: Vm, guard: FakeGuard, go: Path) -> None:
    """Boots a VM whose command has filled its disk, and waits."""
    vm.train(FILLS.replace("GO", repr(str(go))))
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"][-1:] == ["full"])


def test_the_exit_code_and_the_last_words_survive(vm: Vm, guard: FakeGuard, disk: Path) -> None:
    """The report has the free space, and where, so that the guard can say so; the guard hears heartbeats meanwhile."""
    go = on(vm, disk)
    fill(vm, guard, go)
    beat = guard.wait_for("heartbeat", lambda event: event["machine"]["disk_free_bytes"] < LEFT_BYTES)
    assert beat["machine"]["disk_mount"] == str(disk)
    assert beat["machine"]["disk_total_bytes"] == DISK_BYTES
    go.touch()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"]) == ("exited", 1)
    assert end["output"][-1] == "OSError: [Errno 28] No space left on device"
    assert end["machine"]["disk_free_bytes"] < LEFT_BYTES
    assert vm.finished() == 0
    assert [event["seq"] for event in guard.events] == list(range(1, len(guard.events) + 1))


def test_an_agent_that_dies_while_the_disk_is_full_is_followed_by_one_that_knows(
    vm: Vm, guard: FakeGuard, disk: Path
) -> None:
    """The unwritten rest stands in memory: the command is not run again, and its exit code is reported."""
    go = on(vm, disk)
    fill(vm, guard, go)
    vm.crash()
    go.touch()
    wait_until_unlocked(vm.run_folders()[0] / "lock")
    vm.boot()
    assert guard.wait_for("exit")["code"] == 1
    assert guard.kinds_once() == ["boot", "start", "boot", "exit"]


def test_a_vm_that_is_started_again_with_a_full_disk_runs_its_agent_from_memory(
    vm: Vm, guard: FakeGuard, disk: Path
) -> None:
    """The serial console says so; a command that cannot be started is reported."""
    on(vm, disk)
    (vm.tools / "python3").symlink_to(sys.executable)
    with pytest.raises(OSError, match="No space"):
        (disk / "junk").write_bytes(b"x" * 2 * DISK_BYTES)
    put(vm, metadata_items(attempt(vm, guard, "echo", "ran"), guard.token, with_drivers=False))
    booted = run_script(vm)
    assert booted.returncode == 0
    assert "the disk is full, so the agent is put into memory" in booted.stderr
    assert guard.wait_for("exit")["output"] == ["ran"]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits other processes")
def test_an_exit_code_survives_though_nothing_can_be_written_anywhere(vm: Vm, guard: FakeGuard) -> None:
    """Every write of agent and runner to any file fails, in memory too: the runner reports through its pipe."""
    vm.train(f"{WAIT}\nprint('step 7', flush=True)\nwait('go')\nsys.exit(7)")
    agent = vm.boot()
    command = guard.wait_for("start")["pid"]
    guard.wait_for("heartbeat", lambda event: event["step"] == 7)
    for process in (agent.pid, parent(command)):
        resource.prlimit(process, resource.RLIMIT_FSIZE, (0, 0))
    since = len(guard.events)
    guard.wait_for("heartbeat", lambda event: event["seq"] > since + 3)
    (vm.work / "go").touch()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"]) == ("exited", 7)
    assert vm.finished() == 0


def test_a_log_returns_to_the_disk_when_it_has_room_again(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is in the order in which it was printed; meanwhile its end is in memory."""
    monkeypatch.setenv("COSTGUARD_VOLATILE", str(disk.parent / "volatile"))
    log = OutputLog(str(disk / "log"), 50 << 20, 3)
    log.write(b"before\n")
    (disk / "junk").write_bytes(b"x" * (DISK_BYTES - 3 * os.sysconf("SC_PAGE_SIZE")))
    for number in range(4000):
        log.write(b"during %04d\n" % number)
    assert tail(str(disk / "log"), 20).splitlines()[-1] == "during 3999"
    (disk / "junk").unlink()
    log.write(b"after\n")
    log.close()
    lines = (disk / "log").read_text().splitlines()
    assert lines == ["before", *[f"during {number:04}" for number in range(4000)], "after"]
