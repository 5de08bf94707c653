"""The whole output of a run, as compressed pieces in a bucket.

A piece is named by the number of the output's first byte in it, `000000001048576.log.gz`, and written whole. The newest
is written again with what was printed since, until it is large enough for the next to begin: what is there is always
complete, and a day of output is a few pieces, not one for each minute.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import zlib
from collections.abc import Callable

from .failures import TransferFailed, Trouble
from .files import read_json, say, spare, write_json
from .log_reader import CHUNK_BYTES, LogPlace, LogReader
from .settings import AttemptSettings, NotStarted
from .transfers.preparation import CommandSecrets
from .transfers.transfer import Transfer, Wait

CLOSED_BYTES = 1 << 20  # a piece with so many bytes of output is not written again
MOST_BYTES = 16 << 20  # of output in one piece, where much was printed at once
MISSING = b"\n[costguard: some output is missing here: it was printed faster than it could be stored]\n"
FAILURES = (TransferFailed, Trouble, NotStarted, OSError)
LONGEST_PAUSE_S = 900.0  # between tries that would fail again
LEVEL = 6
LAST_S = 120.0  # for what is left when the command has ended, while the VM bills


class LogPieces:
    """Writes what is new in a run's log. Does nothing where the settings name no place for it. Safe for two threads."""

    def __init__(self, settings: AttemptSettings, credentials: CommandSecrets, log: str, run_folder: str) -> None:
        self._settings, self._credentials, self._log = settings, credentials, log
        self._uri = f"{settings.logs.rstrip('/')}/{os.path.basename(run_folder)}" if settings.logs else ""
        self._noted = os.path.join(run_folder, "log.json")
        self._lock, self._now = threading.Lock(), threading.Event()
        self._reader: LogReader | None = None
        self._start, self._saved = 0, 0  # of the piece that may be written again
        self._begins, self._skipped = LogPlace(), 0  # so many bytes of the log after that place the piece begins
        self._content = b""  # of the piece that is not large enough yet
        self._is_read = False  # also what is in memory, as the disk is full

    def watch(self, over: threading.Event) -> None:
        """Writes once in a while, and at once when it is hurried."""
        pause = self._settings.log_s
        while self._uri:
            self._now.wait(pause)
            self._now.clear()
            if over.is_set():
                return
            trouble = self.save(over.wait)
            lasts = isinstance(trouble, (TransferFailed, NotStarted)) and trouble.repeats
            pause = min(LONGEST_PAUSE_S, 2 * pause) if lasts else self._settings.log_s

    def hurry(self) -> None:
        self._now.set()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def save(self, wait: Wait, is_last: bool = False) -> Exception | None:
        """Writes all that is new; returns why that failed. `wait` raises where it takes too long."""
        if not self._uri:
            return None
        while not self._lock.acquire(timeout=0.1):
            wait(0)
        until = time.monotonic() + LAST_S

        def wait_at_most(seconds: float) -> None:
            wait(seconds)
            if is_last and time.monotonic() > until:
                raise TransferFailed(f"{self._uri} took no output within {LAST_S:.0f} s")

        try:
            self._save(lambda: self._credentials.transfer(wait_at_most, is_gentle=not is_last), is_last)
        except FAILURES as trouble:
            say(f"the output is not stored: {trouble}")
            return trouble
        finally:
            self._lock.release()
        return None

    def _save(self, transfer: Callable[[], Transfer], is_last: bool) -> None:
        if self._reader is None:
            self._reader = self._resumed()
        while self._take(self._reader, is_last):
            try:
                self._write(transfer())
            except TransferFailed:
                if not self._saved:
                    raise
                # It may create objects and replace none: the rest becomes a piece of its own.
                self._start, self._skipped = self._start + self._saved, self._skipped + self._saved
                self._content, self._saved = self._content[self._saved :], 0
                self._write(transfer())
            if len(self._content) >= CLOSED_BYTES:
                self._start += len(self._content)
                self._content, self._saved = b"", 0
                self._begins, self._skipped = self._reader.place, 0
            self._note()

    def _take(self, reader: LogReader, is_last: bool) -> bool:
        """Reads on; returns whether there is something that is not stored."""
        while len(self._content) < MOST_BYTES:
            data = reader.read()
            if reader.lost:
                reader.lost, data = False, MISSING + data
            if not data and is_last and not self._is_read:
                self._is_read, data = True, _in_memory(self._log)
            if not data:
                break
            self._content += data
        return len(self._content) > self._saved

    def _write(self, transfer: Transfer) -> None:
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # gzip without a time: the same again
        transfer.write(f"{self._uri}/{self._start:015d}.log.gz", packer.compress(self._content) + packer.flush())
        self._saved = len(self._content)

    def _note(self) -> None:
        """Notes the place for a later agent: it reads the piece that may be written again from its beginning."""
        note = {"start": self._start, "saved": self._saved, "skipped": self._skipped, **self._begins._asdict()}
        with contextlib.suppress(OSError):
            write_json(self._noted, note)

    def _resumed(self) -> LogReader:
        noted = read_json(self._noted)
        self._start, self._saved = noted.get("start", 0), noted.get("saved", 0)
        self._begins = LogPlace(noted.get("inode", 0), noted.get("offset", 0))
        reader = LogReader(self._log, self._begins)
        if reader.lost or (self._start and not self._begins.inode):
            self._start += self._saved  # what was stored stays, and the rest follows it
            self._saved = 0
        else:
            self._begins, self._skipped = reader.place, noted.get("skipped", 0)
            left = self._skipped
            while left and (data := reader.read(min(left, CHUNK_BYTES))):
                left -= len(data)
        return reader


def _in_memory(log: str) -> bytes:
    """The end of the output, where the disk was full to the end."""
    content = b""
    for name in (spare(log) + ".1", spare(log)):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            content += file.read()
    return content
