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

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger import accrual as accruing
from costguard.ledger.accrual import Accrual, AccruingSpan, accrual_at, figures_of
from costguard.ledger.pricing import Bill
from costguard.model.budget import Scope
from costguard.model.lifetime import Lifetime
from costguard.spend.spend import live
from costguard.spend.spend_rows import day_start

DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
MIDNIGHT = NOW.replace(hour=0)
TODAY = NOW.date()


@dataclass(frozen=True)
class Span:
    """A run with its disk. Both may be charged up to a midnight; without a price, nothing of the run is charged."""

    started_at: datetime
    lasted: timedelta | None
    charged_days: int
    owner: str
    is_priced: bool


SPANS = st.builds(
    Span,
    started_at=st.integers(1, 100 * 3600).map(lambda seconds: NOW - seconds * SECOND),
    lasted=st.none() | st.integers(0, 60 * 3600).map(lambda seconds: seconds * SECOND),
    charged_days=st.integers(0, 5),
    owner=st.sampled_from(["ada@lab.example", "ben@lab.example", ""]),
    is_priced=st.integers(0, 5).map(bool),
)
QUESTIONS = st.tuples(st.integers(-90, 1), st.integers(0, 90), st.sampled_from([(), ("owner",), ("owner", "job")]))


def store(connection: Connection, number: int, span: Span) -> None:
    shape: dict[str, Any] = {} if span.is_priced else rows.H100
    ended_at = None if span.lasted is None else min(NOW, span.started_at + span.lasted)
    # As passes leave it: what ended within the last two days may wait for its charges.
    if ended_at is not None and ended_at < NOW - 47 * HOUR:
        ended_at = None
    charged_to = MIDNIGHT - (span.charged_days - 1) * DAY
    is_charged = span.is_priced and span.charged_days and span.started_at < charged_to <= (ended_at or NOW)
    charged = {"charged_to": charged_to if is_charged else None, "ended_at": ended_at, "owner": span.owner}
    vm = rows.instance(connection, f"vm-{number}", gce_id=str(number), owner=span.owner, **shape)
    rows.lifetime(connection, vm, span.started_at, **charged, **shape)
    rows.storage(connection, vm, span.started_at, **charged)


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
@given(spans=st.lists(SPANS, max_size=8), questions=st.lists(QUESTIONS, min_size=1, max_size=4))
def test_every_range_is_what_its_spans_run_up(
    sqlite_database: Database, spans: list[Span], questions: list[tuple[int, int, tuple[str, ...]]]
) -> None:
    """The ranges and groupings give, in any order, to the nano-dollar what each span's own bill says."""
    with sqlite_database.write() as connection:
        for table in (tables.lifetimes, tables.storage_spans, tables.instances, tables.prices):
            connection.execute(table.delete())
        rows.prices(connection)
        for number, span in enumerate(spans):
            store(connection, number, span)
        accrual = accrual_at(connection, NOW)
        for back, length, whose in questions:
            first = TODAY + back * DAY
            last = first + length * DAY
            by_day_and_owner: dict[tuple[date, str], list[int]] = {}
            answer = live(connection, accrual, first, last, Scope(), whose)
            for day, (_, attribution, _), amounts in answer.figures:
                owner = attribution.owner if "owner" in whose else ""
                sums = by_day_and_owner.setdefault((day, owner), [0, 0, 0, 0])
                parts = amounts.machine.nanos, amounts.gpu.nanos, amounts.storage.nanos, amounts.seconds
                sums[:] = [one + other for one, other in zip(sums, parts, strict=True)]
            by_day_and_owner = {key: sums for key, sums in by_day_and_owner.items() if any(sums)}
            assert by_day_and_owner == one_by_one(connection, accrual, first, last, whose)
            assert {(gap.kind, gap.id, gap.reason) for gap in answer.unpriced} == {
                (kind, span_id, reason)
                for span in each_span(connection)
                for kind, span_id, reason in missing(span, accrual, day_start(first), day_start(last) + DAY)
            }


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
            assert sum(amounts.seconds for day, _, amounts in answer.figures if day == TODAY) == 50
