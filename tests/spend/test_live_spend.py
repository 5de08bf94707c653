"""The cost that has accrued since charges were stored is read once for every range and grouping that a page
asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select
from tests.api import rows
from tests.api.rows import NOW
from tests.within import keep_rates

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger import accrual as accruing
from costguard.ledger.accrual import Accrual, AccruingSpan, accrual_at, figures_of
from costguard.ledger.gaps import gap_groups, gaps
from costguard.ledger.pricing import Bill
from costguard.model.budget import Scope
from costguard.model.lifetime import Lifetime
from costguard.model.moments import day_start
from costguard.spend.spend import days_of_span, live

DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
MIDNIGHT = NOW.replace(hour=0)
TODAY = NOW.date()


@dataclass(frozen=True)
class Span:
    """A run with its disk. Both may be charged up to a midnight."""

    started_at: datetime
    lasted: timedelta | None
    charged_days: int
    owner: str
    priced: str  # "whole", "partly" or "none" of the run


SPANS = st.builds(
    Span,
    started_at=st.sampled_from(range(1, 100 * 3600, 1999)).map(lambda seconds: NOW - seconds * SECOND),
    lasted=st.none() | st.sampled_from(range(0, 60 * 3600, 1777)).map(lambda seconds: seconds * SECOND),
    charged_days=st.sampled_from(range(6)),
    owner=st.sampled_from(["ada@lab.example", "ben@lab.example", ""]),
    priced=st.sampled_from(["whole", "whole", "partly", "none"]),
)
SHAPES: dict[str, dict[str, Any]] = {
    "whole": {},
    "partly": {**rows.N1, "gpu_type": "nvidia-l4", "gpu_count": 1},
    "none": rows.H100,
}
RECORDED = "No price is known."
QUESTIONS = st.tuples(st.integers(-90, 1), st.integers(0, 90), st.sampled_from([(), ("owner",), ("owner", "job")]))


def store(connection: Connection, number: int, span: Span) -> None:
    shape = SHAPES[span.priced]
    ended_at = None if span.lasted is None else min(NOW, span.started_at + span.lasted)
    # As passes leave it: what ended within the last two days may wait for its charges.
    if ended_at is not None and ended_at < NOW - 47 * HOUR:
        ended_at = None
    charged_to = MIDNIGHT - (span.charged_days - 1) * DAY
    is_charged = span.charged_days and span.started_at < charged_to <= (ended_at or NOW)
    charged = {"charged_to": charged_to if is_charged else None, "ended_at": ended_at, "owner": span.owner}
    vm = rows.instance(connection, f"vm-{number}", gce_id=str(number), owner=span.owner, **shape)
    unpriced = RECORDED if is_charged and span.priced != "whole" else ""
    rows.lifetime(connection, vm, span.started_at, unpriced=unpriced, **charged, **shape)
    kind: dict[str, Any] = {"resource": None} if span.priced == "none" else {}
    rows.storage(connection, vm, span.started_at, unpriced=RECORDED if kind and is_charged else "", **charged, **kind)


def each_span(connection: Connection) -> Sequence[AccruingSpan]:
    return accruing.accruing_spans(connection, list(connection.scalars(select(tables.instances.c.id))))


def bill(span: AccruingSpan, accrual: Accrual, start: datetime, end: datetime) -> Bill:
    return accrual.bill(span.span, max(start, span.since), end)


def one_by_one(
    connection: Connection, accrual: Accrual, first: date, last: date, whose: Sequence[str]
) -> dict[tuple[date, str], list[int]]:
    """Each span's whole bill, day by day, by owner where that is asked for."""
    by_day_and_owner: dict[tuple[date, str], Counter[int]] = {}
    for span in each_span(connection):
        owner = span.attribution.owner if "owner" in whose else ""
        for day, figures in figures_of(bill(span, accrual, NOW - 200 * DAY, MIDNIGHT + DAY)):
            if first <= day <= last:
                by_day_and_owner.setdefault((day, owner), Counter()).update(dict(enumerate(figures)))
    return {key: [sums[place] for place in range(4)] for key, sums in by_day_and_owner.items() if any(sums.values())}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans=st.lists(SPANS, max_size=8), questions=st.lists(QUESTIONS, min_size=1, max_size=4), are_kept=st.booleans())
def test_every_range_is_what_its_spans_run_up(
    sqlite_database: Database, spans: list[Span], questions: list[tuple[int, int, tuple[str, ...]]], are_kept: bool
) -> None:
    """The ranges and groupings give, in any order, to the nano-dollar what each span's own bill says, whether rates are
    kept or not.
    """
    with sqlite_database.write() as connection:
        for table in (
            *(tables.lifetimes, tables.storage_spans, tables.instances),
            *(tables.running_totals, tables.burn_rates, tables.prices),
        ):
            connection.execute(table.delete())
        rows.prices(connection)
        for number, span in enumerate(spans):
            store(connection, number, span)
        if are_kept:
            keep_rates(connection, NOW)
        accrual = accrual_at(connection, NOW)
        for back, length, whose in questions:
            first = TODAY + back * DAY
            last = first + length * DAY
            by_day_and_owner: dict[tuple[date, str], list[int]] = {}
            answer = live(connection, accrual, first, last, Scope(), whose)
            for day, (_, attribution, _), amounts in answer:
                owner = attribution.owner if "owner" in whose else ""
                sums = by_day_and_owner.setdefault((day, owner), [0, 0, 0, 0])
                parts = amounts.machine.nanos, amounts.gpu.nanos, amounts.storage.nanos, amounts.seconds
                sums[:] = [one + other for one, other in zip(sums, parts, strict=True)]
            by_day_and_owner = {key: sums for key, sums in by_day_and_owner.items() if any(sums)}
            assert by_day_and_owner == one_by_one(connection, accrual, first, last, whose)
            compare_gaps(connection, accrual, first, last)


def compare_gaps(connection: Connection, accrual: Accrual, first: date, last: date) -> None:
    """Compares what could not be priced, listed and counted, with what each span says."""
    start, end = day_start(first), day_start(last) + DAY
    expected = {
        (kind, row.id, RECORDED)
        for kind, table in (("lifetime", tables.lifetimes), ("storage", tables.storage_spans))
        for row in connection.execute(select(table).where(table.c.unpriced != ""))
        if row.started_at < end and (row.ended_at is None or row.ended_at > start)
    }
    for span in each_span(connection):
        if not span.unpriced:
            expected.update(missing(span, accrual, start, end))
    listed = gaps(connection, accrual, first, last, Scope())
    assert {(gap.kind, gap.id, gap.reason) for gap in listed} == expected
    assert len(listed) == len(expected)
    for most in (1, 3):
        assert gaps(connection, accrual, first, last, Scope(), most) == listed[:most]
    groups = gap_groups(connection, accrual, first, last, Scope())
    counted: Counter[tuple[date | None, str]] = Counter()
    for group in groups:
        counted[None, group.owner] += group.number
        counted.update({(day, group.owner): group.number for day in group.days(first, last, NOW)})
    assert counted == Counter(
        (day, gap.attribution.owner) for gap in listed for day in (None, *days_of_span(gap, first, last, NOW))
    )


def missing(
    span: AccruingSpan, accrual: Accrual, start: datetime, end: datetime
) -> Iterator[tuple[str, int | None, str]]:
    """Yields why it could not be priced whole, where it ran in [start, end) after what is charged."""
    ledger_span = span.span
    reason = bill(span, accrual, start, end).unpriced
    if reason and max(start, span.since) < min(end, ledger_span.ended_at or NOW):
        yield "lifetime" if isinstance(ledger_span, Lifetime) else "storage", ledger_span.id, reason


def test_a_days_figure_is_the_same_in_every_range(sqlite_database: Database) -> None:
    """A run of five seconds just before midnight is billed its whole minute: most of it on the next day."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "short")
        rows.lifetime(connection, vm, MIDNIGHT - 10 * SECOND, ended_at=MIDNIGHT - 5 * SECOND)
        for first in (TODAY - DAY, TODAY):
            answer = live(connection, accrual_at(connection, NOW), first, TODAY, Scope(), ())
            assert sum(amounts.seconds for day, _, amounts in answer if day == TODAY) == 50
