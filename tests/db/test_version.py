"""Starting on a database of any version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from costguard.db.migrate import MIGRATIONS, check
from costguard.db.transaction import Database
from costguard.db.version import HEAD, bring_up_to_date
from costguard.errors import DatabaseUnreachable


def test_the_head_is_the_last_migration() -> None:
    """A new migration is named here as well."""
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_a_database_without_tables_gets_them(empty_database_url: str) -> None:
    """The first start makes the tables, and the second finds them made."""
    for _ in range(2):
        bring_up_to_date(empty_database_url)
    database = Database.open(empty_database_url)
    check(database)
    database.close()


def test_what_is_wrong_is_told_by_the_migration(tmp_path: Path) -> None:
    """A folder that is not there is an error with a way out, not a database that is thought to be new."""
    with pytest.raises(DatabaseUnreachable, match="no folder"):
        bring_up_to_date(f"sqlite:///{tmp_path}/missing/costguard.db")


def test_a_start_on_a_current_database_does_without_alembic(sqlite_url: str) -> None:
    """Importing it takes longer than all that such a start asks the database."""
    script = (
        "import sys; from costguard.db.version import bring_up_to_date;"
        f"bring_up_to_date({sqlite_url!r}); print('alembic' in sys.modules)"
    )
    service = Path(__file__).parents[2] / "service"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(service)}
    )
    assert done.stdout == "False\n"
