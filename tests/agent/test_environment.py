"""GPUs, secrets, and what the command finds around it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import Vm, parent


def test_gpus_are_measured(vm: Vm, guard: FakeGuard) -> None:
    """Fractions and bytes; a value that the card does not tell is null."""
    vm.tool("nvidia-smi", "print('0, GPU-1, NVIDIA A100, 97, 1024, 40960\\n1, GPU-2, NVIDIA A100, [N/A], 2, 40960')")
    vm.train(f"{WAIT}\nwait('go')", gpus=2)
    vm.boot()
    gpus = guard.wait_for("heartbeat", lambda event: event["machine"]["gpus"])["machine"]["gpus"]
    guard.wait_for("start")
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert [gpu["utilisation"] for gpu in gpus] == [0.97, None]
    assert gpus[0]["memory_used_bytes"] == 1 << 30
    assert gpus[1]["uuid"] == "GPU-2"


def test_gpus_that_nobody_measures_are_null(vm: Vm, guard: FakeGuard) -> None:
    """Neither no GPU nor an idle one: unknown."""
    vm.path = str(vm.tools)
    vm.train(f"{WAIT}\nwait('go')")
    vm.boot()
    assert guard.wait_for("heartbeat", lambda event: event["is_running"])["machine"]["gpus"] is None
    (vm.work / "go").touch()
    guard.wait_for("exit")


def test_a_vm_whose_gpus_never_come_says_so(vm: Vm, guard: FakeGuard) -> None:
    """The command is not started on processors alone."""
    vm.tool("nvidia-smi", "print('0, GPU-1, Tesla T4, 0, 0, 15360')")
    vm.order("touch", "started", gpus=2, gpu_wait_s=0.2)
    vm.boot()
    assert guard.wait_for("exit")["error"] == "this VM should have 2 GPUs, and nvidia-smi shows 1"


def test_secrets_reach_the_command_and_nothing_else(vm: Vm, guard: FakeGuard) -> None:
    """Fetched with the VM's own account, after a passing failure too; in events, logs and files there are stars."""
    vm.metadata.refusals = 2
    vm.metadata.secrets["projects/ml/secrets/wandb/versions/7"] = "wandb-0123456789"
    secret = (
        "torn = os.environ['WANDB']; sys.stdout.write(torn[:9]); sys.stdout.flush(); wait('go'); print(torn[9:], torn)"
    )
    vm.train(f"{WAIT}\n{secret}\nprint(len(torn))", secrets={"WANDB": "projects/ml/secrets/wandb/versions/7"})
    vm.boot()
    guard.wait_for("start")
    (vm.work / "go").touch()
    assert guard.wait_for("exit")["output"] == ["*** ***", "16"]
    assert "wandb-0123" not in json.dumps(guard.events)
    assert not [path for path in vm.folder.rglob("*") if path.is_file() and b"wandb-0123" in path.read_bytes()]


def test_a_secret_that_may_not_be_read_is_reported(vm: Vm, guard: FakeGuard) -> None:
    """Waiting would not help, so nothing is started."""
    vm.order("touch", "started", secrets={"WANDB": "projects/ml/secrets/wandb"})
    vm.boot()
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert "projects/ml/secrets/wandb/versions/latest:access answered 403" in end["error"]


def test_the_token_stays_with_the_agent(vm: Vm, guard: FakeGuard) -> None:
    """The token is not in the command's environment, in no process's arguments, in no file, and not even in what is
    printed.
    """
    script = f"{WAIT}\nprint(sorted(os.environ))\nprint('is it {guard.token}?')\nwait('go')"
    vm.train(script.replace(guard.token, "' + 'the-token-of' + '-this-attempt' + '"))
    agent = vm.boot()
    pid = guard.wait_for("start")["pid"]
    guard.wait_for("heartbeat", lambda event: "is it ***?" in event["output"])
    for process in (agent.pid, parent(pid), pid):
        shown = Path(f"/proc/{process}/cmdline").read_bytes() + Path(f"/proc/{process}/environ").read_bytes()
        assert guard.token.encode() not in shown
    (vm.work / "go").touch()
    assert vm.finished() == 0
    assert guard.token not in json.dumps(guard.events)
    assert not [path for path in vm.folder.rglob("*") if path.is_file() and guard.token.encode() in path.read_bytes()]


def test_what_the_command_makes_is_as_readable_as_usual(vm: Vm, guard: FakeGuard) -> None:
    """The agent's own files are for root alone; the umask of the command is the usual one."""
    vm.train("open('model', 'w').write('weights')")
    vm.boot()
    guard.wait_for("exit")
    assert (vm.work / "model").stat().st_mode & 0o777 == 0o644
    assert vm.home.stat().st_mode & 0o777 == 0o700
    assert os.access(vm.work / "model", os.R_OK)


def test_a_command_finds_a_home_and_is_heard_at_once(vm: Vm, guard: FakeGuard) -> None:
    """A service has no HOME, and Python holds back what it prints into a pipe; the job's own variables win."""
    vm.order(sys.executable, "-c", f"{WAIT}\nprint(os.environ['HOME'])\nwait('go')", environment={"MODEL": "bert"})
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == [str(Path("~").expanduser())])
    (vm.work / "go").touch()
    assert guard.wait_for("exit")["code"] == 0
