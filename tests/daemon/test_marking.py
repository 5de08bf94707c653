"""A guard notices every older copy of its database, and takes no other database for one."""

from __future__ import annotations

import shutil
import stat
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs
from tests.crashing import CrashPoint, Killed, fragile_database
from tests.daemon.marked import NOW, Guard, file_of, generation_at_start, sign, started
from tests.fakes import HandClock

from costguard.daemon import backups
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.daemon.marking import Marking
from costguard.db import lease as leases
from costguard.db.mark_file import LedgerMark, MarkFile
from costguard.db.tables import changes, events, installation
from costguard.db.transaction import Database
from costguard.ledger import generation
from costguard.model.generation import Cause

# What is noticed.


def test_copy_put_back_in_place_begins_a_generation(database_url: str) -> None:
    """The same file, or the same tables, with the rows of then; once it is noticed, a restart is no restore."""
    with started(database_url) as guard:
        guard.look()
        restore = guard.back_up()
        guard.look()
        restore()
    with started(database_url) as guard:
        assert guard.generation.number == 2
        assert guard.generation.cause is Cause.OLDER
        with guard.database.read() as connection:
            (said,) = connection.scalars(select(events.c.text))
        assert "a backup was put back" in said
    assert generation_at_start(database_url) == 2


def test_copy_put_back_while_a_guard_runs_is_noticed_when_it_looks(database_url: str) -> None:
    """Rows can be put back under a running guard, and files, too."""
    with started(database_url) as guard:
        guard.look()
        restore = guard.back_up()
        guard.look()
        restore()
        assert guard.look() == 2
        assert guard.look() == 2


def test_guard_that_waited_for_the_lease_notices_a_copy_when_it_gets_it(database_url: str) -> None:
    """It had settled in long before, when another acted."""
    with started(database_url) as guard, closing(Database.open(database_url)) as seen_by_other:
        waiting = Marking(seen_by_other, HandClock(NOW))
        waiting.settle_in()
        restore = guard.back_up()
        guard.look(3)
        seen_by_other.close()
        restore()
        taken = leases.acquire(seen_by_other, LEASE, "another", LEASE_TTL, NOW + timedelta(days=9000))
        assert taken is not None
        waiting.look(taken)
        assert guard.generation.number == 2


def test_same_copy_put_back_again_begins_a_generation_of_its_own(database_url: str) -> None:
    """The VMs launched in the lost one bear its number, which therefore is not given again."""
    with started(database_url) as guard:
        guard.look()
        restore = guard.back_up()
        guard.look()
        restore()
        assert guard.look() == 2
        restore()
        if database_url.startswith("postgresql"):  # which no file remembers it for
            assert guard.look() == 3
    assert generation_at_start(database_url) == 3


def test_everything_is_as_after_a_restore(database_url: str) -> None:
    """Numbers of changes, by which processes remember what they read, are not those of the lost time, nor of what was
    put back before.
    """
    with started(database_url) as guard:
        restore = guard.back_up()
        guard.look()
        numbers = []
        for _ in range(2):
            restore()
            guard.look()
            with guard.database.read() as connection:
                numbers.append(set(connection.scalars(select(changes.c.number))))
    assert min(numbers[0]) >= generation.MOST_CHANGES
    assert max(numbers[0]) < min(numbers[1])


def test_standby_server_that_lost_a_mark_begins_a_generation(database_url: str) -> None:
    """It had not got the last writes: what people answered then may be among them."""
    with started(database_url) as guard:
        guard.look(3)
        with guard.database.write() as connection:
            connection.execute(update(installation).values(mark=installation.c.mark - 1))
            sign(connection)
        assert guard.look() == 2


# What is none.


def test_restart_is_no_restore(database_url: str) -> None:
    """Guards that come and go, one after the other or next to each other."""
    for _ in range(3):
        with started(database_url) as guard, started(database_url) as other:
            assert [other.look(), other.look(), guard.generation.number] == [1, 1, 1]


def test_lease_that_changes_hands_is_no_restore(database_url: str) -> None:
    """Each of two guards finds that the other one has counted on."""
    with started(database_url) as one, started(database_url) as other:
        for moment in range(1, 4):
            for guard in (one, other):
                taken = leases.acquire(guard.database, LEASE, str(id(guard)), LEASE_TTL, NOW + moment * LEASE_TTL)
                if taken is not None:
                    guard.marking.look(taken)
        assert other.generation.number == 1


@pytest.mark.parametrize("step", range(1, 8))
def test_killed_guard_is_no_restore(database_url: str, step: int) -> None:
    """Before, within and after each of its transactions, and before the file is written."""
    fuse = CrashPoint()
    with fragile_database(database_url, fuse) as database:
        guard = Guard(database)
        guard.look()
        fuse.left = step
        with pytest.raises(Killed):
            guard.look(4)
    for _ in range(2):
        with started(database_url) as guard:
            assert guard.look() == 1


def test_upgraded_database_is_no_older_one(database_url: str) -> None:
    """A migration that wrote its row again left no mark there, and its file has none."""
    assert generation_at_start(database_url) == 1
    with closing(Database.open(database_url)) as database, database.write() as connection:
        connection.execute(update(installation).values(mark=0, written_by=None, timeline=None))
    if database_url.startswith("sqlite"):
        file_of(database_url).path.unlink()
    with started(database_url) as guard:
        assert guard.look() == 1


def test_restore_by_command_is_one_generation(database_url: str, tmp_path: Path) -> None:
    """`costguard db restore` says itself that the database is older; the mark says it not once more."""
    with started(database_url) as guard:
        guard.look(2)
        leases.release(guard.database, guard.lease)
        backups.backup(database_url, tmp_path / "backup.zip", NOW)
        guard.look(2)
    assert backups.restore(database_url, tmp_path / "backup.zip", NOW, replace=True).generation.number == 2
    assert generation_at_start(database_url) == 2


def test_restore_by_command_begins_a_later_generation_than_any_that_was(sqlite_url: str, tmp_path: Path) -> None:
    """The database that is replaced is broken, and only its mark says how many there were."""
    backups.backup(sqlite_url, tmp_path / "backup.zip", NOW)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    MarkFile(path).write(LedgerMark(4, 100))
    path.write_bytes(b"broken")
    assert backups.restore(sqlite_url, tmp_path / "backup.zip", NOW).generation.number == 5
    assert generation_at_start(sqlite_url) == 5


# SQLite.


def test_copied_file_begins_a_generation_and_the_same_file_does_not(sqlite_url: str, tmp_path: Path) -> None:
    """A backup that was moved into place is another file, also when nothing was written since."""
    assert [generation_at_start(sqlite_url) for _ in range(2)] == [1, 1]
    path, copy = Path(sqlite_url.removeprefix("sqlite:///")), tmp_path / "copy.db"
    shutil.copy(path, copy)
    assert generation_at_start(sqlite_url) == 1
    copy.replace(path)
    assert [generation_at_start(sqlite_url) for _ in range(2)] == [2, 2]


def test_copy_to_which_nothing_was_added_is_not_older(sqlite_url: str) -> None:
    """The same bytes put back over themselves lose nothing."""
    with started(sqlite_url) as guard:
        guard.look()
        guard.back_up()()
    assert generation_at_start(sqlite_url) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 40, b"{", b"[]", b"1", b'{"generation": 1}', b'{"generation": "9", "mark": 1}',
        b'{"generation": 9e9, "mark": 1}', b'{"generation": 1000000000, "mark": 1}', b'{"generation": true, "mark": 1}',
        b'{"generation": 1, "mark": 1e400}', b'{"generation": 0, "mark": 5}', b"[" * 100_000, b"\xff\xfe",
    ],
)  # fmt: skip
def test_mark_file_that_says_nothing_is_written_again(sqlite_url: str, content: bytes) -> None:
    """An empty one is what a power cut may leave."""
    file = file_of(sqlite_url)
    file.path.write_bytes(content)
    with started(sqlite_url) as guard:
        assert guard.look() == 1
    assert file.read() == LedgerMark(1, 1)


def test_older_mark_file_is_written_again(sqlite_url: str) -> None:
    """It was put back alone: the database is ahead of it."""
    with started(sqlite_url) as guard:
        guard.look(5)
    file_of(sqlite_url).write(LedgerMark(1, 2))
    with started(sqlite_url) as guard:
        assert guard.generation.number == 1
    assert file_of(sqlite_url).read() == LedgerMark(1, 5)


def test_mark_file_has_the_mode_of_the_database_and_leaves_nothing_behind(sqlite_url: str) -> None:
    """Users who may read the one may read the other."""
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.chmod(0o640)
    with started(f"{sqlite_url}?widest_mode=0660") as guard:
        guard.look()
        assert stat.S_IMODE(file_of(sqlite_url).path.stat().st_mode) == 0o640
    assert {left.name for left in path.parent.iterdir() if "mark" in left.name} == {f".{path.name}-mark"}


def test_mark_file_that_cannot_be_written_is_reported_once(sqlite_url: str) -> None:
    """The guard works on without it, and reports it again only after it could be written."""
    file = file_of(sqlite_url)
    file.path.mkdir()
    with capture_logs() as lines, started(sqlite_url) as guard:
        assert guard.look(3) == 1
        file.path.rmdir()
        guard.look()
    assert [line["path"] for line in lines if line["event"] == "mark_not_written"] == [str(file.path)]
    assert file.read() == LedgerMark(1, 4)


def test_mark_lies_next_to_the_file_that_a_link_names(sqlite_url: str, tmp_path: Path) -> None:
    """Where SQLite keeps its own files, so that both are found by either name."""
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(Path(sqlite_url.removeprefix("sqlite:///")))
    assert MarkFile(link).path == file_of(sqlite_url).path


def test_the_mark_is_on_the_disk_before_the_file_says_so(sqlite_url: str) -> None:
    """A power cut that took the database back, and not the file, would look like a restore."""
    seen: list[LedgerMark | None] = []

    class Recorded(Database):
        def sync(self) -> None:
            seen.append(file_of(sqlite_url).read())
            super().sync()

    with closing(Recorded.open(sqlite_url)) as database:
        guard = Guard(database)
        first = file_of(sqlite_url).read()
        guard.look()
        assert seen == [None, first]
