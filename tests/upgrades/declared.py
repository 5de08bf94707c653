"""Declares the changes of upgrades, by revision.

Every other recorded value must be found unchanged after an upgrade.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Rows = dict[str, list[dict[str, Any]]]
Changes = Mapping[str, Callable[[Rows], None]]

# By the revision that makes it: turns recorded rows into what its upgrade makes of them.
CHANGES: Changes = {}


def expected_after_upgrade(revision: str, recorded: Rows, changes: Changes = CHANGES) -> Rows:
    """The recorded rows as they should stand at the last revision; columns that came later are not in them."""
    rows = {table: [dict(row) for row in of_table] for table, of_table in recorded.items()}
    for later in sorted(changes):
        if later > revision:
            changes[later](rows)
    rows.pop("changes", None)  # counts changes of other tables
    return rows
