"""The transfer tool against a real S3 server and real folders, with the pinned rclone."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.s3_server import KEY, S3Server, rclone_path, s3_server

from costguard_vm.agent.calls import Metadata
from costguard_vm.agent.failures import NothingThere, TransferFailed
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.transfer import Transfer, TransferProgress

NOWHERE = Metadata("http://127.0.0.1:1/computeMetadata/v1")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "served") as server:
        (server.folder / "lab").mkdir()
        yield server


def transfer_of(variables: dict[str, str], folder: Path, settings: AttemptSettings | None = None) -> Transfer:
    given = settings or AttemptSettings(retry_s=0.01)
    return Transfer(given, variables, str(folder), lambda _: None, NOWHERE, lambda _: rclone_path())


@pytest.fixture
def transfer(s3: S3Server, tmp_path: Path) -> Transfer:
    return transfer_of(s3.variables, tmp_path)


def tree(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


FILES = {"a": b"one", "sub/b c": b"two" * 1000, "sub/deep/ü": os.urandom(100_000)}


@pytest.mark.parametrize("place", ["s3://lab/{}", "file://{}"])
def test_a_folder_comes_back_as_it_went(place: str, transfer: Transfer, tmp_path: Path) -> None:
    """Up, listed, and down again: names with blanks and letters beyond ASCII, contents, and sizes stay the same."""
    uri = place.format(tmp_path.name if place.startswith("s3") else tmp_path / "remote")
    seen: list[TransferProgress] = []
    transfer.upload(str(tree(tmp_path / "here", FILES)), uri, seen.append)
    assert {name: file.size for name, file in transfer.listing(uri).items()} == {n: len(c) for n, c in FILES.items()}
    assert seen[-1].files_done == len(FILES)
    transfer.download(uri, str(tmp_path / "there"))
    assert {name: (tmp_path / "there" / name).read_bytes() for name in FILES} == FILES


def test_what_is_there_is_not_transferred_again(transfer: Transfer, tmp_path: Path) -> None:
    """Neither up nor down, nor up again after it came down with another time of change."""
    here, there = tree(tmp_path / "here", FILES), tmp_path / "there"
    uri = f"s3://lab/{tmp_path.name}"
    assert transfer.upload(str(here), uri).files_done == len(FILES)
    assert transfer.upload(str(here), uri).files_done == 0
    assert transfer.download(uri, str(there)).files_done == len(FILES)
    assert transfer.download(uri, str(there)).files_done == 0
    assert transfer.upload(str(there), uri).files_done == 0


def test_a_file_that_changed_is_transferred_again(transfer: Transfer, tmp_path: Path) -> None:
    """A changed file is transferred also where its size is the same."""
    here, uri = tree(tmp_path / "here", FILES), f"s3://lab/{tmp_path.name}"
    transfer.upload(str(here), uri)
    (here / "a").write_bytes(b"ONE")
    assert transfer.upload(str(here), uri).files_done == 1
    assert transfer.read(f"{uri}/a", 1, 5) == b"NE"


def test_only_the_named_files_are_transferred(s3: S3Server, transfer: Transfer, tmp_path: Path) -> None:
    """Up, within the provider, down, and deleted; what is not there cannot be deleted and is no failure."""
    here, uri = tree(tmp_path / "here", FILES), f"s3://lab/{tmp_path.name}"
    transfer.upload(str(here), uri, only=["a", "sub/b c"])
    assert set(transfer.listing(uri)) == {"a", "sub/b c"}
    transfer.copy(uri, f"{uri}-copy", only=["a"])
    assert set(transfer.listing(f"{uri}-copy")) == {"a"}
    transfer.download(uri, str(tmp_path / "there"), only=["a"])
    assert os.listdir(tmp_path / "there") == ["a"]
    transfer.delete(uri, only=["a", "none"])
    assert set(transfer.listing(uri)) == {"sub/b c"}
    with pytest.raises(TransferFailed, match="none does not exist"):
        transfer.download(uri, str(tmp_path / "there"), only=["none"])


def test_a_single_object_is_a_file(transfer: Transfer, tmp_path: Path) -> None:
    """An object named by its URI comes to the path itself; a small one is written as a whole."""
    uri = f"s3://lab/{tmp_path.name}/note"
    transfer.write(uri, b"done")
    transfer.download(uri, str(tmp_path / "note.txt"))
    assert (tmp_path / "note.txt").read_bytes() == b"done"
    transfer.upload(str(tmp_path / "note.txt"), f"{uri}-2")
    assert transfer.read(f"{uri}-2", 0, 10) == b"done"


def test_an_empty_place_lists_nothing(transfer: Transfer, tmp_path: Path) -> None:
    """A folder that nobody has written to yet is no failure, unless it is to be downloaded."""
    assert transfer.listing(f"s3://lab/{tmp_path.name}") == {}
    assert transfer.listing(f"file://{tmp_path}/nothing") == {}
    with pytest.raises(TransferFailed, match="does not exist") as failed:
        transfer.download(f"s3://lab/{tmp_path.name}", str(tmp_path / "there"))
    assert failed.value.repeats


@pytest.mark.parametrize("place", ["s3://lab/{}", "file://{}"])
def test_what_is_not_there_cannot_be_read(place: str, transfer: Transfer, tmp_path: Path) -> None:
    """It is no empty file; and an empty file is none that lacks."""
    uri = place.format(tmp_path.name if place.startswith("s3") else tmp_path / "remote")
    transfer.write(f"{uri}/a b%20c/empty", b"")
    assert transfer.read(f"{uri}/a b%20c/empty", 0, 9) == b""
    for missing in ("a b%20c/none", "a b%20c", "none"):
        with pytest.raises(NothingThere, match="nothing is at"):
            transfer.read(f"{uri}/{missing}", 0, 9)


def test_a_copy_of_what_is_not_there_fails(transfer: Transfer, tmp_path: Path) -> None:
    """A missing source fails also where an older file of that name is at the target; no other VM would find it."""
    uri = f"s3://lab/{tmp_path.name}"
    transfer.upload(str(tree(tmp_path / "here", FILES)), uri)
    transfer.write(f"{uri}-copy/none", b"older")
    cases: list[tuple[str, list[str] | None, str]] = [
        ("", ["a", "none"], "none"),
        ("/none", None, "none"),
        ("/nowhere", None, "nowhere"),
    ]
    for name, only, missing in cases:
        with pytest.raises(TransferFailed, match=f"/{missing} does not exist") as failed:
            transfer.copy(f"{uri}{name}", f"{uri}-copy{name}", only=only)
        assert failed.value.repeats
    transfer.copy(f"{uri}/a", f"{uri}-copy/b")
    assert transfer.read(f"{uri}-copy/b", 0, 9) == b"one"


def test_a_missing_bucket_is_named(transfer: Transfer, tmp_path: Path) -> None:
    """Listing, writing, uploading: no other VM would find it either."""
    calls = (
        lambda: transfer.listing("s3://no-such-bucket/run"),
        lambda: transfer.write("s3://no-such-bucket/run", b""),
        lambda: transfer.upload(str(tree(tmp_path / "here", FILES)), "s3://no-such-bucket/run"),
    )
    for call in calls:
        with pytest.raises(TransferFailed, match="the bucket s3://no-such-bucket does not exist") as failed:
            call()
        assert failed.value.repeats


def test_wrong_credentials_are_told_from_none(s3: S3Server, tmp_path: Path) -> None:
    """Each says what to change, and neither shows the secret."""
    wrong = transfer_of({**s3.variables, "AWS_SECRET_ACCESS_KEY": "another-secret"}, tmp_path)
    none = transfer_of({"AWS_ENDPOINT_URL_S3": s3.url}, tmp_path)
    for transfer, words in ((wrong, "are wrong"), (none, "there are no credentials")):
        with pytest.raises(TransferFailed, match=words) as failed:
            transfer.listing("s3://lab/run")
        assert failed.value.repeats
        assert "another-secret" not in str(failed.value)


def test_the_disk_is_full(s3: S3Server, tmp_path: Path) -> None:
    """A download that does not fit says so at once. A filesystem of one megabyte stands for the disk."""
    uri = f"s3://lab/{tmp_path.name}"
    transfer = transfer_of(s3.variables, tmp_path)
    transfer.upload(str(tree(tmp_path / "here", {"big": os.urandom(3 << 20)})), uri)
    full = tmp_path / "full"
    full.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(full)], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(TransferFailed, match="the disk is full") as failed:
            transfer.download(uri, str(full / "data"))
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert failed.value.repeats


def test_a_transfer_ends_when_it_is_not_wanted(s3: S3Server, tmp_path: Path) -> None:
    """`wait` raises, and rclone is gone: no process of it runs on."""

    class NotWanted(Exception):
        pass

    def wait(_: float) -> None:
        if threading.current_thread() is threading.main_thread() and (tmp_path / "started").exists():
            raise NotWanted

    settings = AttemptSettings(bandwidth_mib_s=1)
    transfer = transfer_of(s3.variables, tmp_path, settings).waiting(wait)
    here = tree(tmp_path / "here", {"big": os.urandom(20 << 20)})
    with pytest.raises(NotWanted):
        transfer.upload(str(here), f"s3://lab/{tmp_path.name}", lambda _: (tmp_path / "started").touch())
    assert f"{tmp_path}/here" not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


def test_no_credential_is_in_the_list_of_processes(s3: S3Server, tmp_path: Path) -> None:
    """While a transfer runs, its arguments hold places alone."""
    listed: list[str] = []

    def look(_: TransferProgress) -> None:
        listed.append(subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout)

    transfer = transfer_of(s3.variables, tmp_path)
    transfer.upload(str(tree(tmp_path / "here", FILES)), f"s3://lab/{tmp_path.name}", look)
    assert listed
    assert not any(KEY in one or s3.variables["AWS_SECRET_ACCESS_KEY"] in one for one in listed)


@pytest.mark.parametrize("uri", ["gs:/x", "s3://", "http://x/y", "/data", "file://host/x", ""])
def test_what_is_no_place_is_refused(uri: str, transfer: Transfer) -> None:
    """A wrong place is refused before rclone could take it for something else."""
    with pytest.raises(TransferFailed, match="is no place"):
        transfer.listing(uri)


def test_what_vanishes_while_it_is_copied_is_missed(tmp_path: Path) -> None:
    """rclone copies the others, and reports no failure."""

    class Late(Transfer):
        def _copy(self, source: str, *rest: Any) -> TransferProgress:
            (Path(source) / "b").unlink()
            return super()._copy(source, *rest)

    source = tree(tmp_path / "from", {"a": b"one", "b": b"two"})
    late = Late(AttemptSettings(retry_s=0.01), {}, str(tmp_path), lambda _: None, NOWHERE, lambda _: rclone_path())
    with pytest.raises(TransferFailed, match="/b vanished while it was copied"):
        late.copy(f"file://{source}", f"file://{tmp_path}/to", only=["a", "b"])
