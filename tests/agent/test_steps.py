"""The steps before a command: which run at once, which one after the other, and what ends them all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.docker_stub import IMAGE, NO_TAG, put_docker
from tests.agent.fake_guard import FakeGuard
from tests.agent.s3_server import S3Server, rclone_path, s3_server
from tests.agent.test_code import serve
from tests.agent.vm import Vm
from tests.waiting import until

from costguard_vm.agent.settings import AttemptSettings, NotStarted
from costguard_vm.agent.steps import StepBefore, run_together
from costguard_vm.agent.transfers.phases import Phases
from costguard_vm.agent.transfers.preparation import Stage, StageFolders

# A tool that notes when it begins and ends, and before it does its work waits for the files that its plan names.
HELD = """
import json, os, pathlib, subprocess, sys, time
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
plan = json.loads((here / "held").read_text())
tool = plan["tools"][pathlib.Path(__file__).name]
name = next((name for name, marks in plan["marks"].items() if all(mark in words for mark in marks)), "")
def note(what):
    with open(here / "order", "a") as file:
        file.write(f"{what} {name}\\n")
if not name:
    os.execv(tool, [tool, *words])
(here / f"{name}.pid").write_text(str(os.getpid()))
note("begin")
ends = time.monotonic() + 80
while not all((here / awaited).exists() for awaited in plan["waits"].get(name, [])):
    if time.monotonic() > ends:
        sys.exit(9)
    time.sleep(0.01)
if name == plan["fails"]:
    sys.exit("it fails")
done = subprocess.run([tool, *words])
note("end")
sys.exit(done.returncode)
"""
SMI = """
import pathlib
here = pathlib.Path(__file__).parent
(here / "gpu.pid").touch()
if (here / "image.pid").exists() and (here / "inputs.pid").exists():
    print("0, GPU-1, Tesla T4, 97, 1024, 15360")
"""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "served") as server:
        data = server.folder / "lab/v7"
        data.mkdir(parents=True)
        (data / "part-0").write_bytes(b"abc" * 1000)
        saved = server.folder / "lab/run/step-7"
        saved.mkdir(parents=True)
        (saved / "weights").write_bytes(b"seven")
        (saved / "DONE").touch()
        yield server


class SteppedVm:
    """A VM whose pull of the image, input and checkpoint each wait for what a test says."""

    def __init__(self, vm: Vm, s3: S3Server) -> None:
        self.vm, self.s3, self.go = vm, s3, vm.tools / "go"
        self.data, self.saved = vm.folder / "data", vm.folder / "saved"
        put_docker(vm)

    def begin(self, waits: dict[str, list[str]], inputs: Path | None = None, fails: str = "", **more: Any) -> None:
        """`waits` names files below the tools for which image, inputs and checkpoint wait; `fails` does so then."""
        docker = self.vm.tools / "docker"
        docker.rename(self.vm.tools / "real-docker")
        target = inputs or self.data
        marks = {"image": ["pull"], "inputs": ["s3:lab/v7", str(target)], "checkpoint": [str(self.saved)]}
        tools = {"docker": str(self.vm.tools / "real-docker"), "rclone": rclone_path()}
        (self.vm.tools / "held").write_text(
            json.dumps({"marks": marks, "tools": tools, "waits": waits, "fails": fails})
        )
        for name in tools:
            self.vm.tool(name, HELD)
        checkpoint = {"location": "s3://lab/run", "local": str(self.saved), "framework": "marker", "marker": "DONE"}
        self.vm.train(
            "print('trained')",
            image=IMAGE,
            mounts=[f"{self.vm.folder}:{self.vm.folder}"],
            inputs={str(target): "s3://lab/v7"},
            checkpoint={**checkpoint, "resume_from": "s3://lab/run/step-7"},
            environment=self.s3.variables,
            **more,
        )
        self.vm.boot()

    def has_begun(self, *names: str) -> bool:
        return all((self.vm.tools / f"{name}.pid").exists() for name in names)

    def order(self) -> list[str]:
        return (self.vm.tools / "order").read_text().splitlines()

    def is_over(self, name: str) -> bool:
        return not Path("/proc", (self.vm.tools / f"{name}.pid").read_text()).exists()


@pytest.fixture
def ground(vm: Vm, s3: S3Server) -> SteppedVm:
    return SteppedVm(vm, s3)


def test_image_input_checkpoint_and_driver_are_awaited_at_once(ground: SteppedVm, guard: FakeGuard) -> None:
    """Each here waits until all the others have begun, so that one after the other they would never end."""
    everyone = ["image.pid", "inputs.pid", "checkpoint.pid", "gpu.pid"]
    ground.vm.tool("nvidia-smi", SMI)
    ground.begin(dict.fromkeys(("image", "inputs", "checkpoint"), everyone), gpus=1, code=serve(guard), workdir="")
    end = guard.wait_for("exit")
    assert (end["code"], end["output"]) == (0, ["trained"])
    assert (ground.data / "part-0").read_bytes() == b"abc" * 1000
    assert (ground.saved / "step-7/weights").read_bytes() == b"seven"
    assert guard.fetched == ["code"]


def test_checkpoint_goes_over_an_input_in_the_same_folder(ground: SteppedVm, guard: FakeGuard) -> None:
    """A base model is downloaded to the folder in which its successors are saved."""
    ground.begin({}, inputs=ground.saved)
    assert guard.wait_for("exit")["code"] == 0
    downloads = [line for line in ground.order() if "image" not in line]
    assert downloads == ["begin inputs", "end inputs", "begin checkpoint", "end checkpoint"]


def test_limited_transfers_still_run_one_after_the_other(ground: SteppedVm, guard: FakeGuard) -> None:
    """The limit is that of all together, and each rclone knows its own alone."""
    ground.begin({}, bandwidth_mib_s=50)
    assert guard.wait_for("exit")["code"] == 0
    kinds = [line.split()[0] for line in ground.order() if "image" not in line]
    assert kinds == ["begin", "end", "begin", "end"]


def test_first_failure_ends_the_others_and_is_reported(ground: SteppedVm, guard: FakeGuard) -> None:
    """The download never ends by itself; its process is gone, and the exit says what Docker said."""
    put_docker(ground.vm, pull=(1, NO_TAG), image=(1, "Error: No such image"))
    ground.begin({"image": ["inputs.pid"], "inputs": ["never"]})
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"], end["asked"]) == ("not_started", True, None)
    assert "manifest unknown" in end["error"]
    (transfer,) = end["transfers"]
    assert (transfer["state"], transfer["error"]) == (
        "failed",
        "it was ended: another step before the command failed",
    )
    assert ground.is_over("inputs")


def test_download_that_fails_ends_a_pull(ground: SteppedVm, guard: FakeGuard) -> None:
    """The other way round: what Docker does is killed."""
    ground.begin({"image": ["never"], "inputs": ["image.pid"]}, fails="inputs")
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert "s3://lab/v7" in end["error"]
    assert ground.is_over("image")


def test_cancelled_job_ends_all_that_is_under_way(ground: SteppedVm, guard: FakeGuard) -> None:
    """The job is not started, because of the cancellation, as while a single step ran."""
    ground.begin({name: ["never"] for name in ("image", "inputs", "checkpoint")})
    until(lambda: ground.has_begun("image", "inputs", "checkpoint"))
    guard.is_to_cancel = True
    end = guard.wait_for("exit")
    assert (end["reason"], end["asked"]) == ("not_started", "cancel")
    assert end["error"] == "cancel came before the command was started"
    assert all(ground.is_over(name) for name in ("image", "inputs", "checkpoint"))


def test_vm_that_ends_in_the_middle_reports_no_exit(ground: SteppedVm, guard: FakeGuard) -> None:
    """A driver's installer restarts the VM: the next boot starts the command, and what was downloaded stays."""
    ground.begin({"image": ["go"]}, resume=True)
    guard.wait_for("heartbeat", lambda event: [one["state"] for one in event.get("transfers", ())] == ["done"])
    ground.vm.agents[-1].terminate()
    ground.vm.finished()
    assert "exit" not in guard.kinds()
    ground.go.touch()
    ground.vm.restart()
    assert guard.wait_for("exit")["output"] == ["trained"]
    assert ground.order().count("begin inputs") == 1


def test_agent_that_is_killed_in_the_middle_goes_on(ground: SteppedVm, guard: FakeGuard) -> None:
    """systemd starts it again: what is complete is skipped, and the pull begins again."""
    ground.begin({"image": ["go"]}, code=serve(guard), workdir="")
    guard.wait_for("heartbeat", lambda event: [one["state"] for one in event.get("transfers", ())] == ["done"])
    until(lambda: "end checkpoint" in ground.order())
    ground.vm.crash()
    ground.go.touch()
    ground.vm.boot()
    end = guard.wait_for("exit")
    assert (end["code"], end["output"]) == (0, ["trained"])
    assert [one["state"] for one in end["transfers"]] == ["skipped"]
    assert ground.order().count("begin inputs") == 1
    assert ground.order().count("begin image") == 2


def run(steps: dict[str, StepBefore], hold: Callable[[float], Any] = lambda _: None) -> None:
    nothing: Any = None
    stage = Stage(AttemptSettings(), 1, StageFolders("", ""), hold, nothing, lambda *_, **__: None, Phases())
    run_together(steps, stage)


def test_step_begins_after_those_that_it_comes_after() -> None:
    """The order does not depend on how they are listed; the others do not wait."""
    ended: list[str] = []
    run(
        {
            "last": StepBefore(lambda _: ended.append("last"), ("middle",)),
            "middle": StepBefore(lambda _: ended.append("middle"), ("first",)),
            "first": StepBefore(lambda _: ended.append("first")),
        }
    )
    assert ended == ["first", "middle", "last"]


def test_step_after_a_failure_does_not_begin() -> None:
    """The first failure itself is raised, with what it says of other VMs."""
    begun: list[str] = []

    def fail(_: Stage) -> None:
        raise NotStarted("there is no such image", True)

    with pytest.raises(NotStarted, match="no such image") as raised:
        run({"image": StepBefore(fail), "setup": StepBefore(lambda _: begun.append("setup"), ("image",))})
    assert raised.value.repeats
    assert begun == []


def test_long_wait_ends_soon_after_a_failure() -> None:
    """A step that waits an hour to try again is not waited for; and its own end is not what is reported."""
    slept: list[float] = []

    def fail(_: Stage) -> None:
        raise NotStarted("failed")

    with pytest.raises(NotStarted, match="failed"):
        run({"slow": StepBefore(lambda stage: stage.wait(3600)), "image": StepBefore(fail)}, slept.append)
    assert all(seconds <= 1 for seconds in slept)
