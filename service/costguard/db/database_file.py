"""Permissions of an SQLite database's files: its owner alone may open them."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from costguard.errors import StoreError

PRIVATE = 0o600
# SQLite gives its own files the mode of the database when it makes them (os_unix.c, findCreateFileMode), and leaves
# those that are there as they are.
_SIDE_FILES = ("-wal", "-shm", "-journal")
_OTHERS = 0o066  # what the group and everybody may read and write


def make(path: Path) -> None:
    """An empty file with the mode 0600, whatever the umask; one that is there stays as it is.

    SQLite takes an empty file for a new database. Where none can be made, SQLite's own attempt says why.
    """
    try:
        made = os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE)
    except OSError:
        return
    try:
        if os.name == "posix":
            os.fchmod(made, PRIVATE)  # a umask of 0777 would leave a file that nobody can open
    finally:
        os.close(made)


def check(path: Path, widest: int = PRIVATE, euid: int | None = None) -> None:
    """Raises StoreError where others can read or write the database, or what belongs to it.

    `widest` is the mode that the volume sets by itself, where it does. Windows has no modes: there a file has the
    rights of its folder.
    """
    if os.name != "posix":
        return
    real, wide = path.resolve(), []
    for file in (real, *(real.with_name(real.name + suffix) for suffix in _SIDE_FILES)):
        try:
            info = file.stat()
        except OSError:
            continue
        if info.st_mode & _OTHERS & ~widest:
            wide.append((file, stat.S_IMODE(info.st_mode)))
        elif widest == PRIVATE and info.st_uid not in (who := os.geteuid() if euid is None else euid, 0) and who != 0:
            if _is_something_else(real):
                return
            raise StoreError(
                f"The SQLite database {file} belongs to another user (number {info.st_uid}), who could read and change "
                f"it, and this runs as number {who}.",
                f"Run it as that user, or `chown {who} {shlex.quote(str(file))}`.",
            )
    if wide and not _is_something_else(real):
        raise _not_private(wide)


def warnings(path: Path) -> list[str]:
    """Warns of ways in which others may put another file in the place of the database."""
    folder = path.resolve().parent
    try:
        mode = folder.stat().st_mode
    except OSError:
        return []
    if os.name != "posix" or not mode & stat.S_IWOTH or mode & stat.S_ISVTX:
        return []
    mend = f"chmod o-w {shlex.quote(str(folder))}"
    return [f"Anybody on this machine can replace the database, as they may write to {folder}: run `{mend}`."]


def _is_something_else(file: Path) -> bool:
    """SQLite refuses such a file by itself, and nobody is sent to change the mode of /etc/hosts.

    Only SQLite may open a database: who closes the file by another descriptor takes all its locks from this process
    (https://www.sqlite.org/howtocorrupt.html, 2.2), and another process then takes away the log that it writes to.
    """
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            opened.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode == sqlite3.SQLITE_NOTADB
    return False


def _not_private(wide: list[tuple[Path, int]]) -> StoreError:
    file, mode = wide[0]
    names = " ".join(shlex.quote(str(path)) for path, _ in wide)
    return StoreError(
        f"The SQLite database {file} is open to other users of this machine: its mode is {mode:04o}. It holds keys and "
        "digests of tokens, so it is not used.",
        f"Run `chmod 600 {names}`. Where the volume sets modes by itself, allow them: end the database's URL in "
        f"?widest_mode={mode:04o}.",
    )
