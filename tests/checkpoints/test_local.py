"""Folders on this machine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.checkpoints import writers

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import LocalFolder, StoredCheckpoints, look_twice
from costguard.checkpoints.location import Location, of_system, parse
from costguard.errors import (
    CheckpointError,
    CheckpointLocationMissing,
    CheckpointLocationRefused,
    CheckpointLocationUnavailable,
    CheckpointLocationWrong,
)
from costguard.model.ports import Checkpoints
from costguard_vm.checkpoints.judge import judge
from costguard_vm.model.checkpoint import CheckpointState, LookFor

HERE: Checkpoints = StoredCheckpoints(StoreAccess())


def write(folder: Path, written: list[tuple[str, bytes]]) -> None:
    for path, body in written:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)


@pytest.mark.parametrize("as_url", [False, True])
def test_the_newest_complete_one_in_a_folder(tmp_path: Path, as_url: bool) -> None:
    """The folder is a path or a file address; a file that grows between two looks does not count."""
    write(tmp_path, [*writers.hugging_face(10), *writers.hugging_face(20)])
    location = f"file://{tmp_path}" if as_url else str(tmp_path)
    first = HERE.look(location, LookFor())
    assert first.resume is not None
    assert first.resume.resume_from == str(tmp_path / "checkpoint-20")
    with (tmp_path / "checkpoint-20" / "optimizer.pt").open("ab") as grows:
        grows.write(b"more")
    again = HERE.look(location, LookFor(), first.listing)
    assert again.checkpoints[0].state is CheckpointState.CHANGING
    assert again.resume is not None
    assert again.resume.step == 10


def test_what_is_written_while_we_pause(tmp_path: Path) -> None:
    """The command lists twice: what appears between does not count yet, and is seen with the next look."""
    write(tmp_path, writers.hugging_face(10))
    look = look_twice(HERE, str(tmp_path), LookFor(), 5, lambda: write(tmp_path, writers.hugging_face(20)))
    assert [one.state.value for one in look.checkpoints] == ["changing", "complete"]
    assert (
        look_twice(HERE, str(tmp_path), LookFor(), 5, lambda: None).resume == HERE.look(str(tmp_path), LookFor()).resume
    )


def test_links(tmp_path: Path) -> None:
    """A link to a file is that file; links to folders, in circles or to nothing are passed over."""
    write(tmp_path, writers.lightning(7))
    (tmp_path / "last.ckpt").symlink_to("epoch=1-step=7.ckpt")
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "lost.ckpt").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.ckpt")
    look = HERE.look(str(tmp_path), LookFor(), examine=5)
    assert sorted(one.name for one in look.checkpoints) == ["epoch=1-step=7.ckpt", "last.ckpt"]
    assert all(one.is_complete and one.step == 7 for one in look.checkpoints)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are written out, and break nothing."""
    write(tmp_path, writers.lightning(7))
    with open(os.fsencode(tmp_path) + b"/\xff-step=9.ckpt", "wb") as odd:
        odd.write(b"PK")
    look = HERE.look(str(tmp_path), LookFor())
    assert look.checkpoints[0].name == "\\xff-step=9.ckpt"
    assert look.resume is not None
    assert look.resume.step == 7


def test_a_file_that_is_gone_when_it_is_read(tmp_path: Path) -> None:
    """It is reported as changing, not as an error."""
    write(tmp_path, writers.lightning(7))
    place = LocalFolder(parse(str(tmp_path)))
    listing = place.listing()
    (tmp_path / "epoch=1-step=7.ckpt").unlink()
    assert judge(listing, LookFor(), place).checkpoints[0].state is CheckpointState.CHANGING


def test_more_than_a_run_can_have(tmp_path: Path) -> None:
    """The limit is as in a bucket."""
    write(tmp_path, writers.hugging_face(10))
    with pytest.raises(CheckpointLocationWrong, match="holds more than 5 files"):
        LocalFolder(parse(str(tmp_path)), most=5).listing()


def test_no_folder(tmp_path: Path) -> None:
    """A path that does not exist is distinguished from an empty folder."""
    with pytest.raises(CheckpointLocationMissing, match="There is no folder"):
        HERE.look(str(tmp_path / "nowhere"), LookFor())
    assert HERE.look(str(tmp_path), LookFor()).resume is None


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, CheckpointLocationRefused),
        (errno.EPERM, CheckpointLocationRefused),
        (errno.EIO, CheckpointLocationUnavailable),
        (errno.ESTALE, CheckpointLocationUnavailable),
    ],
)
def test_what_the_system_refuses(number: int, kind: type[CheckpointError]) -> None:
    """Missing permission and broken mounts are explained."""
    error = of_system(OSError(number, os.strerror(number)), Location("file", "", "/mnt/runs"))
    assert isinstance(error, kind)
    assert error.message.startswith("/mnt/runs")
    assert error.what_next
