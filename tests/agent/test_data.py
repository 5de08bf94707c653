"""Data in and artefacts out: the real agent as a process, with the pinned rclone and a real S3 server."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.published import fill, published
from tests.agent.s3_server import S3Server, rclone_path, s3_server
from tests.agent.test_transfer import transfer_of
from tests.agent.vm import Vm

from costguard_vm.agent.transfers.inputs import ROOM

# Joins the files of its first argument into a file of its second one.
TRAINS = """
import os, pathlib, sys
source, target = map(pathlib.Path, sys.argv[1:3])
target.mkdir(parents=True, exist_ok=True)
names = sorted(path for path in source.rglob("*") if path.is_file())
(target / "model.bin").write_bytes(b"".join(path.read_bytes() for path in names))
(target / "log").mkdir(exist_ok=True)
(target / "log/names.txt").write_text("\\n".join(str(path.relative_to(source)) for path in names))
print("step", len(names))
sys.exit(int(os.environ.get("CODE", "0")))
"""
DATA = {"part-0": b"abc" * 1000, "deep/part 1": b"def"}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "served") as server:
        (server.folder / "acme").mkdir()
        yield server


class DataVm:
    """A VM with data in a bucket, in a folder of this test's own."""

    def __init__(self, vm: Vm, s3: S3Server, name: str) -> None:
        self.vm, self.s3, self.name = vm, s3, name
        (vm.tools / "rclone").symlink_to(rclone_path())
        self.source, self.place = f"s3://acme/{name}/v7", f"s3://acme/{name}/model"
        self.data, self.out = vm.folder / "data", vm.folder / "out"
        self.put(DATA)

    def put(self, files: dict[str, bytes]) -> None:
        folder = self.vm.folder / "to-upload"
        folder.mkdir(exist_ok=True)
        fill(folder, files)
        transfer_of(self.s3.variables, self.vm.folder).upload(str(folder), self.source)

    def train(self, source: str = "", place: str = "", **more: object) -> None:
        environment = {**self.s3.variables, **more.pop("environment", {})}  # type: ignore[dict-item]
        self.vm.order(
            sys.executable,
            "-c",
            TRAINS,
            str(self.data),
            str(self.out),
            environment=environment,
            inputs={str(self.data): source or self.source},
            outputs={place or self.place: str(self.out)},
            job="nightly",
            **more,
        )

    @property
    def objects(self) -> dict[str, bytes]:
        head = f"{self.name}/"
        every = self.s3.objects("acme")
        return {f"s3://acme/{name}": body for name, body in every.items() if name.startswith(head)}

    @property
    def published(self) -> dict[str, bytes] | None:
        return published(self.objects, self.place)


@pytest.fixture
def ground(vm: Vm, s3: S3Server, tmp_path: Path) -> DataVm:
    return DataVm(vm, s3, tmp_path.name)


MODEL = {"model.bin": DATA["deep/part 1"] + DATA["part-0"], "log/names.txt": b"deep/part 1\npart-0"}


def test_data_from_a_bucket_becomes_a_model_in_a_bucket(ground: DataVm, guard: FakeGuard) -> None:
    """Downloaded before the command starts, published after it has succeeded, and both reported with their amounts."""
    ground.train()
    ground.vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["asked"]) == ("exited", 0, None)
    assert ground.published == MODEL
    transfers = {one["kind"]: one for one in end["transfers"]}
    assert (transfers["input"]["state"], transfers["output"]["state"]) == ("done", "done")
    assert (transfers["input"]["files_done"], transfers["input"]["bytes_done"]) == (2, 3003)
    assert transfers["output"]["target"] == ground.place


def test_data_is_not_downloaded_again_by_a_vm_that_is_started_again(ground: DataVm, guard: FakeGuard) -> None:
    """The bucket's present contents do not matter; a file that was changed on the disk is brought back.

    The command fails each time, so nothing is published, not even where it would wait.
    """
    ground.train(environment={"CODE": "3"}, resume=True)
    ground.vm.boot()
    assert ground.vm.finished() == 0
    ground.put({"later": b"later"})
    ground.vm.restart()
    end = guard.wait_for("exit", lambda event: event["run"] == 2)
    assert {one["kind"]: one["state"] for one in end["transfers"]} == {"input": "skipped"}
    assert ground.vm.finished() == 0
    (ground.data / "part-0").write_bytes(b"changed")
    ground.vm.restart()
    end = guard.wait_for("exit", lambda event: event["run"] == 3)
    assert end["transfers"][0]["state"] == "done"
    assert (ground.data / "part-0").read_bytes() == DATA["part-0"]
    assert not [name for name in ground.objects if name.startswith(ground.place)]


@pytest.mark.parametrize(("is_input", "words"), [(True, "bucket s3://nowhere"), (False, "bucket s3://nowhere")])
def test_a_bucket_that_does_not_exist_ends_before_the_command(
    ground: DataVm, guard: FakeGuard, is_input: bool, words: str
) -> None:
    """It would not exist for another VM either."""
    ground.train(**({"source": "s3://nowhere/v7"} if is_input else {"place": "s3://nowhere/model"}))
    ground.vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert words in end["error"]
    assert not (ground.vm.logs / "nightly-7f3a-1.1.log").exists() or ground.vm.output() == ""


def test_wrong_credentials_end_before_the_command(ground: DataVm, guard: FakeGuard) -> None:
    """The credentials are named, not shown."""
    ground.train(environment={"AWS_SECRET_ACCESS_KEY": "another-secret-of-someone"})
    ground.vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "credentials" in end["error"]
    assert "another-secret-of-someone" not in str(guard.events)


def test_data_that_does_not_fit_on_the_disk_ends_before_its_download(ground: DataVm, guard: FakeGuard) -> None:
    """The error says how much is there and how much is free."""
    shared = ground.vm.folder / "shared"
    shared.mkdir()
    disk = os.statvfs(shared)
    with (shared / "huge").open("wb") as file:
        file.truncate(disk.f_bavail * disk.f_frsize + ROOM)  # holds nothing, and takes no room
    ground.train(source=shared.as_uri())
    ground.vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "take a larger one (--disk)" in end["error"]
    assert not ground.data.exists()


def test_a_single_object_is_downloaded_to_its_path_or_into_a_folder(ground: DataVm, guard: FakeGuard) -> None:
    """A slash at the end makes it a folder."""
    ground.data.mkdir()
    ground.train()
    ground.vm.order(
        sys.executable,
        "-c",
        TRAINS,
        str(ground.data),
        str(ground.out),
        environment=ground.s3.variables,
        inputs={f"{ground.data}/one": f"{ground.source}/part-0", f"{ground.data}/sub/": f"{ground.source}/part-0"},
    )
    ground.vm.boot()
    end = guard.wait_for("exit")
    assert (end["code"], end["error"]) == (0, "")
    assert (ground.data / "one").read_bytes() == DATA["part-0"]
    assert (ground.data / "sub/part-0").read_bytes() == DATA["part-0"]


def test_a_shared_folder_serves_like_a_bucket(ground: DataVm, guard: FakeGuard) -> None:
    """A shared folder publishes by renaming, as in the sandbox."""
    shared = ground.vm.folder / "shared"
    place = (shared / "model").as_uri()
    (shared / "v7").mkdir(parents=True)
    (shared / "v7/part").write_bytes(b"abc")
    ground.train(source=(shared / "v7").as_uri(), place=place)
    ground.vm.boot()
    assert guard.wait_for("exit")["reason"] == "exited"
    names = {path.relative_to(shared / "model").as_posix() for path in (shared / "model").rglob("*") if path.is_file()}
    assert names == {"model.bin", "log/names.txt", "_SUCCESS"}


def test_an_agent_that_is_killed_while_it_publishes_goes_on(ground: DataVm, guard: FakeGuard) -> None:
    """systemd starts it again; the command, which has succeeded, is not run again. Heartbeats say what the VM does."""
    ground.put({"large": os.urandom(4 << 20)})
    ground.train(bandwidth_mib_s=2)
    ground.vm.boot()
    beat = guard.wait_for("heartbeat", lambda event: event.get("phase") == "downloading" and "transfers" in event)
    assert not beat["is_running"]
    guard.wait_for("heartbeat", lambda event: event.get("phase") == "publishing")
    ground.vm.crash()
    ground.vm.boot()
    assert guard.wait_for("exit")["reason"] == "exited"
    assert ground.published is not None
    assert guard.kinds_once().count("start") == 1


@pytest.mark.parametrize("is_noticed", [False, True])
def test_vm_that_ends_before_its_outputs_are_published_has_not_succeeded(
    ground: DataVm, guard: FakeGuard, is_noticed: bool
) -> None:
    """The command ended with code 0 by itself; yet a report of success would leave its job without its outputs."""
    ground.put({"large": os.urandom(8 << 20)})
    ground.train(bandwidth_mib_s=1)
    ground.vm.boot()
    guard.wait_for("heartbeat", lambda event: event.get("phase") == "publishing")
    if is_noticed:
        ground.vm.metadata.set("instance/preempted", "TRUE")
        guard.wait_for("notice")
    ground.vm.agents[-1].send_signal(signal.SIGTERM)
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"]) == ("exited", 0)
    assert end["asked"] == ("preemption" if is_noticed else "shutdown")
