"""The SQLite file is its owner's alone: what we make is, and what others can read or write is refused."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from costguard.db import connect, database_file, migrate
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable, StoreError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no modes: a file has its folder's rights")


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def url(file: Path) -> str:
    return f"sqlite:///{file}"


def read(database: str) -> None:
    with closing(Database.open(database)) as opened, opened.read():
        pass


def test_every_file_of_a_new_database_is_its_owners_alone(umask: int, tmp_path: Path) -> None:
    """Database, -wal and -shm have the mode 0600 whatever the umask, in the middle of a write as well."""
    folder = tmp_path / "made"
    folder.mkdir()
    folder.chmod(0o755)
    file = folder / "costguard.db"
    migrate.upgrade(url(file))
    with closing(Database.open(url(file))) as database, database.write() as connection:
        connection.exec_driver_sql("DELETE FROM projects")
        files = {path.name: mode(path) for path in folder.iterdir()}
    assert files == {"costguard.db": 0o600, "costguard.db-wal": 0o600, "costguard.db-shm": 0o600}


def test_a_rollback_journal_has_the_mode_of_its_database(umask: int, tmp_path: Path) -> None:
    """SQLite itself gives journals the database's mode (sqlite.org, os_unix.c findCreateFileMode): it is tried here."""
    file = tmp_path / "costguard.db"
    database_file.make(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("CREATE TABLE one (x)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO one VALUES (1)")
        assert mode(tmp_path / "costguard.db-journal") == 0o600
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o644, 0o660, 0o666, 0o602, 0o620])
def test_a_database_that_others_can_read_is_refused(wide: int, sqlite_url: str, tmp_path: Path) -> None:
    """The refusal names the mode and a command; the very command, run by a shell, mends it."""
    file = tmp_path / "costguard.db"
    file.chmod(wide)
    with pytest.raises(StoreError) as refused:
        read(sqlite_url)
    assert f"mode is {wide:04o}" in refused.value.message
    with pytest.raises(StoreError):
        migrate.upgrade(sqlite_url)
    assert mode(file) == wide  # nothing was changed behind its owner's back
    command = refused.value.what_next.split("`")[1]
    assert command == f"chmod 600 {file}"
    subprocess.run(shlex.split(command), check=True)
    read(sqlite_url)


def test_what_a_crash_left_behind_is_looked_at_too(sqlite_url: str, tmp_path: Path) -> None:
    """A -wal of an earlier version holds rows: chmod of the database alone leaves them readable."""
    left = tmp_path / "costguard.db-wal"
    left.touch()
    left.chmod(0o644)
    with pytest.raises(StoreError) as refused:
        read(sqlite_url)
    assert f"chmod 600 {left}`" in refused.value.what_next


def test_a_name_with_spaces_is_quoted_in_the_command(sqlite_url: str, tmp_path: Path) -> None:
    """The command pasted into a shell means this file."""
    file = tmp_path / "our ledger.db"
    (tmp_path / "costguard.db").rename(file)
    file.chmod(0o644)
    with pytest.raises(StoreError) as refused:
        database_file.check(file)
    assert shlex.split(refused.value.what_next.split("`")[1]) == ["chmod", "600", str(file)]


def test_a_link_is_judged_by_the_file_that_it_leads_to(sqlite_url: str, tmp_path: Path) -> None:
    """A link to nothing makes a private file where it leads."""
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "costguard.db")
    (tmp_path / "costguard.db").chmod(0o644)
    with pytest.raises(StoreError, match=r"costguard\.db"):
        database_file.check(link)
    dangling, target = tmp_path / "dangling.db", tmp_path / "target.db"
    dangling.symlink_to(target)
    before = os.umask(0)
    try:
        migrate.upgrade(url(dangling))
    finally:
        os.umask(before)
    assert mode(target) == 0o600


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """They could change it, or let others read it; only root works on the files of others."""
    file = tmp_path / "costguard.db"
    file.touch(0o600)
    owner = file.stat().st_uid
    if owner == 0:  # root's own files are everybody's to use: give it to someone else
        os.chown(file, owner := 4711, -1)
    database_file.check(file, euid=owner)
    database_file.check(file, euid=0)
    stranger = owner + 1
    with pytest.raises(StoreError, match="belongs to another user"):
        database_file.check(file, euid=stranger)


def test_a_volume_that_sets_modes_itself_is_named_in_the_url(sqlite_url: str, tmp_path: Path) -> None:
    """Kubernetes' fsGroup adds rw for the group at each mount: what the URL allows is accepted, and no more."""
    file = tmp_path / "costguard.db"
    file.chmod(0o660)
    read(f"{sqlite_url}?widest_mode=0660")
    migrate.upgrade(f"{sqlite_url}?widest_mode=0660")
    file.chmod(0o664)
    with pytest.raises(StoreError):
        read(f"{sqlite_url}?widest_mode=0660")
    for wrong in ("rw", "660x", "0o660", "99"):
        with pytest.raises(DatabaseUnreachable, match="widest_mode"):
            connect.parse(f"{sqlite_url}?widest_mode={wrong}")


def test_a_file_that_is_no_database_keeps_its_mode(tmp_path: Path) -> None:
    """A mistyped URL sends nobody to take the rights of a file that others need: it is no database."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    hosts.chmod(0o644)
    with pytest.raises(DatabaseUnreachable, match="no SQLite database"):
        read(url(hosts))


def test_a_folder_that_anybody_may_write_to_is_warned_of(tmp_path: Path) -> None:
    """Anybody could put another ledger in the place of ours; /tmp's sticky bit keeps them from it."""
    file = tmp_path / "costguard.db"
    assert database_file.warnings(file) == []
    tmp_path.chmod(0o777)
    assert f"chmod o-w {tmp_path}" in database_file.warnings(file)[0]
    tmp_path.chmod(0o1777)
    assert database_file.warnings(file) == []


def test_no_check_frees_the_file_for_others(sqlite_url: str, tmp_path: Path) -> None:
    """A look at the file by another descriptor would take SQLite's locks from the process that looks.

    Another process then takes the log away when it closes the file, and what the two write is lost to each other.
    https://www.sqlite.org/howtocorrupt.html, 2.2
    """
    wide = tmp_path / "costguard.db"
    wide.chmod(0o660)
    with closing(Database.open(f"{sqlite_url}?widest_mode=0660")) as database:
        for _ in "12":  # the second time over connections of the first
            with database.write() as connection:
                connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS seen (by TEXT)")
            with database.read() as connection:
                connection.exec_driver_sql("SELECT * FROM seen").all()
            with suppress(StoreError):
                database_file.check(wide)
            other = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('INSERT INTO seen VALUES (1)')"
            subprocess.run([sys.executable, "-c", f"{other}; c.commit(); c.close()", wide], check=True)
        with database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM seen").scalar_one() == 2
        assert (tmp_path / "costguard.db-wal").exists()
