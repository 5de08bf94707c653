"""Docker, GPUs and secrets."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.agent.fake_guard import FakeGuard
from tests.agent.fake_metadata import VM_TOKEN
from tests.agent.scripts import IGNORES, WAIT
from tests.agent.vm import ATTEMPT, Vm, parent

# Notes each call, then does as docker would: the command runs in a process of its own, which gets the signals.
DOCKER = """
import json, os, pathlib, signal, subprocess, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
given = sys.stdin.read() if "login" in arguments else ""
with open(here / "calls", "a") as file:
    file.write(json.dumps({"arguments": arguments, "stdin": given, "token": os.environ.get("API_KEY")}) + "\\n")
if "run" in arguments:
    image = next(n for n, word in enumerate(arguments) if word.startswith(("europe-docker", "busybox")))
    # sh -c: of a group of its own, as a container is
    child = subprocess.Popen(arguments[image + 1:], start_new_session=True)
    (here / "container").write_text(str(child.pid))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)
if "kill" in arguments:
    os.kill(int((here / "container").read_text()), 9)
"""
IMAGE = "europe-docker.pkg.dev/ml/train/bert@sha256:" + "a" * 64


def calls(vm: Vm) -> list[dict[str, object]]:
    return [json.loads(line) for line in (vm.tools / "calls").read_text().splitlines()]


def test_an_image_is_run_by_docker(vm: Vm, guard: FakeGuard) -> None:
    """With GPUs, mounts and variables by name alone; the registry is logged in to as the VM's service account."""
    vm.tool("docker", DOCKER)
    vm.tool("nvidia-smi", "print('0, GPU-1, Tesla T4, 97, 1024, 15360')")
    vm.metadata.secrets["projects/ml/secrets/key/versions/latest"] = "a-secret-key"
    vm.order(
        sys.executable,
        "-c",
        "import os; print('step 5', os.environ['MODEL'])",
        image=IMAGE,
        gpus=1,
        workdir="/workspace",
        environment={"MODEL": "bert"},
        secrets={"API_KEY": "projects/ml/secrets/key"},
        mounts=["/data:/data:ro"],
        docker_args=["--shm-size=8g"],
    )
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["code"], end["output"]) == (0, ["step 5 bert"])
    assert guard.wait_for("start")["image"] == IMAGE
    login, run = calls(vm)
    assert login["arguments"][-1] == "https://europe-docker.pkg.dev"  # type: ignore[index]
    assert login["stdin"] == VM_TOKEN
    words = " ".join(run["arguments"])  # type: ignore[arg-type]
    for part in (
        "--gpus all",
        "--workdir /workspace",
        "--volume /data:/data:ro",
        "--env MODEL",
        "--shm-size=8g",
        "--init",
    ):
        assert part in words
    assert f"--name costguard-{ATTEMPT}-1" in words
    assert run["token"] == "a-secret-key"
    assert "a-secret-key" not in words
    assert VM_TOKEN not in words


def test_a_container_gets_notice_and_is_killed_by_name(vm: Vm, guard: FakeGuard) -> None:
    """Ending docker's client alone would leave the container at work."""
    vm.tool("docker", DOCKER)
    vm.order(sys.executable, "-u", "-c", IGNORES, image="busybox", notice_grace_s=3)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["ready"])
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert end["was_killed"]
    assert end["output"] == ["ready", "not yet"]
    assert calls(vm)[-1]["arguments"] == ["kill", f"costguard-{ATTEMPT}-1"]
    container = int((vm.tools / "container").read_text())
    assert not Path(f"/proc/{container}").exists() or "Z" in Path(f"/proc/{container}/stat").read_text().split()[2]


def test_an_image_without_docker_is_told_as_not_started(vm: Vm, guard: FakeGuard) -> None:
    """With what to change."""
    vm.path = str(vm.tools)
    vm.order("python", "train.py", image="busybox:1.36")
    vm.boot()
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert "this VM has no docker" in end["error"]


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


def test_a_secret_that_may_not_be_read_is_told(vm: Vm, guard: FakeGuard) -> None:
    """Waiting would not help, so nothing is started."""
    vm.order("touch", "started", secrets={"WANDB": "projects/ml/secrets/wandb"})
    vm.boot()
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert "projects/ml/secrets/wandb/versions/latest:access answered 403" in end["error"]


def test_the_token_stays_with_the_agent(vm: Vm, guard: FakeGuard) -> None:
    """Not in the command's environment, in no process's arguments, in no file, and not even in what is printed."""
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
