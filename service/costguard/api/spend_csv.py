"""Spend as CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from costguard.api.fields import CURRENCY, hours, usd
from costguard.engine.spend import Spend
from costguard.store.spend import Grouping
from costguard.web.sheets import safe


def write(spend: Spend, group_by: Sequence[Grouping]) -> str:
    """One line a group. `unpriced` counts what the amounts of its line leave out."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    amounts = ("machine", "gpu", "storage", "total")
    writer.writerow([*group_by, *(f"{name}_{CURRENCY.lower()}" for name in amounts), "seconds", "hours", "unpriced"])
    for row in spend.rows:
        money = [usd(getattr(row.amounts, name)) for name in amounts]
        figures = [row.amounts.seconds, hours(row.amounts.seconds), row.unpriced]
        writer.writerow([*map(safe, row.group), *money, *figures])
    return out.getvalue()
