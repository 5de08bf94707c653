"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from costguard.model.unseen import shown

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe(cell: str) -> str:
    """A text that spreadsheets would run as a formula gets an apostrophe in front, which they do not show.

    Controls become their numbers: such a file is looked at in terminals, too.
    """
    text = f"'{cell}" if cell.startswith(_FORMULA) else cell
    return shown(text)


def lines(rows: Iterable[Sequence[object]]) -> str:
    """Rows as lines of CSV; texts are made safe, numbers are left as they are."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerows([safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()
