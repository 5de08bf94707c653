"""Archives in a folder and in a bucket, through obstore."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.checkpoints.store_stub import store

from costguard.checkpoints.archives import StoredArchives, cure_of
from costguard.checkpoints.buckets import StoreAccess
from costguard.errors import CheckpointError

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
ACCESS = StoreAccess(environ=KEYS)
LARGE = bytes(range(256)) * (20 << 10)  # more than one range, and less than what is uploaded in parts


@pytest.fixture
def archives(tmp_path: Path) -> StoredArchives:
    return StoredArchives(f"file://{tmp_path}/code", ACCESS)


def test_archive_is_kept_found_read_and_deleted(archives: StoredArchives) -> None:
    """The archive has its name, at this place alone."""
    assert archives.find("a.tar.gz") is None
    assert list(archives.listing()) == []
    archives.put("a.tar.gz", io.BytesIO(LARGE))
    stored = archives.find("a.tar.gz")
    assert stored is not None
    assert (stored.path, stored.size) == ("a.tar.gz", len(LARGE))
    assert b"".join(archives.read(stored)) == LARGE
    assert [one.path for one in archives.listing()] == ["a.tar.gz"]
    assert archives.listing()[0] == stored
    archives.delete("a.tar.gz")
    archives.delete("a.tar.gz")
    assert archives.find("a.tar.gz") is None


def test_bucket_that_is_missing_or_closed_is_an_error() -> None:
    """The error has the bucket's name, and what to allow."""
    with store() as bucket:
        access = StoreAccess(s3_endpoint=bucket.url, environ=KEYS)
        with pytest.raises(CheckpointError, match="There is no bucket other"):
            StoredArchives("s3://other/code", access).put("a.tar.gz", io.BytesIO(b"x"))
        bucket.refuse = lambda *_: (403, "<Error><Code>AccessDenied</Code></Error>")
        with pytest.raises(CheckpointError, match="may not be written") as refused:
            StoredArchives("s3://bkt/code", access).put("a.tar.gz", io.BytesIO(b"x"))
        assert "s3:PutObject" in refused.value.what_next


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "code").write_text("x")
    with pytest.raises(CheckpointError, match="cannot be used"):
        StoredArchives(f"file://{tmp_path}/code", ACCESS).put("a.tar.gz", io.BytesIO(b"x"))


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        # As obstore 0.8 reports a full tmpfs, a folder of root's and a file in the place of a folder.
        ("Unable to copy data to file: No space left on device (os error 28)", "The disk is full"),
        ("Unable to create dir /srv/code: Permission denied (os error 13)", "Let the server write"),
        ("Not a directory (os error 20)", "See what is wrong with this folder"),
    ],
)
def test_cure_of_a_folder_fits_its_error(error: str, cure: str) -> None:
    """A full disk is not mended by a right to write."""
    assert cure_of(error).startswith(cure)
