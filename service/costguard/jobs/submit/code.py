"""The code of jobs: archives of work directories, kept while open jobs need them, and longer where there is room."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import IO

import structlog
from sqlalchemy import select, text

from costguard.db.lease import Lease
from costguard.db.tables import LIVE_SCHEDULE, OPEN_SWEEP, schedules, sweeps
from costguard.db.transaction import Database
from costguard.errors import CheckpointError, Conflict, Invalid, Missing, Unavailable
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.submit.submission import JobRefusal
from costguard.model.job import JobCode
from costguard.model.ports import Archives, Clock
from costguard_vm.model.checkpoint import StoredFile
from costguard_vm.model.code_archive import MOST_UNPACKED, ArchiveContents, WrongArchive
from costguard_vm.model.tar_stream import GzipStream, TarStream

KEPT = timedelta(days=30)  # after its last upload, where no open job needs it
# A job cannot name an archive that is about to be deleted: it has to be uploaded again for the launch.
_OFFERED = KEPT - timedelta(days=1)
_YOUNG = timedelta(hours=1)  # it may have been uploaded for a launch that is still under way
_SUFFIX = ".tar.gz"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CodeOfAttempt:
    """`content` comes piece by piece; `size` is its length in bytes."""

    sha256: str
    size: int
    content: Iterator[bytes]


class CodeArchives:
    """`store` is None where there is no place. It holds at most `most_bytes`; None: any number.

    `clock` shows real time, as stores do.
    """

    def __init__(self, store: Archives | None, database: Database, clock: Clock, most_bytes: int | None = None) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._database = database
        self._clock = clock

    def find(self, sha256: str) -> StoredFile:
        """Raises Missing where it is not there, or so old that it has to be uploaded again; Unavailable."""
        stored = self._look(sha256)
        is_old = stored is not None and self._clock.now() - stored.modified_at >= _OFFERED
        if stored is None or (is_old and sha256 not in self._scheduled()):
            raise Missing(
                f"There is no archive {sha256[:12]}.", f"Upload it: PUT /api/v1/code/{sha256}.", kind="no-code"
            )
        return stored

    def keep(self, sha256: str, file: IO[bytes]) -> None:
        """Stores an archive that is what its name says. Raises Conflict (no room), Invalid, Unavailable."""
        store = self._given()
        try:
            check_archive(file, sha256)
        except WrongArchive as wrong:
            raise Invalid(
                f"This is no archive of code that can be used: {wrong}.", "Let costguard launch --workdir pack it."
            ) from None
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        try:
            self._make_room(store, sha256, size)
            store.put(sha256 + _SUFFIX, file)
        except CheckpointError as error:
            raise _away(error) from error

    def problem(self, code: JobCode | None) -> JobRefusal | None:
        """Explains why a job with this code could not begin; None where it could."""
        if code is None:
            return None
        try:
            self.find(code.sha256)
        except (Conflict, Missing, Unavailable) as error:
            return JobRefusal("code", f"{error.message} {error.what_next}")
        return None

    def of_attempt(self, name: str) -> CodeOfAttempt:
        """The archive that this attempt's job names, whatever its age. Raises Missing, Unavailable."""
        with self._database.read() as connection:
            row = attempts.called(connection, name)
            job = job_rows.read(connection, row[0].job_id) if row is not None else None
        code = job.spec.code if job is not None else None
        if code is None:
            raise Missing(f"The job of {name} has no code.", "Launch it with --workdir.")
        stored = self._look(code.sha256)
        if stored is None:
            raise Missing(
                f"The archive {code.sha256[:12]} of its code is gone.", "Launch the job again with --workdir."
            )
        return CodeOfAttempt(code.sha256, stored.size, self._given().read(stored))

    def tidy(self, _: Lease | None = None, stop: threading.Event | None = None) -> int:
        """Deletes archives that are old and that no open job needs. How many it deleted."""
        if self._store is None:
            return 0
        deleted = 0
        try:
            for one in self._unneeded(self._store.listing(), KEPT):
                if stop is not None and stop.is_set():
                    break
                deleted += self._deleted(self._store, one)
        except CheckpointError as error:  # the next turn tries again
            log.warning("old_code_not_deleted", error=str(error))
        if deleted:
            log.info("old_code_deleted", archives=deleted)
        return deleted

    def _make_room(self, store: Archives, sha256: str, size: int) -> None:
        """Deletes the oldest archives that no open job needs, where a new one would go beyond the limit."""
        if self._most_bytes is None:
            return
        there = [one for one in store.listing() if one.path != sha256 + _SUFFIX]
        excess = sum(one.size for one in there) + size - self._most_bytes
        if excess <= 0:
            return
        spare = self._unneeded(there, _YOUNG)
        if sum(one.size for one in spare) < excess:
            raise Conflict(
                f"This server keeps at most {self._most_bytes >> 20:,} MiB of code, and open jobs need what is there.",
                'Wait until some of them have ended, or name a bucket in its settings: [jobs] code = "gs://bucket/code".',
            )
        for one in spare:
            if excess <= 0:
                break
            if self._deleted(store, one):
                excess -= one.size

    def _unneeded(self, listed: Sequence[StoredFile], age: timedelta) -> list[StoredFile]:
        """Archives of at least this age that no open job needs, the oldest first."""
        old = sorted(
            (one for one in listed if self._clock.now() - one.modified_at >= age), key=lambda one: one.modified_at
        )
        needed = self._needed() if old else set()
        return [one for one in old if _is_ours(one) and one.path.removesuffix(_SUFFIX) not in needed]

    @staticmethod
    def _deleted(store: Archives, one: StoredFile) -> bool:
        """It may have been uploaded again since it was listed: then it stays."""
        if store.find(one.path) != one:
            return False
        store.delete(one.path)
        return True

    def _needed(self) -> set[str]:
        """Returns the archives that open jobs need, and sweeps and schedules, which may still launch some."""
        with self._database.read() as connection:
            specs = [job.spec.code for job in job_rows.open_jobs(connection)]
            of_sweeps = connection.scalars(select(sweeps.c.code).where(text(OPEN_SWEEP), sweeps.c.code.is_not(None)))
            codes = {str(code["sha256"]) for code in of_sweeps if code is not None}
            codes |= {code.sha256 for code in specs if code is not None}
        return codes | self._scheduled()

    def _scheduled(self) -> set[str]:
        """Returns the archives of schedules that have not ended: their next runs need them, whatever their age."""
        of_schedules = select(schedules.c.template["spec"]["code"]["sha256"].as_string()).where(text(LIVE_SCHEDULE))
        with self._database.read() as connection:
            return {code for code in connection.scalars(of_schedules) if code}

    def _look(self, sha256: str) -> StoredFile | None:
        try:
            return self._given().find(sha256 + _SUFFIX)
        except CheckpointError as error:
            raise _away(error) from error

    def _given(self) -> Archives:
        if self._store is None:
            raise Conflict(
                "This server has no place for code.",
                'Name a bucket in its settings: [jobs] code = "gs://bucket/code".',
                kind="no-code-place",
            )
        return self._store


def _is_ours(stored: StoredFile) -> bool:
    return stored.path.endswith(_SUFFIX) and len(stored.path.removesuffix(_SUFFIX)) == 64


def _away(error: CheckpointError) -> Unavailable:
    return Unavailable(f"The archives of code cannot be reached: {error.message}", error.what_next)


def check_archive(file: IO[bytes], sha256: str) -> None:
    """Reads all of it, in bounded memory, as the agent will. Raises WrongArchive."""
    digest, unpacked = hashlib.sha256(), GzipStream(file, MOST_UNPACKED)

    def read(size: int) -> bytes:
        content = unpacked.read(size)
        digest.update(content)
        return content

    contents = ArchiveContents()
    for member in TarStream(read):
        contents.add(member.name, member.kind, member.target)
    contents.finish()
    if digest.hexdigest() != sha256:
        raise WrongArchive(f"its SHA-256 is {digest.hexdigest()}, not {sha256}")
