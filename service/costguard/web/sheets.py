"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def safe(cell: str) -> str:
    """A text that spreadsheets would run as a formula gets an apostrophe in front, which they do not show."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def lines(rows: Iterable[Sequence[object]]) -> str:
    """Rows as lines of CSV; texts are made safe, numbers are left as they are."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerows([safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return out.getvalue()
