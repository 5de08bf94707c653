"""A location that names one file, which each save writes over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.checkpoints.store_stub import store
from tests.checkpoints.test_stores import access
from tests.checkpoints.writers import torch_zip

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard.errors import CheckpointLocationMissing, CheckpointLocationWrong
from costguard_vm.checkpoints.folder import Folder
from costguard_vm.checkpoints.judge import judge
from costguard_vm.model.checkpoint import CheckpointState, Framework, LookFor, StoredFile

HERE = StoredCheckpoints(StoreAccess())
REAL = Path(__file__).parent / "real"
BODY = torch_zip({"global_step": 40})


def test_one_file_is_resumed_from_by_its_own_name(tmp_path: Path) -> None:
    """The step is read inside, its neighbours are left alone, and the meaning of naming it is explained."""
    (tmp_path / "checkpoint.pt").write_bytes(BODY)
    (tmp_path / "other.pt").write_bytes(b"")
    look = HERE.look(str(tmp_path / "checkpoint.pt"), LookFor())
    assert look.resume is not None
    assert (look.resume.resume_from, look.resume.step) == (str(tmp_path / "checkpoint.pt"), 40)
    assert (look.resume.framework, look.resume.name) == (Framework.FILES, "checkpoint.pt")
    assert len(look.checkpoints) == 1
    (note,) = look.notes
    assert "a VM lost during a save leaves it torn, and then work starts from the beginning" in note


@pytest.mark.parametrize("body", [BODY[:-1], b"", (REAL / "legacy.pt").read_bytes()[:-1]])
def test_one_that_was_being_written_over_is_torn(tmp_path: Path, body: bytes) -> None:
    """There is none before it to go back to."""
    (tmp_path / "checkpoint.pt").write_bytes(body)
    look = HERE.look(str(tmp_path / "checkpoint.pt"), LookFor())
    assert (look.resume, [one.state for one in look.checkpoints]) == (None, [CheckpointState.TORN])


def test_one_that_changes_between_two_looks_does_not_count(tmp_path: Path) -> None:
    """Whole before and after, it may have been written over while it was read."""
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(BODY)

    class Overwritten(Folder):
        def read(self, file: StoredFile, start: int, length: int) -> bytes:
            data = super().read(file, start, length)
            os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
            return data

    folder = Overwritten(str(path))
    first = folder.listing()
    assert judge(first, LookFor(), folder).resume is not None
    again = judge(folder.listing(), LookFor(), folder, first)
    assert [one.state for one in again.checkpoints] == [CheckpointState.CHANGING]


def test_a_file_that_is_still_to_come_is_distinguished_from_a_mistake(tmp_path: Path) -> None:
    """The folder must be there, and its name a file's; a folder of that name is a folder, as Lightning makes them."""
    assert HERE.look(str(tmp_path / "checkpoint.pt"), LookFor()).listing.is_file
    with pytest.raises(CheckpointLocationMissing, match="There is no folder"):
        HERE.look(str(tmp_path / "nowhere" / "checkpoint.pt"), LookFor())
    with pytest.raises(CheckpointLocationMissing, match="There is no folder"):
        HERE.look(str(tmp_path / "checkpoint"), LookFor())
    (tmp_path / "a.ckpt").mkdir()
    assert not HERE.look(str(tmp_path / "a.ckpt"), LookFor()).listing.is_file


def test_a_pattern_means_nothing_for_one_file(tmp_path: Path) -> None:
    """It is refused rather than passed over."""
    (tmp_path / "checkpoint.pt").write_bytes(BODY)
    with pytest.raises(CheckpointLocationWrong, match="names one file"):
        HERE.look(str(tmp_path / "checkpoint.pt"), LookFor(pattern="a{step}"))


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_one_object_in_a_bucket(scheme: str) -> None:
    """The real client replaces an object as a whole, so that there is nothing to warn of but that."""
    with store() as bucket:
        reach = StoredCheckpoints(access(bucket))
        location = f"{scheme}://bkt/run/checkpoint.pt"
        empty = reach.look(location, LookFor())
        assert (empty.resume, empty.listing.is_file) == (None, True)
        bucket.objects |= {"run/checkpoint.pt": BODY, "run/checkpoint.pt.bak": b""}
        look = reach.look(location, LookFor())
        assert look.resume is not None
        assert (look.resume.resume_from, look.resume.step, len(look.checkpoints)) == (location, 40, 1)
        assert look.notes == ("checkpoint.pt is one file: each save takes the place of the one before, as a whole.",)
        bucket.objects = {"run/checkpoint.pt/x.ckpt": BODY}
        assert reach.look(location, LookFor()).listing.is_file is False
