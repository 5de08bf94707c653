"""Inputs by way of a data stage: paid once, verified object by object, and shared by VMs that may read the source.

The source is a real S3 server behind a proxy that counts; the stage is a folder, another backend of rclone's; the guard
answers by its own rules of `costguard.stages.decide`.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.fake_metadata import metadata_server
from tests.agent.published import fill
from tests.agent.s3_server import S3Server, rclone_path, s3_server
from tests.agent.staged import BATCH, FILES, FRESH, SIZE, TEARS, K, StagedGround, VmLost, staged_ground, tear
from tests.agent.vm import Vm

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.transfers.inputs import fetch_inputs
from costguard_vm.agent.transfers.staging import PROBES

COUNTS = """
import pathlib, sys
files = [path for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file()]
print(len(files), "files,", sum(path.stat().st_size for path in files), "bytes")
"""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "served", FRESH) as server:
        (server.folder / "acme").mkdir()
        yield server


@pytest.fixture
def ground(tmp_path: Path, s3: S3Server, guard: FakeGuard) -> Iterator[StagedGround]:
    with staged_ground(tmp_path, s3, guard) as made:
        yield made


def test_the_second_vm_pays_nothing(ground: StagedGround) -> None:
    """All bytes leave the source once; each VM reads a few more, to prove that it may."""
    assert ground.fetch("one") == FILES
    assert K <= ground.proxy.total <= K + PROBES
    assert ground.fetch("two") == FILES
    assert ground.proxy.total <= K + 2 * PROBES
    (stage,) = ground.guard.stages.values()
    assert (stage.state, stage.staged, stage.holder) == ("whole", K, "")
    assert [report["from_source"] for report in ground.guard.stage_reports if report["attempt"] == "two"][-1] == 0
    assert max(report["from_source"] for report in ground.guard.stage_reports) == K


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_torn_stage_is_never_read(ground: StagedGround, *, has_manifest: bool) -> None:
    """A VM fetches what is torn again, and nothing else; the stage is whole after that."""
    ground.fetch("one")
    torn = [path for path in ground.objects if path.name.startswith("part-")][: len(TEARS)]
    for path, how in zip(torn, TEARS, strict=True):
        tear(path, how)
    if not has_manifest:
        next(ground.bucket.glob("*/manifest.json")).unlink()
    before = ground.proxy.total
    assert ground.fetch("two") == FILES
    assert ground.proxy.total - before == len(torn) * SIZE + PROBES
    assert {path.name: path.read_bytes() for path in torn} == {path.name: FILES[path.name] for path in torn}
    assert next(ground.bucket.glob("*/manifest.json")).exists()


def test_a_stage_with_a_forged_manifest_is_not_read_as_whole(ground: StagedGround) -> None:
    """A VM believes the source's listing and the objects, whatever the manifest says."""
    ground.fetch("one")
    (stage,) = ground.bucket.iterdir()
    fill(stage, {"manifest.json": b'{"files": 10, "bytes": 3200005}'})
    before = ground.proxy.total
    assert ground.fetch("two") == FILES
    assert ground.proxy.total - before == K + PROBES


def test_a_lost_vm_pays_again_for_no_more_than_two_batches(ground: StagedGround) -> None:
    """The next one resumes from what was staged, on a disk of its own."""
    ground.batch_bytes = BATCH
    chance, lost = random.Random(1), 4
    for number in range(lost):
        until = ground.proxy.total + chance.randrange(1, K // 2)

        def wait(seconds: float, until: int = until) -> None:
            if ground.proxy.total >= until:
                raise VmLost

        try:
            ground.fetch(f"vm-{number}", wait=wait)
        except VmLost:
            ground.guard.over.add(f"vm-{number}")
    assert ground.fetch("last") == FILES
    assert ground.proxy.total <= K + lost * 2 * BATCH + (lost + 1) * PROBES
    assert ground.proxy.total <= sum(_fetched_by(ground.guard).values()) + (lost + 1) * PROBES


def _fetched_by(guard: FakeGuard) -> dict[str, int]:
    """Returns the bytes from the source by attempt, as reported before they moved."""
    return {report["attempt"]: report["from_source"] for report in guard.stage_reports}


def test_two_vms_at_once_pay_once(ground: StagedGround) -> None:
    """A single VM fetches; the others take each object once it is staged."""
    ground.batch_bytes = BATCH
    ground.proxy.bytes_per_s = 2e6
    results: dict[str, dict[str, bytes]] = {}
    vms = [threading.Thread(target=lambda name=n: results.update({name: ground.fetch(name)})) for n in ("a", "b", "c")]
    for vm in vms:
        vm.start()
    for vm in vms:
        vm.join()
    assert results == dict.fromkeys("abc", FILES)
    assert K <= ground.proxy.total <= K + 3 * PROBES
    assert sorted(_fetched_by(ground.guard).values()) == [0, 0, K]


def test_a_vm_that_waits_fetches_by_itself_in_the_end(ground: StagedGround) -> None:
    """The holder of the right to fetch does nothing any more, and the guard does not know yet that it is gone."""
    ground.batch_bytes = BATCH

    def wait(seconds: float) -> None:
        if ground.proxy.total > 2 * BATCH:
            raise VmLost

    with pytest.raises(VmLost):
        ground.fetch("frozen", wait=wait)
    assert ground.fetch("waits", stage_wait_s=0.3) == FILES


def test_a_source_that_changes_is_another_stage(ground: StagedGround) -> None:
    """Nothing of the old data is read for the new, however much of it stayed."""
    ground.fetch("one")
    changed = {**FILES, "part-3": os.urandom(SIZE)}
    fill(ground.path, changed)
    assert ground.fetch("two") == changed
    assert len(ground.guard.stages) == 2


def test_a_source_that_changes_while_it_is_fetched_is_listed_again(ground: StagedGround) -> None:
    """Nothing with new contents is staged under the old listing."""
    ground.batch_bytes = BATCH
    changed = dict(FILES)

    def wait(seconds: float) -> None:
        if changed == FILES and ground.proxy.total > BATCH:
            changed["part-7"] = os.urandom(SIZE + 1)
            (ground.path / "part-7").write_bytes(changed["part-7"])

    assert ground.fetch("one", wait=wait) == changed
    before, after = ground.guard.stages
    assert not (ground.bucket / before / "files" / "part-7").exists()
    assert (ground.bucket / after / "files" / "part-7").read_bytes() == changed["part-7"]


def test_who_may_not_read_the_source_gets_nothing_of_the_stage(ground: StagedGround) -> None:
    """The digest of the stage comes from a listing with the job's own credentials."""
    ground.fetch("one")
    with pytest.raises(TransferFailed, match="credentials"):
        ground.fetch("stranger", secret="another-secret-of-someone")
    assert ground.data_of("stranger") == {}
    assert not [report for report in ground.guard.stage_reports if report["attempt"] == "stranger"]


@pytest.mark.parametrize("has_stages", [True, False])
def test_a_job_runs_without_a_stage_that_cannot_be_used(ground: StagedGround, *, has_stages: bool) -> None:
    """Neither a bucket that refuses nor a guard that knows no stages ends a job: its data comes from the source."""
    ground.guard.has_stages = has_stages
    ground.bucket.write_bytes(b"a file where a folder should be")
    assert ground.fetch("one") == FILES
    assert ground.proxy.total == K + PROBES


def test_the_same_vm_goes_on_where_its_agent_was_killed(ground: StagedGround) -> None:
    """Files on its disk are staged from there and not fetched again."""
    ground.batch_bytes = BATCH

    def wait(seconds: float) -> None:
        if ground.proxy.total > K // 2:
            raise VmLost

    with pytest.raises(VmLost):
        ground.fetch("one", wait=wait)
    assert ground.fetch("one") == FILES
    assert ground.proxy.total <= K + 2 * BATCH + 2 * PROBES
    assert next(iter(ground.guard.stages.values())).state == "whole"


def test_a_single_object_is_staged_too(ground: StagedGround) -> None:
    """It comes to its own path under its own name, or another one."""
    ground.source += "/part-1"
    for name in ("one", "two"):
        vm = ground.vm(name)
        fetch_inputs(vm)
        assert Path(vm.folder, "data").read_bytes() == FILES["part-1"]
        assert os.listdir(vm.folder) == ["data", "inputs"] or set(os.listdir(vm.folder)) == {"data", "inputs"}
    assert ground.proxy.total == SIZE + 2


@pytest.mark.long
def test_agents_that_are_killed_with_their_vms_pay_again_for_no_more_than_two_batches(
    tmp_path: Path, agent_file: Path, ground: StagedGround, guard: FakeGuard
) -> None:
    """Real processes, each on a VM of its own: three are killed, and the command of the fourth has all the data."""
    ground.proxy.bytes_per_s = 4e6
    chance = random.Random(7)
    with ExitStack() as stack:
        for number in range(4):
            folder = tmp_path / f"vm-{number}"
            folder.mkdir()
            vm = Vm(folder, agent_file, stack.enter_context(metadata_server()), guard)
            stack.callback(vm.close)
            (vm.tools / "rclone").symlink_to(rclone_path())
            vm.attempt = f"nightly-{number}"
            settings = ground.vm(f"like-{number}").settings
            data = str(folder / "data")
            command = [sys.executable, "-c", COUNTS, data]
            vm.order(
                *command,
                environment=settings.environment,
                inputs={data: ground.source},
                stages={data: ground.bucket.as_uri()},
                stage_poll_s=0.05,
                stage_batch_bytes=BATCH,
            )
            until = ground.proxy.total + chance.randrange(SIZE, K // 3)
            vm.boot()
            if number < 3:
                assert ground.proxy.wait_for(until)
                vm.crash()
                guard.over.add(vm.attempt)
        assert vm.finished() == 0
        assert f"{len(FILES)} files, {K} bytes" in vm.output()
    assert ground.proxy.total <= K + 3 * 2 * BATCH + 4 * PROBES
