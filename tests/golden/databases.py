"""A migrated SQLite database for golden files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from costguard.db.migrate import upgrade
from costguard.db.transaction import Database


@contextmanager
def migrated() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder:
        path = shutil.copy(template(), folder)  # with its mode: others' copies are refused
        with closing(Database.open(f"sqlite:///{path}")) as database:
            yield database


def template() -> Path:
    """A migrated SQLite file to copy."""
    return Path(_template().name) / "golden.db"


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """Migrated once in a process."""
    folder = tempfile.TemporaryDirectory()
    upgrade(f"sqlite:///{Path(folder.name) / 'golden.db'}")
    return folder
