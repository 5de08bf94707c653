"""A VM that stands by while another one trains: all is ready before the guard's word, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.s3_server import S3Server, rclone_path, s3_server
from tests.agent.vm import Vm

from costguard.model.attempt import STANDING_BY

SAVES = "import os, pathlib, sys\nprint(sys.argv[1:], pathlib.Path(os.environ['DATA'], 'part-0').read_text())"
GO = {"resume_from": "s3://lab/run/step-20", "step": 20, "arguments": []}


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path / "served") as server:
        for name, content in (("run/step-20/weights", "w"), ("run/step-20/DONE", ""), ("data/part-0", "rows")):
            path = server.folder / "lab" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        yield server


@pytest.fixture(autouse=True)
def has_rclone(vm: Vm) -> None:
    (vm.tools / "rclone").symlink_to(rclone_path())


def _boot(vm: Vm, s3: S3Server, **more: Any) -> None:
    data = str(vm.folder / "data")
    checkpoint = {"location": "s3://lab/run", "local": str(vm.folder / "saved"), "framework": "marker"}
    vm.train(
        SAVES,
        checkpoint={**checkpoint, "marker": "DONE", "keep": "2"},
        resume_arguments=["--from", "{checkpoint}", "--at={step}"],
        inputs={data: "s3://lab/data"},
        environment={"DATA": data, **s3.variables},
        stands_by=True,
        stand_by_s=0.05,
        look_s=0.2,
        **more,
    )
    vm.boot()


def _is_standing_by(event: dict[str, Any]) -> bool:
    return event.get("phase") == STANDING_BY


def test_all_is_ready_before_the_guards_word(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The data is there, and the location as it was; then the command begins with the guard's choice."""
    _boot(vm, s3)
    before = s3.objects("lab")
    guard.wait_for("heartbeat", _is_standing_by, count=3)
    assert (vm.folder / "data/part-0").read_text() == "rows"
    assert s3.objects("lab") == before
    assert "start" not in guard.kinds()
    guard.go = GO
    best = vm.folder / "saved/step-20"
    end = guard.wait_for("exit")
    assert end["output"] == [f"['--from', '{best}', '--at=20'] rows"]
    assert end["code"] == 0
    assert (best / "weights").read_bytes() == b"w"


def test_the_guards_word_outlives_the_agent(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """An agent that is killed with it begins the command all the same, and once, though the guard says nothing more."""
    _boot(vm, s3, poll_s=2.0)
    guard.wait_for("heartbeat", _is_standing_by)
    guard.go = GO
    state = next((vm.home / "attempts").iterdir()) / "state.json"
    guard.wait_for_requests(2)
    vm.crash()
    assert '"resume_from"' in state.read_text()
    guard.go = None
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert guard.kinds_once().count("start") == 1


def test_a_cancel_ends_it_before_it_has_touched_anything(vm: Vm, guard: FakeGuard, s3: S3Server) -> None:
    """The cancel ends it as any attempt that never began."""
    before = s3.objects("lab")
    _boot(vm, s3)
    guard.wait_for("heartbeat", _is_standing_by)
    guard.is_to_cancel = True
    end = guard.wait_for("exit")
    assert (end["reason"], end["asked"]) == ("not_started", "cancel")
    assert s3.objects("lab") == before


def test_arguments_come_with_the_word(vm: Vm, guard: FakeGuard) -> None:
    """The command reads its checkpoints from the bucket itself."""
    vm.train("import sys\nprint(sys.argv[1:])", stands_by=True, stand_by_s=0.05)
    vm.boot()
    guard.go = {"resume_from": "gs://runs/train/step-9", "step": 9, "arguments": ["--from", "gs://runs/train/step-9"]}
    assert guard.wait_for("exit")["output"] == ["['--from', 'gs://runs/train/step-9']"]
