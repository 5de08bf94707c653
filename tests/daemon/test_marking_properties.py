"""An older database is noticed, and no other one is taken for one, whatever happens to a guard and its SQLite file."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders import at
from tests.crashing import CrashPoint, FragileDatabase, Killed
from tests.fakes import HandClock
from tests.in_memory import memory_folder

from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.daemon.marking import Marking
from costguard.db import lease as leases
from costguard.db.mark_file import LedgerMark, MarkFile

_NOW = at("12:00")
_STEPS = 4  # of one turn: before a transaction, before its commit, after it, and before the log is synced
_STORIES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["look", "start"]), st.just(0)),
        st.tuples(st.sampled_from(["look", "start"]), st.integers(1, _STEPS)),
        st.tuples(st.just("back up"), st.just(0)),
        st.tuples(st.just("put back"), st.integers(0, 5)),
        st.tuples(st.just("cut power"), st.integers(0, 1)),
    ),
    min_size=3,
    max_size=14,
)


@given(_STORIES)
@example([("look", 0), ("back up", 0), ("look", 0), ("put back", 0), ("start", 0)])
@example([("look", 0), ("back up", 0), ("look", 0), ("put back", 0), ("start", 2), ("start", 3), ("start", 0)])
@example([("look", 0), ("back up", 0), ("look", 0), ("put back", 0), ("look", 0), ("put back", 0), ("start", 0)])
@settings(max_examples=30)
def test_older_database_is_noticed_and_no_other(sqlite_template: Path, story: list[tuple[str, int]]) -> None:
    """Guards that look, are killed at any step and start again; copies put back in place; power cuts."""
    _lived(sqlite_template, story)


@given(st.integers(0, 3), st.integers(0, _STEPS), st.integers(0, 1))
@settings(max_examples=15)
def test_power_cut_is_no_restore(sqlite_template: Path, looks: int, dies_at: int, mark_survives: int) -> None:
    """A commit to SQLite may be lost in a power cut, and then the mark was not written yet."""
    story = [*[("look", 0)] * looks, ("look", dies_at), ("cut power", mark_survives), ("start", 0), ("look", 0)]
    assert _lived(sqlite_template, story).mark.generation == 1


def _lived(template: Path, story: list[tuple[str, int]]) -> _File:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        file = _File(Path(folder), template)
        for what, number in story:
            match what:
                case "start":
                    file.start(number)
                case "look":
                    file.look(number)
                case "back up":
                    file.back_up()
                case "put back":
                    if not file.put_back(number):
                        break
                case "cut power":
                    file.cut_power(mark_survives=bool(number))
        file.stop()
    return file


class _Disk(FragileDatabase):
    """May end before its log is synced, and keeps what a power cut after that leaves."""

    survives: Path
    was_synced = False

    def sync(self) -> None:
        self.fuse.step()
        super().sync()
        assert self.file is not None
        _copy(self.file, self.survives)
        self.was_synced = True


def _copy(source: Path, target: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
    for suffix in ("", "-wal"):
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")


class _File:
    """The SQLite file, its guard, and what is known of both.

    Each state that the database was ever in has a number. `line` are those that led to the present one, `synced` those
    that led to what a power cut leaves.
    """

    def __init__(self, folder: Path, template: Path) -> None:
        self._path, self._survives = folder / "ledger.db", folder / "survives.db"
        shutil.copy(template, self._path)
        shutil.copy(template, self._survives)
        self._mark_file = MarkFile(self._path)
        self._fuse = CrashPoint()
        self._database: _Disk | None = None
        self._marking: Marking | None = None
        self._left: int | None = None  # the state in which the guard that runs left the database
        self._marked: int | None = None  # the state that the file is of
        self._line: tuple[int, ...] = (0,)
        self._synced: tuple[int, ...] = (0,)
        self._states = 1
        self._backups: list[tuple[Path, tuple[int, ...]]] = []
        self.mark = LedgerMark()

    def start(self, dies_at: int = 0) -> None:
        """A guard, in the place of one that runs. It may be killed at a step."""
        self.stop()
        database = _Disk.open(f"sqlite:///{self._path}")
        assert isinstance(database, _Disk)
        database.fuse, database.survives = self._fuse, self._survives
        self._database = database
        self._marking = Marking(database, HandClock(_NOW))
        self._turn(self._marking.settle_in, dies_at)

    def look(self, dies_at: int = 0) -> None:
        if self._database is None:
            self.start()
        marking, database = self._marking, self._database
        assert marking is not None
        assert database is not None
        lease = leases.acquire(database, LEASE, "guard", LEASE_TTL)  # the one before went with its database, perhaps
        assert lease is not None
        self._turn(lambda: marking.look(lease), dies_at)

    def stop(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = self._marking = self._left = None

    def back_up(self) -> None:
        path = self._path.with_name(f"backup-{len(self._backups)}.db")
        with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)
        self._backups.append((path, self._line))

    def put_back(self, number: int) -> bool:
        """Puts a copy back in place, also while a guard runs.

        False: it lost something of which no mark is, so nobody can tell.
        """
        if not self._backups:
            return True
        path, line = self._backups[number % len(self._backups)]
        can_tell = line == self._line or not self._known <= set(line)
        self._replace(path, line)
        return can_tell

    def cut_power(self, *, mark_survives: bool) -> None:
        """Cuts the power: what was synced survives, and the mark or an empty file."""
        self.stop()
        lost = set(self._line) - set(self._synced)
        self._backups = [(path, line) for path, line in self._backups if not lost & set(line)]
        self._replace(self._survives, self._synced)
        if not mark_survives and self._mark_file.path.exists():
            self._mark_file.path.write_bytes(b"")
            self._marked = None

    @property
    def _known(self) -> set[int]:
        return {state for state in (self._left, self._marked) if state is not None}

    def _replace(self, by: Path, line: tuple[int, ...]) -> None:
        if self._database is not None:
            self._database.close()
        before = self._path.stat().st_ino
        content = {suffix: Path(f"{by}{suffix}") for suffix in ("", "-wal")}
        for suffix in ("-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        for suffix, path in content.items():
            if path.exists():
                shutil.copyfile(path, f"{self._path}{suffix}")
                Path(f"{self._path}{suffix}").chmod(0o600)
        assert self._path.stat().st_ino == before
        self._line = line

    def _turn(self, act: Callable[[], object], dies_at: int) -> None:
        """A new generation begins where anything is known of a state that did not lead to this one, and only there."""
        before, is_older = self._read(), not self._known <= set(self._line)
        assert self._database is not None
        self._fuse.left, self._database.was_synced = dies_at, False
        is_killed = False
        try:
            act()
        except Killed:
            is_killed = True
        self._fuse.left = 0
        self.mark = self._read()
        if self.mark != before:
            assert (self.mark.generation > before.generation) == is_older
            answered = sorted(self._known) if is_older else []  # the new generation is later than theirs
            self._line, self._states = (*self._line, *answered, self._states), self._states + 1
        else:
            assert is_killed or not is_older
        if self._database.was_synced:
            self._synced = self._line
        if self._mark_file.read() == self.mark:
            self._marked = self._line[-1]
        self._left = self._line[-1]
        if is_killed:
            self.stop()

    def _read(self) -> LedgerMark:
        with closing(sqlite3.connect(self._path)) as connection:
            row = connection.execute("SELECT generation, mark FROM installation").fetchone()
        return LedgerMark(*row) if row is not None else LedgerMark()
