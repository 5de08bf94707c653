"""Costs of VMs while a label had a value, day by day: from charges, split at the moment at which the label changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

from sqlalchemy import Connection, select

from costguard.db.tables import instances
from costguard.ledger.accrual import Accrual, CostKind, accruing_spans
from costguard.ledger.charged.label_pieces import Piece, charged_pieces, parts_of, pieces_of
from costguard.ledger.charged.vm_charges import accruing_ids, charged
from costguard.ledger.labels.label_history import changes_since, has_changed
from costguard.ledger.labels.label_values import LabelValues, has_value, present_values, values_among
from costguard.model.budget import LabelFilter, Scope
from costguard.model.lifetime import Attribution
from costguard.model.moments import day_start
from costguard.model.money import Amounts, add_figures
from costguard.spend import spend_rows

_DAY = timedelta(days=1)
_KINDS = ("project", "preset", "owner", "job", "provisioning_model")
_Figures: TypeAlias = Sequence[int]  # machine, GPU and storage in nano-dollars, and seconds


@dataclass(frozen=True, slots=True)
class LabelPart:
    """The cost of one VM on a day while its label had the value of the scope."""

    instance_id: int
    kind: CostKind
    day: date
    figures: _Figures


def label_days(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by: Collection[str]
) -> list[tuple[date, CostKind, Amounts]]:
    """Returns the spend in the scope, its label included, on the UTC days [first, last] up to now.

    Kept apart at least by the columns in `by`: days that are rolled up are read from their sums, others from charges.
    """
    sums: dict[tuple[date, CostKind], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    wanted = _label_of(scope)
    ranges = spend_rows.not_rolled_up(connection, wanted.label, first, last)
    keys = ("day", *(name for name in _KINDS if name in by))
    rows = spend_rows.rolled_up_by_label(connection, wanted.label, first, last, ranges, scope, keys, wanted)
    for row, figures in rows:
        project, preset, owner, job, model = (row.get(name, "") for name in _KINDS)
        add_figures(sums[row["day"], (project, Attribution(preset, owner, job), model)], figures)
    for start, end in ranges:
        for part in charged_parts(connection, start, end, scope):
            add_figures(sums[part.day, part.kind], part.figures)
    for part in running_parts(connection, accrual, first, last, scope):
        add_figures(sums[part.day, part.kind], part.figures)
    return [(day, kind, Amounts._make(figures)) for (day, kind), figures in sums.items()]


def label_parts(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[LabelPart]:
    """The same VM by VM; a VM may have several parts of a day. Raises ValueError for a scope without a label."""
    yield from charged_parts(connection, first, last, scope)
    yield from running_parts(connection, accrual, first, last, scope)


def charged_parts(connection: Connection, first: date, last: date, scope: Scope) -> Iterator[LabelPart]:
    """Yields the charged parts, from charges."""
    wanted, since = _label_of(scope), day_start(first)
    changes = changes_since(connection, wanted.label, since)
    projects = _projects(connection, wanted)
    values = LabelValues(present_values(connection, wanted.label, changes), changes)
    among = select(instances.c.id).where(has_value(wanted), ~has_changed(instances.c.id, wanted.label, since))
    for vm in charged(connection, first, last, scope, by_day=True, among=among):
        kind = projects[vm.instance_id], vm.attribution, vm.provisioning_model
        yield LabelPart(vm.instance_id, kind, vm.day or first, vm.figures)
    yield from _parts_of_value(values, wanted, charged_pieces(connection, first, last, scope, sorted(changes)))


def running_parts(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope
) -> Iterator[LabelPart]:
    """Yields the parts that have accrued since charges were stored."""
    wanted = _label_of(scope)
    values = values_among(connection, wanted.label, day_start(first), accruing_ids(connection, day_start(last) + _DAY))
    mine = sorted(
        instance_id
        for instance_id, value in values.present.items()
        if value == wanted.value or instance_id in values.changes
    )
    start, end = day_start(first), day_start(last) + _DAY
    for span in accruing_spans(connection, mine):
        yield from _parts_of_value(values, wanted, pieces_of(accrual, span, start, end, scope))


def _parts_of_value(values: LabelValues, wanted: LabelFilter, pieces: Iterable[Piece]) -> Iterator[LabelPart]:
    for piece in pieces:
        for value, figures in parts_of(values, piece):
            if value == wanted.value:
                yield LabelPart(piece.instance_id, piece.kind, piece.day, figures)


def _label_of(scope: Scope) -> LabelFilter:
    if scope.label is None:
        raise ValueError("the scope has no label")
    return scope.label


def _projects(connection: Connection, wanted: LabelFilter) -> dict[int, str]:
    """Returns the projects of the VMs that have the value now."""
    query = select(instances.c.id, instances.c.project).where(has_value(wanted))
    return {row.id: row.project for row in connection.execute(query)}
