"""Stages are deleted in a folder and in a real S3 server's bucket, and nothing next to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.published import fill
from tests.agent.s3_server import KEY, SECRET, S3Server, s3_server

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.stages import StoredStages
from costguard.errors import CheckpointError

ENVIRON = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
FILES = {f"one/files/part-{n}": b"abc" for n in range(3)} | {"one/manifest.json": b"{}", "one-more/files/a": b"a"}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    folder = tmp_path_factory.mktemp("s3") / "served"
    (folder / "bucket").mkdir(parents=True)
    fill(folder / "bucket", FILES)
    with s3_server(folder) as server:
        yield server


def test_a_stage_in_a_bucket_is_deleted_and_may_be_again(s3: S3Server) -> None:
    """The next stage, whose name begins alike, stays."""
    stages = StoredStages(StoreAccess(s3_endpoint=s3.url, environ=ENVIRON))
    assert stages.delete("s3://bucket/one", "manifest.json") == 3
    assert stages.delete("s3://bucket/one", "manifest.json") == 0
    assert list(s3.objects("bucket")) == ["one-more/files/a"]


def test_a_stage_in_a_folder_is_deleted_and_may_be_again(tmp_path: Path) -> None:
    """The folder next to it stays, as in a bucket."""
    fill(tmp_path, FILES)
    stages = StoredStages(StoreAccess())
    assert stages.delete((tmp_path / "one").as_uri(), "manifest.json") == 3
    assert stages.delete((tmp_path / "one").as_uri(), "manifest.json") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["one-more"]


def test_a_bucket_that_is_not_there_is_an_error(s3: S3Server) -> None:
    """It may have been deleted with all stages in it: a person decides."""
    with pytest.raises(CheckpointError, match="nowhere"):
        StoredStages(StoreAccess(s3_endpoint=s3.url, environ=ENVIRON)).delete("s3://nowhere/one", "manifest.json")
