"""Checkpoints that travel by themselves: the real agent, a real S3 server, and a command that saves to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.s3_server import S3Server, rclone_path, s3_server
from tests.agent.scripts import WAIT
from tests.agent.test_transfer import tree
from tests.agent.vm import Vm
from tests.checkpoints.places import Written
from tests.checkpoints.writers import hugging_face, torch_dcp, torch_zip

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard_vm.model.checkpoint import CheckpointLook, LookFor

UPLOADING = ".costguard/uploading/"
# Saves the checkpoints that its environment names, each a folder with a marker; `!` leaves the marker out.
SAVES = """
import os, pathlib, signal, sys
print(sys.argv[1:])
def save(name):
    place = pathlib.Path(os.environ["SAVED"]) / name.rstrip("!")
    place.mkdir(parents=True, exist_ok=True)
    (place / "weights").write_bytes(name.encode() * 1000)
    if not name.endswith("!"):
        (place / "DONE").touch()
for name in os.environ["NOW"].split():
    save(name)
"""


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path / "served") as server:
        (server.folder / "lab").mkdir()
        yield server


@pytest.fixture(autouse=True)
def has_rclone(vm: Vm) -> None:
    (vm.tools / "rclone").symlink_to(rclone_path())


def _train(vm: Vm, s3: S3Server, saves: str, script: str = SAVES, **more: Any) -> None:
    saved = str(vm.folder / "saved")
    checkpoint = {"location": "s3://lab/run", "local": saved, "framework": "marker", "marker": "DONE", "keep": "2"}
    vm.train(
        script,
        checkpoint={**checkpoint, **more.pop("checkpoint", {})},
        resume_arguments=["--from", "{checkpoint}", "--at={step}"],
        environment={"NOW": saves, "SAVED": saved, **s3.variables, **more.pop("environment", {})},
        look_s=0.2,
        **more,
    )


def _remote(s3: S3Server) -> dict[str, bytes]:
    """Returns the files at the location, without our own notes."""
    seen = {name.removeprefix("run/"): content for name, content in s3.objects("lab").items()}
    return {name: content for name, content in seen.items() if name != ".costguard/attempt"}


def test_complete_checkpoints_are_in_the_bucket_when_the_command_has_ended(
    vm: Vm, guard: FakeGuard, s3: S3Server
) -> None:
    """The newest two complete checkpoints are there; the torn one stays on the VM, and no note of ours is left."""
    _train(vm, s3, "step-10 step-20 step-30 step-40!")
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert set(_remote(s3)) == {f"step-{step}/{name}" for step in (20, 30) for name in ("weights", "DONE")}
    assert _remote(s3)["step-30/weights"] == b"step-30" * 1000
    saved = [event["name"] for event in guard.events if event["kind"] == "saved"]
    assert saved == ["step-30", "step-20"]


def test_a_checkpoint_is_uploaded_while_the_command_runs(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """Long before its end; and once only, however often the folder is looked at."""
    _train(vm, s3, "step-10", SAVES + WAIT + "\nwait('go')")
    vm.boot()
    guard.wait_for("saved")
    assert set(_remote(s3)) == {"step-10/weights", "step-10/DONE"}
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert len([event for event in guard.events if event["kind"] == "saved"]) == 1


def test_the_next_vm_resumes_from_the_bucket(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The chosen checkpoint is on its disk before the command starts, which is given its path there."""
    tree = s3.folder / "lab/run/step-20"
    tree.mkdir(parents=True)
    (tree / "weights").write_bytes(b"w")
    (tree / "DONE").touch()
    _train(vm, s3, "", checkpoint={"resume_from": "s3://lab/run/step-20", "step": "20"})
    vm.boot()
    best = vm.folder / "saved/step-20"
    assert guard.wait_for("exit")["output"] == [f"['--from', '{best}', '--at=20']"]
    assert (best / "weights").read_bytes() == b"w"
    assert not [event for event in guard.events if event["kind"] == "saved"]


@pytest.mark.parametrize("notice_s", [0, 600])
def test_a_notice_flushes_what_is_complete(vm: Vm, guard: FakeGuard, s3: S3Server, notice_s: int) -> None:
    """The command's save on SIGTERM is uploaded after its end. In the last seconds of a VM the exit does not wait for
    it; within a notice it does, since the guard deletes a VM whose command has ended.
    """
    on_term = "\nsignal.signal(signal.SIGTERM, lambda *_: (save('step-77'), sys.exit(0)))"
    _train(vm, s3, "step-10", SAVES + on_term + WAIT + "\nwait('never')", heartbeat_s=0.1, notice_s=notice_s)
    vm.boot()
    guard.wait_for("saved")
    vm.metadata.set("instance/preempted", "TRUE")
    flushed = guard.wait_for("flushed")
    assert flushed["why"] == "preemption"
    assert flushed["saved"] == ["step-10", "step-77"]
    assert flushed["left"] == []
    assert "step-77/DONE" in _remote(s3)
    guard.wait_for("exit")
    assert (guard.kinds().index("exit") > guard.kinds().index("flushed")) is bool(notice_s)


def test_a_location_that_cannot_be_written_is_known_before_the_command_runs(
    vm: Vm, guard: FakeGuard, s3: S3Server
) -> None:
    """The failure comes before the first checkpoint is complete, two hours later; another VM would do no better."""
    _train(vm, s3, "step-10", checkpoint={"location": "s3://no-such-bucket/run"})
    vm.boot()
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert "the bucket s3://no-such-bucket does not exist" in end["error"]
    assert end["repeats"]


def test_what_an_earlier_upload_left_is_deleted(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The list of its files lies next to them, since no layout can name the parts of a torn upload."""
    left = s3.folder / "lab/run"
    (left / "step-5").mkdir(parents=True)
    (left / "step-5/weights").write_bytes(b"half")
    (left / UPLOADING).mkdir(parents=True)
    (left / UPLOADING / "step-5").write_text("step-5/weights\nstep-5/DONE\n")
    _train(vm, s3, "step-10")
    vm.boot()
    guard.wait_for("exit")
    assert set(_remote(s3)) == {"step-10/weights", "step-10/DONE"}


def test_a_checkpoint_written_over_takes_another_place(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The only complete one is never touched: a VM lost in the middle would leave nothing to resume from."""
    again = SAVES + WAIT + "\nwait('go')\n(pathlib.Path(os.environ['SAVED']) / 'step-10/weights').write_bytes(b'new')"
    _train(vm, s3, "step-10", again)
    vm.boot()
    guard.wait_for("saved")
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert _remote(s3)["step-10/weights"] == b"step-10" * 1000
    assert _remote(s3)[".costguard/slots/1/step-10/weights"] == b"new"


def test_a_restarted_agent_uploads_nothing_again(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The notes on the disk name what is there."""
    _train(vm, s3, "step-10", SAVES + WAIT + "\nwait('go')")
    vm.boot()
    guard.wait_for("saved")
    marker = s3.folder / "lab/run/step-10/DONE"
    written_at = marker.stat().st_mtime_ns
    vm.crash()
    vm.boot()
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert marker.stat().st_mtime_ns == written_at
    assert len([event for event in guard.events if event["kind"] == "saved"]) == 1


# Moves what lies ready into the place where it saves, as a framework does with a file or folder that it has written.
MOVES = """
import os, pathlib, sys
print(sys.argv[1:])
place = pathlib.Path(os.environ["SAVED"])
for name in os.environ["NOW"].split():
    place.mkdir(parents=True, exist_ok=True)
    os.rename(pathlib.Path(os.environ["READY"]) / name, place / name)
"""


def _ready(vm: Vm, written: list[Written]) -> dict[str, str]:
    return {"READY": str(tree(vm.folder / "ready", dict(written)))}


def _look(s3: S3Server, name: str) -> CheckpointLook:
    """Judges as the guard does. rclone answers some ranges with status 200, which its client refuses."""
    return StoredCheckpoints(StoreAccess()).look(f"file://{s3.folder}/lab/{name}", LookFor())


def test_the_trainers_checkpoints_travel(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The checkpoints of Hugging Face are known by their names; the guard finds the newest complete, and
    nothing else.
    """
    written = [*hugging_face(10), *hugging_face(20)]
    ready = _ready(vm, written)
    _train(vm, s3, "checkpoint-10 checkpoint-20", MOVES, checkpoint={"framework": "", "marker": ""}, environment=ready)
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert _remote(s3) == dict(written)
    look = _look(s3, "run")
    assert [(one.name, one.step) for one in look.checkpoints] == [("checkpoint-20", 20), ("checkpoint-10", 10)]
    assert look.resume == look.checkpoints[0]


def test_the_trainers_checkpoint_comes_back(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """All its files, and those of a torn one next to it stay where they are."""
    whole, half = dict(hugging_face(10)), dict(hugging_face(20)[:-1])
    tree(s3.folder / "lab/run", {**whole, **half})
    plan = {"framework": "", "marker": "", "resume_from": "s3://lab/run/checkpoint-10", "step": "10"}
    _train(vm, s3, "", checkpoint=plan)
    vm.boot()
    saved = vm.folder / "saved"
    assert guard.wait_for("exit")["output"] == [f"['--from', '{saved}/checkpoint-10', '--at=10']"]
    assert {str(path.relative_to(saved)) for path in saved.rglob("*") if path.is_file()} == set(whole)
    assert all((saved / name).read_bytes() == content for name, content in whole.items())


FILE = {"location": "s3://lab/run/last.ckpt", "framework": "", "marker": ""}


def test_a_single_file_travels(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """A file goes to the object that the location names."""
    body = torch_zip({"global_step": 7, "state_dict": {}})
    ready = _ready(vm, [("last.ckpt", body)])
    plan = {**FILE, "local": str(vm.folder / "saved/last.ckpt")}
    _train(vm, s3, "last.ckpt", MOVES, checkpoint=plan, environment=ready)
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert _remote(s3) == {"last.ckpt": body}
    resume = _look(s3, "run/last.ckpt").resume
    assert resume is not None
    assert resume.step == 7


def test_a_single_file_comes_back(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """A file comes back to the path that the command saves to; others next to it in the bucket stay there."""
    body = torch_zip({"global_step": 7, "state_dict": {}})
    tree(s3.folder / "lab/run", {"last.ckpt": body, "other.ckpt": b"other"})
    path = vm.folder / "saved/last.ckpt"
    plan = {**FILE, "local": str(path), "resume_from": FILE["location"], "step": "7"}
    _train(vm, s3, "", checkpoint=plan)
    vm.boot()
    assert guard.wait_for("exit")["output"] == [f"['--from', '{path}', '--at=7']"]
    assert path.read_bytes() == body
    assert [one.name for one in path.parent.iterdir()] == ["last.ckpt"]


def test_a_folder_that_is_itself_a_checkpoint_travels(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The files lie at the location, and our note of the upload has a name that an object can have."""
    files = {path.partition("/")[2]: body for path, body in torch_dcp(7)}
    ready = _ready(vm, list(files.items()))
    _train(vm, s3, " ".join(files), MOVES, checkpoint={"framework": "", "marker": ""}, environment=ready)
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert _remote(s3) == files
    assert _look(s3, "run").resume is not None


def test_files_that_no_layout_recognises_are_reported_with_the_pattern(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """Nothing of them would be uploaded. Once, however often the folder is looked at."""
    script = """
import os, pathlib, time
place = pathlib.Path(os.environ["SAVED"])
place.mkdir(parents=True, exist_ok=True)
for step in (100, 200):
    (place / f"net_{step}.pkl").write_bytes(b"x")
    os.utime(place / f"net_{step}.pkl", (time.time() - 120 + step, time.time() - 320 + step))
time.sleep(3)
"""
    _train(vm, s3, "", script, checkpoint={"framework": "", "marker": ""})
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    reported = [event["text"] for event in guard.events if event["kind"] == "unrecognised"]
    assert len(reported) == 1
    assert reported[0].endswith("launch it with --pattern 'net_{step}.pkl'")


def test_a_location_is_tried_before_the_command_begins(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """A note of our own is written, so that a permission that is missing is known at once."""
    _train(vm, s3, "")
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert set(s3.objects("lab")) == {"run/.costguard/attempt"}


def test_a_download_that_is_not_whole_is_not_resumed_from(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The download is complete by its name and its marker; its content is judged again."""
    tree = s3.folder / "lab/run/step-20"
    tree.mkdir(parents=True)
    (tree / "weights.pt").write_bytes(b"PK\x03\x04" + b"cut off")
    (tree / "DONE").touch()
    _train(vm, s3, "", checkpoint={"resume_from": "s3://lab/run/step-20", "step": "20"})
    vm.boot()
    end = guard.wait_for("exit")
    assert end["reason"] == "not_started"
    assert "step-20 was downloaded, and is not complete" in end["error"]
