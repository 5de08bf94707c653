"""Counts a mark on while the guard acts, and notices by it when an older database was put in the place of its own."""

from __future__ import annotations

import threading

import structlog
from sqlalchemy import Connection

from costguard.daemon import restoring
from costguard.db.lease import Lease
from costguard.db.mark_file import LedgerMark, MarkFile
from costguard.db.transaction import Database
from costguard.ledger import generation
from costguard.model.generation import FIRST, Cause
from costguard.model.ports import Clock

log = structlog.get_logger(__name__)


class Marking:
    """Keeps the mark of one guard. The mark that it last left in the database is remembered here and, of SQLite, in a
    file next to it.

    The file is written after the database, and only with what outlives a power cut there. So a database that is behind
    the file has lost something, whatever happened to the process or the machine. PostgreSQL itself tells rows that were
    put back from those that the guard wrote, and its timeline tells of a recovery to a moment in the past.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._file = MarkFile(database.file) if database.file is not None else None
        self._left: LedgerMark | None = None  # in the database, by this process
        self._tried: LedgerMark | None = None  # perhaps in it: what became of its commit is not known
        self._turn = threading.Lock()
        self._is_unwritable = False

    def settle_in(self) -> None:
        """Prepares a guard that may act, at its start.

        An older database, or one in another place, begins a generation.
        """
        with self._turn:
            with self._database.write() as connection:
                home = generation.home_of(connection)
                if generation.is_elsewhere(connection, home):
                    self._begin(connection, Cause.MOVED, "")
                elif (why := self._read(connection)[1]) is not None:
                    self._begin(connection, Cause.OLDER, why)
                generation.settle_in(connection, home)
                mark = generation.reached(connection).mark
            self._leave(mark)

    def look(self, fence: Lease) -> None:
        """Looks at the mark; call it every few seconds from the guard that acts. Raises LeaseLost, StoreError."""
        with self._turn:
            with self._database.write(fence) as connection:
                mark, why = self._read(connection)
                if why is not None:
                    self._begin(connection, Cause.OLDER, why)
                    mark = generation.reached(connection).mark
                mark = self._tried = generation.count_on(connection, mark)
            self._leave(mark)

    def _read(self, connection: Connection) -> tuple[LedgerMark, str | None]:
        """Returns the mark that the database has reached, and why it is older than it was; None: it seems not to be."""
        seen, left = self._seen(), () if self._left is None else (self._left, self._tried)
        reached = generation.reached(connection)
        return reached.mark, generation.why_older(connection, reached, seen, left)

    def _seen(self) -> LedgerMark | None:
        """The latest mark of which anything is known."""
        in_file = self._file.read() if self._file is not None else None
        return max((mark for mark in (self._left, in_file) if mark is not None), default=None)

    def _begin(self, connection: Connection, cause: Cause, why: str) -> None:
        seen = self._seen()
        now = self._clock.now()
        life = restoring.begin(connection, cause, now, why=why, seen=FIRST if seen is None else seen.generation)
        log.warning("generation_began", generation=life.number, cause=cause.value, why=why)

    def _leave(self, mark: LedgerMark) -> None:
        """It is committed. A file that cannot be written stays behind, and so raises no false alarm."""
        self._left = mark
        if self._file is None:
            return
        try:
            if self._file.read() != mark:
                self._database.sync()
                self._file.write(mark)
            self._is_unwritable = False
        except OSError as error:
            if not self._is_unwritable:
                log.warning("mark_not_written", path=str(self._file.path), error=str(error))
            self._is_unwritable = True
