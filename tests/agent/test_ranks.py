"""Several processes of one command: one for each GPU, a notice to each of them, and none left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import Vm
from tests.waiting import until

TRAINERS = Path(__file__).parents[2] / ".cache" / "trainers" / "venv" / "bin"  # of `make trainers`
TWO_GPUS = "print('0, GPU-1, Tesla T4, 0, 0, 15360\\n1, GPU-2, Tesla T4, 0, 0, 15360')"

# What torchrun 2.15 was seen to do: it starts PET_NPROC_PER_NODE processes in sessions of their own, passes SIGTERM on
# to each session, waits for up to 30 s for all of them, and ends with code 1; killed, it leaves them to init.
LAUNCHER = f"""{WAIT}
import subprocess
ranks = [subprocess.Popen([sys.executable, "-u", *sys.argv[1:]], env={{**os.environ, "RANK": str(rank)}},
         start_new_session=True) for rank in range(int(os.environ["PET_NPROC_PER_NODE"]))]
def stop(*_):
    raise InterruptedError
signal.signal(signal.SIGTERM, stop)
try:
    for rank in ranks:
        rank.wait()
except InterruptedError:
    for rank in ranks:
        os.killpg(rank.pid, signal.SIGTERM)
    for rank in ranks:
        rank.wait(30)
    sys.exit(1)
"""
RANK = f"""{WAIT}
rank = os.environ["RANK"]
def save(*_):
    pathlib.Path("saved-" + rank).write_text("x")
    sys.exit(0)
signal.signal(signal.SIGTERM, save if os.environ.get("SAVES") else lambda *_: None)
"""
READY = """
pathlib.Path("new-" + rank).write_text(str(os.getpid()))
os.rename("new-" + rank, "rank-" + rank)
wait("never")
"""
GLOO = """
import torch.distributed
torch.distributed.init_process_group("gloo")
assert torch.distributed.get_world_size() == 2
"""


def launched(vm: Vm, guard: FakeGuard, launcher: str, **more: object) -> list[int]:
    """Starts two ranks on a VM with two GPUs; returns their processes."""
    vm.tool("nvidia-smi", TWO_GPUS)
    vm.work.mkdir()
    rank, script = vm.folder / "rank.py", vm.folder / "launcher.py"
    # A rank is ready once all of them are: torchrun has the signal handlers of its own only a moment after the start.
    real = launcher == "torchrun"
    rank.write_text(f"{RANK}{GLOO if real else ''}{READY}")
    script.write_text(LAUNCHER)
    words = [str(TRAINERS / "torchrun"), str(rank)] if real else [sys.executable, "-u", str(script), str(rank)]
    if launcher == "shell":
        words = ["bash", "-c", '"$@"; echo over', "bash", *words]
    vm.order(*words, gpus=2, **more)
    vm.boot()
    files = [vm.work / f"rank-{number}" for number in range(2)]
    until(lambda: all(file.exists() for file in files))
    guard.wait_for("start")
    return [int(file.read_text()) for file in files]


REAL = pytest.param(
    "torchrun",
    marks=pytest.mark.skipif(not (TRAINERS / "torchrun").exists(), reason="`make trainers` installs torchrun"),
)


@pytest.mark.parametrize("launcher", ["launcher", "shell", REAL])
def test_a_notice_reaches_every_rank(vm: Vm, guard: FakeGuard, launcher: str) -> None:
    """Each saves, and ends; also with a shell in front, which dies of the notice at once."""
    launched(vm, guard, launcher, environment={"SAVES": "1", "OMP_NUM_THREADS": "1"})
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert (end["reason"], end["asked"]) == ("exited", "preemption")
    assert end["was_killed"] is False
    assert sorted(path.name for path in vm.work.glob("saved-*")) == ["saved-0", "saved-1"]


@pytest.mark.parametrize("launcher", ["launcher", REAL])
def test_ranks_that_do_not_end_are_killed_with_their_launcher(vm: Vm, guard: FakeGuard, launcher: str) -> None:
    """They are in sessions of their own, and would go on using the GPUs."""
    ranks = launched(vm, guard, launcher, environment={"OMP_NUM_THREADS": "1"}, notice_grace_s=0.5)
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert end["was_killed"] is True
    until(lambda: not any(is_running(rank) for rank in ranks))


def test_ranks_end_with_a_launcher_that_was_killed(vm: Vm, guard: FakeGuard) -> None:
    """Children of a launcher that the kernel killed where memory is short do not outlive the run."""
    ranks = launched(vm, guard, "launcher", notice_grace_s=0.5)
    os.kill(parent_of(ranks[0]), 9)
    end = guard.wait_for("exit")
    assert end["signal"] == 9
    until(lambda: not any(is_running(rank) for rank in ranks))


def test_the_command_finds_how_many_processes_to_start(vm: Vm, guard: FakeGuard) -> None:
    """The VM's GPUs, and a rendezvous on the loopback; what the job sets itself counts."""
    names = "COSTGUARD_GPUS COSTGUARD_NPROC PET_NPROC_PER_NODE MASTER_ADDR PET_MASTER_ADDR"
    vm.tool("nvidia-smi", TWO_GPUS)
    vm.train(
        f"import os\nprint([os.environ[name] for name in '{names}'.split()])\n"
        "print(os.environ['MASTER_PORT'] == os.environ['PET_MASTER_PORT'], int(os.environ['MASTER_PORT']) > 1023)",
        gpus=2,
        environment={"PET_NPROC_PER_NODE": "1"},
    )
    vm.boot()
    expected = "['2', '2', '1', '127.0.0.1', '127.0.0.1']"
    assert guard.wait_for("exit")["output"] == [expected, "True True"]


def test_a_vm_without_gpus_runs_one_process(vm: Vm, guard: FakeGuard) -> None:
    """The same command runs on it."""
    vm.train("import os\nprint(os.environ['COSTGUARD_GPUS'], os.environ['PET_NPROC_PER_NODE'])")
    vm.boot()
    assert guard.wait_for("exit")["output"] == ["0 1"]


def test_the_variables_reach_a_command_in_a_container(vm: Vm, guard: FakeGuard) -> None:
    """The call of docker has the names alone, and takes the values from its own environment."""
    calls = vm.folder / "calls"
    script = f"""
import os, sys
with open({str(calls)!r}, "a") as file:
    file.write(" ".join(sys.argv) + "|" + os.environ.get("PET_NPROC_PER_NODE", "") + chr(10))
"""
    vm.tool("docker", script)
    vm.tool("nvidia-smi", TWO_GPUS)
    vm.order("torchrun", "train.py", image="acme/train:7", gpus=2)
    vm.boot()
    guard.wait_for("exit")
    (run,) = [line for line in calls.read_text().splitlines() if " run " in line]
    assert "--env PET_NPROC_PER_NODE" in run
    assert run.endswith("torchrun train.py|2")


def is_running(process: int) -> bool:
    """Says whether it runs: not where it is gone, nor where only its entry in the table is left."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
