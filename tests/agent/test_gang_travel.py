"""Checkpoints of which each VM of a job holds a part: real agents, a real S3 server, and files of real trainers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.gang import Gang, gang_of, is_standing_by, of_round, word
from tests.agent.loaded_agents import LoadedAgents
from tests.agent.s3_server import S3Server, rclone_path, s3_server
from tests.agent.vm import Vm
from tests.checkpoints.gangs import folder_of, saved_files
from tests.waiting import until

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard_vm.model.checkpoint import LookFor

PARTS = ".costguard/parts/"
# Moves what lies ready into the folder where it saves, a step for each file `go-STEP`; ends as `end` says.
TRAINS = """
import json, os, pathlib, sys, time
print(json.dumps(sys.argv[1:]), flush=True)
place, ready = (pathlib.Path(os.environ[name]) for name in ("SAVED", "READY"))
place.mkdir(parents=True, exist_ok=True)
end = pathlib.Path("end-" + os.environ["COSTGUARD_ROUND"])
while not end.exists():
    for asked in pathlib.Path(".").glob("go-*"):
        for path in sorted((ready / asked.name[3:]).rglob("*")):
            target = place / path.relative_to(ready / asked.name[3:])
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                os.replace(path, target)
        asked.unlink()
    time.sleep(0.02)
sys.exit(int(end.read_text()))
"""


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path / "served") as server:
        (server.folder / "lab").mkdir()
        yield server


@pytest.fixture
def trio(tmp_path: Path, agent_file: Path, loaded: LoadedAgents) -> Iterator[Gang]:
    """Two VMs of a job, and one that may take the place of one of them."""
    with gang_of(3, tmp_path, agent_file, loaded) as gang:
        yield gang


def _gang(trio: Gang, *numbers: int) -> Gang:
    held = [(trio.vms[number], trio.guards[number], trio.addresses[number]) for number in numbers]
    return Gang([vm for vm, _, _ in held], [guard for _, guard, _ in held], [address for _, _, address in held])


def _order(gang: Gang, s3: S3Server, **more: Any) -> None:
    for node, (vm, address) in enumerate(zip(gang.vms, gang.addresses, strict=True)):
        if not (vm.tools / "rclone").exists():
            (vm.tools / "rclone").symlink_to(rclone_path())
        vm.metadata.set("instance/network-interfaces/0/ip", address)
        saved = str(vm.folder / "saved")
        plan = {"location": "s3://lab/run", "local": saved, "keep": "2"}
        vm.train(
            TRAINS,
            checkpoint=plan,
            resume_arguments=["--from", "{checkpoint}"],
            environment={"SAVED": saved, "READY": str(vm.folder / "ready"), **s3.variables},
            gang={"node": str(node), "nodes": str(len(gang.vms))},
            job="one",
            stand_by_s=0.1,
            look_s=0.5,
            **{"parts_s": 30.0, **more},
        )


def _save(vm: Vm, name: str, node: int, step: int) -> None:
    """The command of a node saves its files of a step, as they were recorded."""
    for path, body in saved_files(name, node, step).items():
        target = vm.folder / "ready" / str(step) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
    (vm.work / f"go-{step}").touch()


def _end(gang: Gang, number: int, code: int) -> None:
    for vm in gang.vms:
        _end_on(vm, number, code)


def _end_on(vm: Vm, number: int, code: int) -> None:
    (vm.work / "code").write_text(str(code))
    (vm.work / "code").rename(vm.work / f"end-{number}")


def _remote(s3: S3Server) -> dict[str, bytes]:
    seen = {name.removeprefix("run/"): content for name, content in s3.objects("lab").items()}
    return {name: content for name, content in seen.items() if not name.startswith(".costguard/")}


def _parts(s3: S3Server) -> list[str]:
    return [name for name in s3.objects("lab") if name.startswith(f"run/{PARTS}") and "/files/" in name]


def _newest(s3: S3Server) -> str | None:
    """Judges as the guard does."""
    look = StoredCheckpoints(StoreAccess()).look(f"file://{s3.folder}/lab/run", LookFor())
    return look.resume.name if look.resume is not None else None


def _union(name: str, step: int) -> dict[str, bytes]:
    return {**saved_files(name, 1, step), **saved_files(name, 0, step)}


def test_a_checkpoint_is_there_once_every_node_has_uploaded_its_part(trio: Gang, s3: S3Server) -> None:
    """While the commands run, and with all files at their usual names; no part is left elsewhere."""
    name, pair = "dcp-nodes", _gang(trio, 0, 1)
    _order(pair, s3)
    pair.boot()
    pair.go(1)
    pair.all("start")
    _save(pair.vms[0], name, 0, 10)
    until(lambda: bool(_parts(s3)))
    assert _newest(s3) is None
    _save(pair.vms[1], name, 1, 10)
    saved = pair.guards[0].wait_for("saved")
    assert (saved["name"], saved["step"]) == ("step-10", 10)
    assert _newest(s3) == "step-10"
    assert _remote(s3) == _union(name, 10)
    until(lambda: not _parts(s3))
    _end(pair, 1, 0)
    assert [end["code"] for end in pair.all("exit")] == [0, 0]
    assert "saved" not in pair.guards[1].kinds()


@pytest.mark.long
def test_the_first_nodes_successor_publishes_what_was_whole_before_it_is_ready(trio: Gang, s3: S3Server) -> None:
    """The first node's VM is lost with its part uploaded, and no agent is left that knew of it. All resume from it."""
    name, pair = "deepspeed-1", _gang(trio, 0, 1)
    folder = folder_of(name, 10)
    _order(pair, s3)
    pair.boot()
    pair.go(1)
    pair.all("start")
    _save(pair.vms[0], name, 0, 10)
    until(lambda: any("/said/0." in name and b'"is_there": true' in body for name, body in s3.objects("lab").items()))
    pair.vms[0].close()
    _save(pair.vms[1], name, 1, 10)
    until(lambda: not (pair.vms[1].work / "go-10").exists())
    _end_on(pair.vms[1], 1, 1)
    pair.guards[1].wait_for("round_ended")
    assert _newest(s3) is None
    after = _gang(trio, 2, 1)
    _order(after, s3)
    after.vms[0].boot()
    after.guards[0].wait_for("heartbeat", is_standing_by(1))
    assert _newest(s3) == folder
    after.guards[1].regroup = {"round": 2}
    after.guards[1].wait_for("heartbeat", is_standing_by(2))
    for guard in after.guards:
        guard.go = word(2, after.addresses, resume_from=f"s3://lab/run/{folder}", step=10)
    after.all("start", of_round(2))
    for vm, guard in zip(after.vms, after.guards, strict=True):
        _end_on(vm, 2, 0)
        saved = vm.folder / "saved"
        assert json.loads(guard.wait_for("exit")["output"][0]) == ["--from", f"{saved}/{folder}"]
        held = {path: (saved / path).read_bytes() for path in _union(name, 10)}
        assert held == _union(name, 10)
    assert not _parts(s3)


def test_the_end_of_a_round_waits_for_a_lost_node_only_so_long(trio: Gang, s3: S3Server) -> None:
    """It is said which checkpoint is not whole, and of which node nothing came; the one before counts."""
    name, pair = "dcp-nodes", _gang(trio, 0, 1)
    _order(pair, s3, parts_s=1.0)
    pair.boot()
    pair.go(1)
    pair.all("start")
    _save(pair.vms[0], name, 0, 10)
    until(lambda: bool(_parts(s3)))
    pair.vms[1].close()
    _end_on(pair.vms[0], 1, 1)
    ended = pair.guards[0].wait_for("round_ended")
    (trouble,) = (event for event in pair.guards[0].events if event["kind"] == "not_uploaded")
    assert trouble["error"] == "step-10 is not whole over all VMs of the job; not finished: node 1"
    assert trouble["seq"] < ended["seq"]
    assert _newest(s3) is None
