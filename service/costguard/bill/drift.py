"""Raises one alarm where the bill drifts from the ledger, by project or by SKU's resource: not one a day, nor
one a VM.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from costguard.bill.lines import BillLine, Reason
from costguard.bill.stories import story, title
from costguard.db.tables import events
from costguard.model.event import Event, new_event
from costguard.model.money import Money

KIND = "BillDrifted"
_LEAST = 1_000_000_000  # nano-dollars that a project or a SKU differs by
_LEAST_SHARE = 1000  # of what is billed at list: a thousandth
_QUIET = timedelta(days=30)  # after an alarm, for what it named
WORST = 10


def drifting(lines: Iterable[BillLine]) -> dict[str, int]:
    """Projects and resources with their differences in nano-dollars, of lines that nothing explains.

    At least a dollar and a thousandth of what is billed; what the other side lacks wholly needs no thousandth. Lines
    are counted by themselves, so that one too many hides none too few; credits count what they take off.
    """
    sums: dict[str, int] = defaultdict(int)
    absolute: dict[str, int] = defaultdict(int)
    billed: dict[str, int] = defaultdict(int)
    lacking: dict[str, int] = defaultdict(int)
    for line in lines:
        if line.is_explained or not line.is_compared:
            continue
        for name in (f"project {line.thing.project}", f"SKU {line.resource}"):
            weight = _weight(line)
            sums[name] += line.difference
            absolute[name] += weight
            billed[name] += line.list_nanos or 0
            if line.reason in (Reason.MISSING, Reason.UNKNOWN_VM, Reason.UNKNOWN_PART):
                lacking[name] += weight
    return {
        name: sums[name]
        for name, nanos in absolute.items()
        if lacking[name] >= _LEAST or (nanos >= _LEAST and nanos * _LEAST_SHARE >= billed[name])
    }


def _weight(line: BillLine) -> int:
    if line.reason is Reason.CREDIT:
        return line.savings.total
    if line.reason is Reason.OTHER_PROJECT:
        return line.list_nanos or 0
    return abs(line.difference)


def drift_event(connection: Connection, lines: Sequence[BillLine], now: datetime) -> Event | None:
    """Makes an event; None where nothing drifts that was not named in the last thirty days."""
    names = drifting(lines)
    new = sorted(names.keys() - _named(connection, now - _QUIET))
    if not new:
        return None
    worst = sorted(lines, key=lambda line: (-_weight(line), line.day, line.thing, line.resource))[:WORST]
    total = sum(_weight(line) for line in lines)
    days = sorted({line.day for line in lines})
    span = f"{days[0]}" if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return new_event(
        KIND,
        now,
        f"Google's bill of {span} differs from the ledger by {Money(total)} that nothing explains: "
        f"{', '.join(new[:WORST])}{f' and {len(new) - WORST} more' if len(new) > WORST else ''}.",
        *(days[0].isoformat(), now.isoformat()),
        data={
            "names": sorted(names),
            "total_nanos": total,
            "first": days[0].isoformat(),
            "last": days[-1].isoformat(),
            "worst": [f"{line.day} {title(line)}: {story(line)}" for line in worst],
        },
    )


def _named(connection: Connection, since: datetime) -> set[str]:
    query = select(events.c.data).where(events.c.kind == KIND, events.c.occurred_at >= since)
    return {str(name) for data in connection.scalars(query) for name in data.get("names", ())}
