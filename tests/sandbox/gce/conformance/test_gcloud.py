"""The real gcloud against the simulated cloud."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PROJECT, ZONE, NAME = "demo", "us-central1-a", "t4-spot"
AT = ("--zone", ZONE)


class Gcloud:
    """gcloud with a configuration of its own; it knows no credentials, and no way out but the given proxy."""

    def __init__(self, url: str, config: Path, way_out: str) -> None:
        self._process = subprocess.Popen(
            ["gcloud"],
            env={
                **{name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")},
                "CLOUDSDK_PYTHON_ARGS": f"-S {Path(__file__).with_name('gcloud_commands.py')}",
                "CLOUDSDK_CONFIG": str(config),
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{url}/compute/v1/",
                "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
                "CLOUDSDK_CORE_PROJECT": PROJECT,
                "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
                "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
                "CLOUDSDK_CORE_CHECK_GCE_METADATA": "false",
                "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
                "HTTP_PROXY": way_out,
                "HTTPS_PROXY": way_out,
                "NO_PROXY": "127.0.0.1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, whatever it is at."""
        self._process.kill()
        self._process.communicate()

    def __call__(self, *command: str) -> Any:
        """Returns the output of `gcloud compute COMMAND`, read as JSON."""
        status, output, errors = self._run(*command)
        assert status == 0, errors
        return json.loads(output or "null")

    def refused(self, *command: str) -> str:
        """Returns the output where it fails."""
        status, _, errors = self._run(*command)
        assert status != 0
        return errors

    def _run(self, *command: str) -> tuple[int, str, str]:
        to, answers = self._process.stdin, self._process.stdout
        assert to
        assert answers
        to.write(json.dumps(["compute", *command, "--format=json"]) + "\n")
        to.flush()
        status, output, errors = json.loads(answers.readline())
        return status, output, errors


@contextmanager
def barred_way_out() -> Iterator[tuple[str, socket.socket]]:
    """A proxy that never answers: a program that tries to reach the internet hangs at it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", listener


@contextmanager
def served(tmp_path: Path) -> Iterator[tuple[Gcloud, World]]:
    """gcloud and its world; nothing may have left the machine at the end."""
    if shutil.which("gcloud") is None:
        pytest.skip("gcloud is not installed")
    # Waiting for an operation moves the clock to its end, so that no command has to wait in real time.
    world = World(ManualClock(datetime(2026, 11, 20, 9, 0, tzinfo=UTC)), projects=[PROJECT], wait_moves_clock=True)
    with running(world) as url, barred_way_out() as (way_out, proxy):
        with Gcloud(url, tmp_path, way_out) as gcloud:
            yield gcloud, world
        with pytest.raises(BlockingIOError):
            proxy.accept()


def test_gcloud_runs_a_vm_from_create_to_delete(tmp_path: Path) -> None:
    """The commands that people use give what they give against Google, and nothing leaves the machine."""
    with served(tmp_path) as (gcloud, world):
        _runs_its_course(gcloud, world)


def test_gcloud_works_on_several_vms_and_on_disks(tmp_path: Path) -> None:
    """Commands on two VMs, and `images list`, go through the batch endpoint; disks come, move and go."""
    with served(tmp_path) as (gcloud, world):
        _works_in_batches(gcloud, world)
        _moves_a_disk(gcloud, world)
        _makes_vms_in_bulk(gcloud, world)


def _works_in_batches(gcloud: Gcloud, world: World) -> None:
    made = ("instances", "create", "a", "b", *AT, "--machine-type=e2-standard-4")
    created = gcloud(*made, "--image-family=debian-12", "--image-project=debian-cloud")
    assert [vm["name"] for vm in created] == ["a", "b"]
    gcloud("instances", "stop", "a", "b", *AT)
    assert {vm.status for vm in world.instances(PROJECT)} == {"TERMINATED"}
    assert "was not found" in gcloud.refused("instances", "delete", "a", "nobody", *AT)
    assert [vm.name for vm in world.instances(PROJECT)] == ["b"]
    images = gcloud("images", "list")
    assert {"debian-12", "cos-stable", "ubuntu-2404-lts-amd64"} <= {image["family"] for image in images}


def _moves_a_disk(gcloud: Gcloud, world: World) -> None:
    (disk,) = gcloud("disks", "create", "data", "--size=50GB", "--type=pd-ssd", *AT)
    assert (disk["status"], disk["sizeGb"]) == ("READY", "50")
    gcloud("instances", "attach-disk", "b", "--disk=data", *AT)
    assert "is already being used by" in gcloud.refused("disks", "delete", "data", *AT)
    gcloud("instances", "detach-disk", "b", "--disk=data", *AT)
    gcloud("disks", "delete", "data", *AT)
    assert [disk.name for disk in world.disks(PROJECT)] == ["b"]
    gcloud("instances", "set-machine-type", "b", "--machine-type=n2-standard-4", *AT)
    assert world.instance(PROJECT, "b").shape.machine_type == "n2-standard-4"


def _makes_vms_in_bulk(gcloud: Gcloud, world: World) -> None:
    made = gcloud(
        *("instances", "bulk", "create", "--name-pattern=w-##", "--count=3", "--region=us-central1"),
        *("--machine-type=e2-standard-4", "--image-family=debian-12", "--image-project=debian-cloud"),
    )
    assert (made["createdInstanceCount"], made["failedInstanceCount"]) == (3, 0)
    assert {vm.name for vm in world.instances(PROJECT)} == {"b", "w-01", "w-02", "w-03"}
    (bulk,) = gcloud("operations", "list", "--regions=us-central1")
    assert bulk["operationType"] == "bulkInsert"


def _runs_its_course(gcloud: Gcloud, world: World) -> None:
    (created,) = gcloud(
        *("instances", "create", NAME, *AT, "--machine-type=n1-standard-4", "--boot-disk-size=50GB"),
        *("--accelerator=type=nvidia-tesla-t4,count=1", "--provisioning-model=SPOT", "--max-run-duration=4h"),
        *("--instance-termination-action=STOP", "--image-family=debian-12", "--image-project=debian-cloud"),
        "--labels=owner=ana",
    )
    assert (created["name"], created["status"]) == (NAME, "RUNNING")

    described = gcloud("instances", "describe", NAME, *AT)
    scheduling = described["scheduling"]
    assert (scheduling["provisioningModel"], scheduling["preemptible"]) == ("SPOT", True)
    assert scheduling["maxRunDuration"]["seconds"] == "14400"
    assert described["guestAccelerators"][0]["acceleratorType"].endswith("/acceleratorTypes/nvidia-tesla-t4")
    assert described["labels"] == {"owner": "ana"}
    assert described["lastStartTimestamp"] > described["creationTimestamp"]

    assert [vm["name"] for vm in gcloud("instances", "list", f"--zones={ZONE}")] == [NAME]

    gcloud("instances", "stop", NAME, *AT)
    assert world.instance(PROJECT, NAME).status == "TERMINATED"

    gcloud("instances", "add-labels", NAME, *AT, "--labels=team=vision")
    assert world.instance(PROJECT, NAME).given["labels"] == {"owner": "ana", "team": "vision"}

    gcloud("instances", "start", NAME, *AT)
    assert world.instance(PROJECT, NAME).status == "RUNNING"

    struck = world.preempt(PROJECT, NAME)
    preemptions = gcloud("operations", "list", "--filter=operationType:compute.instances.preempted")
    assert [operation["name"] for operation in preemptions] == [struck.name]
    assert preemptions[0]["user"] == "system"

    inserts = gcloud("operations", "list", f"--zones={ZONE}", "--filter=operationType=insert")
    assert [operation["targetId"] for operation in inserts] == [described["id"]]

    gcloud("instances", "delete", NAME, *AT)
    assert world.instances(PROJECT) == []
