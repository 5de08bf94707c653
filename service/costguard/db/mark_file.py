"""The mark says how far a database has come. A file next to an SQLite one remembers it when an older one comes back."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

_MOST_BYTES = 200
_MOST_GENERATIONS, _MOST = 10**9, 2**62  # as a label of a VM, and a column, may hold


@dataclass(frozen=True, slots=True, order=True)
class LedgerMark:
    """The mark of a ledger: of two marks of one database the later one is greater.

    `number` is counted by the guard that acts.
    """

    generation: int = 1
    number: int = 0


class MarkFile:
    """`.costguard.db-mark` of `costguard.db`. Hidden, so that nobody puts it back with `costguard.db*`."""

    def __init__(self, database: Path) -> None:
        self._database = database.resolve()  # where SQLite keeps its own files, too
        self.path = self._database.with_name(f".{self._database.name}-mark")

    def read(self) -> LedgerMark | None:
        """Reads the mark. None: there is none that can be read, so nothing is known."""
        try:
            with self.path.open("rb") as file:
                given = json.loads(file.read(_MOST_BYTES))
            mark = LedgerMark(given["generation"], given["mark"])
            is_one = type(mark.generation) is type(mark.number) is int
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return mark if is_one and 1 <= mark.generation < _MOST_GENERATIONS and 0 <= mark.number < _MOST else None

    def write(self, mark: LedgerMark) -> None:
        """Writes the mark in one step, with the mode of the database. Raises OSError.

        The mark must outlive a power cut in the database before it is written here. This file itself may be lost in
        one, or be empty: then it says nothing.
        """
        new = self.path.with_name(f"{self.path.name}.new")
        content = json.dumps({"generation": mark.generation, "mark": mark.number})
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "wb") as file:
            if os.name == "posix":
                os.fchmod(opened, stat.S_IMODE(self._database.stat().st_mode))
            file.write(f"{content}\n".encode())
        new.replace(self.path)
