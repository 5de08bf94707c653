"""The whole output as compressed pieces: each complete, none written for nothing, the end of a run and of a VM too."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import Vm
from tests.waiting import until

from costguard_vm.agent.failures import TransferFailed
from costguard_vm.agent.log_pieces import CLOSED_BYTES, LogPieces
from costguard_vm.agent.output import OutputLog
from costguard_vm.agent.settings import AttemptSettings
from costguard_vm.agent.transfers.preparation import CommandSecrets

RCLONE = Path(sys.executable).with_name("rclone")


class Bucket:
    """Keeps what is written; refuses while it is `full`, and to replace an object where it is `locked`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.writes = 0
        self.full = self.locked = False

    def transfer(self, _wait: Any, is_gentle: bool = True) -> Bucket:
        return self

    def write(self, uri: str, content: bytes) -> None:
        if self.full or (self.locked and uri in self.objects):
            raise TransferFailed(f"{uri} cannot be written")
        self.objects[uri] = content
        self.writes += 1

    @property
    def output(self) -> bytes:
        """Returns the output that a reader puts together; each piece must begin where the one before ends."""
        text = b""
        for uri, content in sorted(self.objects.items()):
            assert int(uri.rpartition("/")[2].split(".")[0]) == len(text)
            text += gzip.decompress(content)
        return text


MakePieces = Callable[[Bucket], LogPieces]


@pytest.fixture
def pieces(tmp_path: Path) -> Iterator[MakePieces]:
    """Each is what another agent has of the same run."""
    run = tmp_path / "runs" / "1"
    run.mkdir(parents=True)
    made: list[LogPieces] = []

    def make(bucket: Bucket) -> LogPieces:
        credentials = cast("CommandSecrets", bucket)  # the method of it that is called
        made.append(LogPieces(AttemptSettings(logs="s3://b/logs/a-1"), credentials, str(tmp_path / "log"), str(run)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def no_wait(_: float) -> None:
    pass


def test_the_newest_piece_grows_and_a_large_one_stays(tmp_path: Path, pieces: MakePieces) -> None:
    """Nothing is written where nothing was printed; names are the numbers of the first byte."""
    bucket, log = Bucket(), OutputLog(str(tmp_path / "log"), 50 << 20, 3)
    writer = pieces(bucket)
    assert writer.save(no_wait) is None
    assert bucket.writes == 0
    log.write(b"step 1\n")
    writer.save(no_wait)
    log.write(b"step 2\n")
    writer.save(no_wait)
    writer.save(no_wait)
    assert (bucket.writes, list(bucket.objects)) == (2, ["s3://b/logs/a-1/1/000000000000000.log.gz"])
    log.write(b"x" * CLOSED_BYTES)
    writer.save(no_wait)
    log.write(b"later\n")
    writer.save(no_wait, is_last=True)
    log.close()
    assert len(bucket.objects) == 2
    assert bucket.output == b"step 1\nstep 2\n" + b"x" * CLOSED_BYTES + b"later\n"


@pytest.mark.parametrize("printed", [b"", b"y" * CLOSED_BYTES])
def test_a_later_agent_goes_on_where_the_earlier_came_to(tmp_path: Path, pieces: MakePieces, printed: bytes) -> None:
    """An agent killed between the write and its note writes the same piece again; no byte is there twice."""
    bucket, log = Bucket(), OutputLog(str(tmp_path / "log"), 50 << 20, 3)
    log.write(b"step 1\n" + printed)
    pieces(bucket).save(no_wait)
    log.write(b"step 2\n")
    noted = (tmp_path / "runs" / "1" / "log.json").read_bytes()
    pieces(bucket).save(no_wait)
    (tmp_path / "runs" / "1" / "log.json").write_bytes(noted)
    log.write(b"step 3\n")
    log.close()
    pieces(bucket).save(no_wait)
    assert bucket.output == b"step 1\n" + printed + b"step 2\nstep 3\n"


def test_what_a_bucket_refused_is_written_later(tmp_path: Path, pieces: MakePieces) -> None:
    """The pieces come in order, and the reason is known."""
    bucket, log = Bucket(), OutputLog(str(tmp_path / "log"), 50 << 20, 3)
    writer = pieces(bucket)
    bucket.full = True
    log.write(b"step 1\n")
    assert "cannot be written" in str(writer.save(no_wait))
    bucket.full = False
    log.write(b"step 2\n")
    log.close()
    assert writer.save(no_wait) is None
    assert bucket.output == b"step 1\nstep 2\n"


def test_a_bucket_that_replaces_nothing_gets_more_pieces(tmp_path: Path, pieces: MakePieces) -> None:
    """An account may be allowed to create objects and no more; a later agent knows where the last one began."""
    bucket, log = Bucket(), OutputLog(str(tmp_path / "log"), 50 << 20, 3)
    bucket.locked = True
    writer = pieces(bucket)
    for number in range(3):
        log.write(b"step %d\n" % number)
        writer.save(no_wait)
    later = pieces(bucket)
    log.write(b"step 3\n")
    log.close()
    later.save(no_wait)
    assert bucket.output == b"step 0\nstep 1\nstep 2\nstep 3\n"
    assert len(bucket.objects) == 4


def test_output_that_was_rotated_away_is_said_to_be_missing(tmp_path: Path, pieces: MakePieces) -> None:
    """The output that is still there follows."""
    bucket, log = Bucket(), OutputLog(str(tmp_path / "log"), 100, 2)
    writer = pieces(bucket)
    log.write(b"first\n")
    writer.save(no_wait)
    for number in range(50):
        log.write(b"line %d\n" % number)
    log.close()
    writer.save(no_wait, is_last=True)
    assert bucket.output.startswith(b"first\n")
    assert b"some output is missing here" in bucket.output
    assert bucket.output.endswith(b"line 48\nline 49\n")


def _is_whole(piece: Path) -> bool:
    """A folder shows a file while it is being written; a bucket does not."""
    try:
        return gzip.decompress(piece.read_bytes()) != b""
    except EOFError:
        return False


def test_a_vm_stores_its_output_with_rclone(vm: Vm, guard: FakeGuard, tmp_path: Path) -> None:
    """While the command runs, and its last words before the exit is reported, with secrets hidden."""
    shared = tmp_path / "shared"
    vm.path = f"{RCLONE.parent}:{vm.path}"
    vm.metadata.secrets["projects/ml/secrets/key"] = "key-0123456789"
    vm.metadata.secrets["projects/ml/secrets/key/versions/latest"] = "key-0123456789"
    vm.train(
        f"{WAIT}\nprint('step 1', os.environ['KEY'])\nwait('go')\nprint('last words')",
        logs=f"file://{shared}/run/.costguard/logs/a-1",
        log_s=0.2,
        secrets={"KEY": "projects/ml/secrets/key"},
    )
    vm.boot()
    piece = shared / "run" / ".costguard" / "logs" / "a-1" / "1" / "000000000000000.log.gz"
    until(lambda: piece.exists() and _is_whole(piece))
    assert gzip.decompress(piece.read_bytes()) == b"step 1 ***\n"
    (vm.work / "go").touch()
    guard.wait_for("exit")
    assert gzip.decompress(piece.read_bytes()) == b"step 1 ***\nlast words\n"
    assert vm.finished() == 0
