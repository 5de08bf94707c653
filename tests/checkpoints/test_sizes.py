"""The data at an address is counted by the real stores of obstore."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.checkpoints.store_stub import StubBucket, store

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.sizes import StoredData
from costguard.errors import CheckpointLocationMissing, CheckpointLocationRefused
from costguard.model.data import StoredSize

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture
def bucket() -> Iterator[StubBucket]:
    with store() as served:
        yield served


@pytest.fixture(params=["s3", "gs"])
def scheme(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def data(bucket: StubBucket, most: int = 1000) -> StoredData:
    return StoredData(StoreAccess(bucket.url, "us-east-1", bucket.url, KEYS, timedelta(milliseconds=1)), most)


def size(bucket: StubBucket, address: str, most: int = 1000) -> StoredSize | None:
    return data(bucket, most).size(address, bucket.url)


def test_a_folder_is_counted_without_its_neighbours(bucket: StubBucket, scheme: str) -> None:
    """Empty objects that stand for a folder are no data."""
    bucket.objects = {"v7/a": b"12345", "v7/deep/b": b"12", "v7/": b"", "v70/c": b"1"}
    assert size(bucket, f"{scheme}://bkt/v7") == StoredSize(7, 2)


def test_a_single_object_is_counted(bucket: StubBucket, scheme: str) -> None:
    """An input may be one object."""
    bucket.objects = {"v7/train.parquet": b"12345", "v7/train.parquet.crc": b"1"}
    assert size(bucket, f"{scheme}://bkt/v7/train.parquet") == StoredSize(5, 1)


def test_nothing_there_is_no_file(bucket: StubBucket, scheme: str) -> None:
    """A misspelt path is empty, which is known."""
    assert size(bucket, f"{scheme}://bkt/v8") == StoredSize(0, 0)


def test_counting_stops_at_a_limit(bucket: StubBucket, scheme: str) -> None:
    """The answer says that there is more."""
    bucket.objects = {f"v7/{number}": b"1" for number in range(20)}
    assert size(bucket, f"{scheme}://bkt/v7", most=10) == StoredSize(10, 10, is_whole=False)


def test_a_published_output_is_recognised(bucket: StubBucket, scheme: str) -> None:
    """The marker is directly in it."""
    bucket.objects = {"m/weights": b"1", "m/_SUCCESS": b"{}", "other/deep/_SUCCESS": b"{}"}
    published = size(bucket, f"{scheme}://bkt/m")
    other = size(bucket, f"{scheme}://bkt/other")
    assert published is not None
    assert published.is_published
    assert other is not None
    assert not other.is_published


def test_a_bucket_that_does_not_exist_and_one_that_may_not_be_read(bucket: StubBucket, scheme: str) -> None:
    """The first alone is certain."""
    bucket.refuse = lambda method, key: (404, "<Error><Code>NoSuchBucket</Code></Error>")
    with pytest.raises(CheckpointLocationMissing):
        size(bucket, f"{scheme}://bkt/v7")
    bucket.refuse = lambda method, key: (403, "<Error><Code>AccessDenied</Code></Error>")
    with pytest.raises(CheckpointLocationRefused):
        size(bucket, f"{scheme}://bkt/v7")


def test_another_endpoint_is_not_looked_at(bucket: StubBucket, scheme: str) -> None:
    """The job reads a store that this installation has no access to."""
    assert data(bucket).size(f"{scheme}://bkt/v7", "https://elsewhere.example") is None
    assert bucket.requests == []


def test_a_shared_folder_is_counted(tmp_path: Path) -> None:
    """The folder is as in the sandbox; a link counts as itself."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a").write_bytes(b"123")
    assert StoredData(StoreAccess()).size(tmp_path.as_uri(), "") == StoredSize(3, 1)
    assert StoredData(StoreAccess()).size((tmp_path / "deep/a").as_uri(), "") == StoredSize(3, 1)
