"""Objects whose names hold `..`: the pinned rclone against an S3 server that lists what no server on a disk could."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.s3_server import rclone_path
from tests.agent.test_transfer import transfer_of
from tests.agent.vm import Vm
from tests.checkpoints.store_stub import StubBucket, store

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.transfers.transfer import leads_out

NAMES = ("../up", "../../up", "sub/../../../up", "..", "sub/..", ".", "//tmp/up", "x//y")


@pytest.fixture
def bucket() -> Iterator[StubBucket]:
    with store("acme") as served:
        served.objects = {"data/ok": b"ok", "data/sub/ok": b"ok", "other/kept": b"kept"}
        yield served


def variables(bucket: StubBucket) -> dict[str, str]:
    return {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL_S3": bucket.url}


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_a_job_with_such_an_input_ends_before_its_command(
    name: str, bucket: StubBucket, vm: Vm, guard: FakeGuard
) -> None:
    """It names the object, says that another VM would not help, and has written nothing anywhere."""
    bucket.objects[f"data/{name}"] = b"evil"
    (vm.tools / "rclone").symlink_to(rclone_path())
    data = vm.folder / "deep" / "data"
    vm.order(
        sys.executable, "-c", "print(1)", environment=variables(bucket), inputs={str(data): "s3://acme/data"}, job="j"
    )
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "leads out of its folder: rename it" in end["error"]
    assert not data.parent.exists()
    assert not (vm.folder / "up").exists()


def test_a_transfer_of_such_a_folder_stays_within_it(bucket: StubBucket, tmp_path: Path) -> None:
    """Should one be begun all the same, rclone itself writes nothing outside."""
    bucket.objects |= {f"data/{name}": b"evil" for name in NAMES}
    transfer = transfer_of(variables(bucket), tmp_path)
    assert sum(map(leads_out, transfer.listing("s3://acme/data"))) == len(NAMES)
    transfer.download("s3://acme/data", str(tmp_path / "deep" / "data"))
    assert {name.partition("/data/")[0] for name in files_in(tmp_path)} == {"deep"}


def test_a_note_in_a_bucket_names_nothing_outside_of_its_folder(bucket: StubBucket, tmp_path: Path) -> None:
    """An earlier attempt's note of its unfinished output is deleted; a name in it that leads out is refused."""
    transfer = transfer_of(variables(bucket), tmp_path)
    names = json.loads(b'["../other/kept", "ok"]')
    with pytest.raises(TransferFailed, match="leads out of its folder, and is not touched"):
        transfer.delete("s3://acme/data", names)
    assert set(bucket.objects) == {"data/ok", "data/sub/ok", "other/kept"}
    transfer.delete("s3://acme/data", ["ok"])
    assert set(bucket.objects) == {"data/sub/ok", "other/kept"}
