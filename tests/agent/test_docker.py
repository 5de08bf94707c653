"""Containers: the image's digest, what Docker says, and whose exit code it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.agent.docker_stub import (
    DIGEST,
    IMAGE,
    INIT_FAILED,
    NEVER_STARTED,
    NO_REPOSITORY,
    NO_TAG,
    PINNED,
    RAN,
    calls,
    put_docker,
)
from tests.agent.fake_guard import FakeGuard
from tests.agent.fake_metadata import VM_TOKEN
from tests.agent.scripts import IGNORES, WAIT
from tests.agent.vm import ATTEMPT, Vm, wait_until_unlocked

CONTAINER = f"costguard-{ATTEMPT}-1"


def test_an_image_is_run_by_docker(vm: Vm, guard: FakeGuard) -> None:
    """The container has GPUs, mounts and variables by name alone; the registry is logged in to as the VM's service
    account.
    """
    put_docker(vm)
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
    (login,), (run,) = calls(vm, "login"), calls(vm, "run")
    assert login["arguments"][-1] == "https://europe-docker.pkg.dev"
    assert login["stdin"] == VM_TOKEN
    words = " ".join(run["arguments"])
    for part in (
        "--gpus all",
        "--workdir /workspace",
        "--volume /data:/data:ro",
        "--env MODEL",
        "--shm-size=8g",
        "--init",
    ):
        assert part in words
    assert f"--name {CONTAINER}" in words
    assert run["token"] == "a-secret-key"
    assert "a-secret-key" not in words
    assert VM_TOKEN not in words
    wait_until_unlocked(vm.run_folders()[0] / "lock")
    assert calls(vm)[-1]["arguments"] == ["rm", "--force", CONTAINER]


def test_a_tag_is_resolved_to_a_digest_that_is_reported_and_run(vm: Vm, guard: FakeGuard) -> None:
    """The digest is reported before the command starts, and the container is made from it, not from the tag."""
    put_docker(vm)
    vm.order("true", image=IMAGE)
    vm.boot()
    guard.wait_for("exit")
    assert [guard.wait_for("image")[key] for key in ("image", "digest")] == [IMAGE, DIGEST]
    assert guard.kinds() == ["boot", "image", "start", "exit"]
    (run,) = calls(vm, "run")
    assert run["arguments"][-2:] == [PINNED, "true"]


@pytest.mark.parametrize("pull", [False, True])
def test_a_second_run_on_the_vm_uses_the_first_digest_unless_the_tag_is_asked_for_again(
    vm: Vm, guard: FakeGuard, pull: bool
) -> None:
    """The tag was moved meanwhile: only `pull` follows it."""
    put_docker(vm)
    go = vm.folder / "go"
    vm.order(sys.executable, "-u", "-c", f"{WAIT}\nwait({str(go)!r})", image=IMAGE, pull=pull, resume=True)
    vm.boot()
    guard.wait_for("start")
    vm.reboot()
    moved = "sha256:" + "b" * 64
    put_docker(vm, moved)
    vm.boot()
    guard.wait_for("image", count=2)
    assert guard.wait_for("image", count=2)["digest"] == (moved if pull else DIGEST)
    go.touch()
    assert guard.wait_for("exit", lambda event: event["run"] == 2)["code"] == 0
    assert [call["arguments"][-1] for call in calls(vm, "pull")] == [IMAGE, IMAGE if pull else PINNED]


@pytest.mark.parametrize("words", [NO_TAG, NO_REPOSITORY])
def test_an_image_that_does_not_exist_is_certain_to_repeat(vm: Vm, guard: FakeGuard, words: str) -> None:
    """Docker's own words reach the guard, no container is made, and the exit says that another VM would not help."""
    put_docker(vm, pull=(1, f"Using default tag: latest\n{words}"), image=(1, "Error: No such image"))
    vm.order("true", image="busybox:none")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert end["error"] == f"docker pull busybox:none failed: {words}"
    assert calls(vm, "run") == []
    assert len(calls(vm, "pull")) == 1


def test_a_registry_that_is_away_is_asked_again(vm: Vm, guard: FakeGuard) -> None:
    """A failure that may pass is no verdict about the image."""
    trouble = (
        1,
        'Error response from daemon: Get "https://europe-docker.pkg.dev/v2/": net/http: TLS handshake timeout',
    )
    put_docker(vm, pulls=[trouble, trouble, (0, "Status: Image is up to date")])
    vm.order("true", image=IMAGE)
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert len(calls(vm, "pull")) == 3


def test_an_image_of_the_vm_itself_needs_no_registry(vm: Vm, guard: FakeGuard) -> None:
    """A copy that was built into the boot image is used as it is, and has no digest."""
    inspected = json.dumps([{"Id": "sha256:" + "f" * 64, "RepoTags": ["busybox:local"], "RepoDigests": []}])
    put_docker(vm, pull=(1, NO_REPOSITORY), image=(0, inspected))
    vm.order("true", image="busybox:local")
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert guard.wait_for("image")["digest"] == ""


GPU = 'could not select device driver "" with capabilities: [[gpu]].'
GONE = (1, "Error response from daemon: No such container: c")


@pytest.mark.parametrize(
    ("run", "container", "said"),
    [
        ((127, INIT_FAILED), RAN, "exec /nonexistent failed: No such file or directory"),
        ((127, "docker: Error response from daemon: failed to create task"), NEVER_STARTED, NEVER_STARTED["Error"]),
        (
            (126, "docker: permission denied"),
            {**NEVER_STARTED, "Error": "exec: permission denied"},
            "exec: permission denied",
        ),
        (
            (125, f"docker: Error response from daemon: {GPU}\n\nRun 'docker run --help' for more information"),
            None,
            GPU,
        ),
    ],
)
def test_a_command_that_docker_never_ran_is_certain_to_repeat(
    vm: Vm, guard: FakeGuard, run: tuple[int, str], container: dict[str, object] | None, said: str
) -> None:
    """Codes 125 to 127 of a container whose command never ran: Docker's words, and no retry."""
    put_docker(vm, run=run, container=GONE if container is None else (0, json.dumps(container)))
    vm.order("true", image=IMAGE)
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["repeats"]) == ("not_started", run[0], True)
    assert end["error"] == f"Docker ran no command, and ended with code {run[0]}: {said}"


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_commands_own_exit_code_stays_its_own(vm: Vm, guard: FakeGuard, code: int) -> None:
    """A container that ran may end with Docker's codes: a shell's missing program, or `timeout`."""
    put_docker(vm, run=(code, "train.sh: line 3: accelerate: not found"), container=(0, json.dumps(RAN)))
    vm.order("true", image=IMAGE)
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["repeats"]) == ("exited", code, False)


def test_a_container_gets_notice_and_is_killed_by_name(vm: Vm, guard: FakeGuard) -> None:
    """Ending docker's client alone would leave the container at work."""
    put_docker(vm)
    vm.order(sys.executable, "-u", "-c", IGNORES, image="busybox", notice_grace_s=3)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["ready"])
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert end["was_killed"]
    assert end["output"] == ["ready", "not yet"]
    assert [call["arguments"] for call in calls(vm, "kill")] == [["kill", CONTAINER]]
    container = int((vm.tools / "container").read_text())
    assert not Path(f"/proc/{container}").exists() or "Z" in Path(f"/proc/{container}/stat").read_text().split()[2]


def test_an_image_without_docker_is_reported_as_not_started(vm: Vm, guard: FakeGuard) -> None:
    """The report says what to change."""
    vm.path = str(vm.tools)
    vm.order("python", "train.py", image="busybox:1.36")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "this VM has no docker" in end["error"]


def test_private_registry_is_pulled_from_with_a_secret(vm: Vm, guard: FakeGuard) -> None:
    """Docker gets its own configuration for the pull alone; the command and the disk never hold it."""
    auth = json.dumps({"auths": {"ghcr.io": {"auth": "YW5hOnMzY3JldA=="}}})
    vm.metadata.secrets["projects/ml/secrets/registries/versions/latest"] = auth
    put_docker(vm)
    show = "import os; print(os.environ.get('DOCKER_AUTH_CONFIG'))"
    secrets = {"DOCKER_AUTH_CONFIG": "projects/ml/secrets/registries"}
    vm.order(sys.executable, "-c", show, image="busybox:1", secrets=secrets)
    vm.boot()
    assert guard.wait_for("exit")["output"] == ["None"]
    (pull,) = calls(vm, "pull")
    assert json.loads(pull["config"]) == json.loads(auth)
    assert "YW5hOnMzY3JldA" not in " ".join(pull["arguments"])
    left = [path for path in vm.folder.rglob("*") if path.is_file() and b"YW5hOnMzY3JldA" in path.read_bytes()]
    assert left == [vm.tools / "calls"], "only the stub's own notes hold it"


def test_wrong_configuration_of_registries_is_certain_to_repeat(vm: Vm, guard: FakeGuard) -> None:
    """The configuration is not shown."""
    vm.metadata.secrets["projects/ml/secrets/registries/versions/latest"] = "ana:s3cret"
    put_docker(vm)
    vm.order("true", image="busybox:1", secrets={"DOCKER_AUTH_CONFIG": "projects/ml/secrets/registries"})
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "DOCKER_AUTH_CONFIG must be JSON" in end["error"]
    assert "s3cret" not in end["error"]
