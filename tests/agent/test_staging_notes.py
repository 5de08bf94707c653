"""A stage of a source that knows no MD5, as S3 does of objects that were uploaded in parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.s3_server import S3Server, s3_server
from tests.agent.staged import BATCH, FILES, FRESH, SIZE, K, StagedGround, VmLost, staged_ground, tear
from tests.agent.test_transfer import transfer_of

from costguard_vm.agent.transfers.staging import PROBES


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "served", FRESH, "--etag-hash", "") as server:
        (server.folder / "acme").mkdir()
        yield server


@pytest.fixture
def ground(tmp_path: Path, s3: S3Server, guard: FakeGuard) -> Iterator[StagedGround]:
    with staged_ground(tmp_path, s3, guard) as made:
        yield made


def test_its_objects_are_verified_by_the_note_of_the_vm_that_fetched_them(ground: StagedGround) -> None:
    """The note is trusted because the guard knows its SHA-256, and not because it lies in the stage."""
    listed = transfer_of(ground.vm("any").settings.environment, ground.folder).hashed_listing(ground.source)
    assert {file.md5 for file in listed.values()} == {""}
    ground.fetch("one")
    assert ground.fetch("two") == FILES
    assert ground.proxy.total == K + 2 * PROBES
    tear(ground.objects[-1], "other bytes")
    assert ground.fetch("three") == FILES
    assert ground.proxy.total == K + SIZE + 3 * PROBES


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_note_that_was_changed_is_not_trusted(ground: StagedGround, *, is_gone: bool) -> None:
    """A forged object with a forged note is not read: all of it is fetched again."""
    ground.fetch("one")
    forged = ground.objects[-1]
    tear(forged, "other bytes")
    for note in ground.bucket.glob("*/notes/*.json"):
        sums = {**json.loads(note.read_bytes()), forged.name: hashlib.md5(forged.read_bytes()).hexdigest()}
        note.write_text(json.dumps(sums))
        if is_gone:
            note.unlink()
    assert ground.fetch("two") == FILES
    assert ground.proxy.total == 2 * (K + PROBES)


def test_a_lost_vm_pays_again_for_no_more_than_two_batches(ground: StagedGround) -> None:
    """The last note tells what it staged."""
    ground.batch_bytes = BATCH

    def wait(seconds: float) -> None:
        if ground.proxy.total > K * 3 // 4:
            raise VmLost

    with pytest.raises(VmLost):
        ground.fetch("one", wait=wait)
    ground.guard.over.add("one")
    assert ground.fetch("two") == FILES
    assert ground.proxy.total <= K + 2 * BATCH + 2 * PROBES
