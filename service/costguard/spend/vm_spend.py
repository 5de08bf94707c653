"""Spend by VM: charges and accrued amounts by day and owner, for export to a spreadsheet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

from sqlalchemy import Connection, select

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import instances
from costguard.ledger import accrual as accruing
from costguard.ledger.accrual import Accrual, figures_of, kind_of
from costguard.ledger.charged.vm_charges import accruing_ids, charged
from costguard.ledger.gaps import gaps, ids_of
from costguard.ledger.labels.label_history import with_keeper
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.moments import day_start
from costguard.model.money import Amounts, add_figures
from costguard.spend.label_days import label_parts
from costguard.spend.spend import Spend, days_of_span, spend
from costguard.spend.spend_rows import Grouping

_DAY = timedelta(days=1)
_Key: TypeAlias = tuple[int, Attribution, str, date | None]  # of which VM, whose, which model, on which day


@dataclass(frozen=True, slots=True)
class SpentVm:
    """A VM as the ledger last knew it."""

    id: int
    key: InstanceKey
    name: str
    zone: str
    machine_type: str
    provisioning_model: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VmSpend:
    """`group` is what was asked for besides VMs. A VM that changed hands has one row for each of its owners."""

    group: tuple[str, ...]
    vm: SpentVm
    attribution: Attribution
    provisioning_model: str
    amounts: Amounts
    unpriced: int


def spend_by_vm(
    connection: Connection, accrual: Accrual, first: date, last: date, group_by: Sequence[Grouping], scope: Scope
) -> tuple[tuple[VmSpend, ...], Spend]:
    """Each VM's part of the UTC days [first, last], and their sum as Spend shows it.

    Rows come by group, as they were asked for, then the most expensive first. Where provisioning models are not asked
    for, a VM's storage stands with its machine.
    """
    groupings = [grouping for grouping in group_by if grouping is not Grouping.VM]
    by_day, by_model = Grouping.DAY in groupings, Grouping.PROVISIONING_MODEL in groupings
    parts: dict[_Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    if scope.label is None:
        figures_by_key = _parts(connection, accrual, first, last, scope, by_day)
    else:
        figures_by_key = _labelled(connection, accrual, first, last, scope)
    for (instance_id, whose, model, day), figures in figures_by_key:
        add_figures(parts[instance_id, whose, model, day if by_day else None], figures)
    counts = Counter(_gaps(connection, accrual, first, last, scope, by_day))
    for key in counts:
        add_figures(parts[key], ())  # what has no price is listed, too
    vms = _vms(connection, tuple(sorted({key[0] for key in parts})))
    if not by_model:
        parts = _with_their_storage(parts, vms)
        counts = _by_own_model(counts, vms)
    rows = [
        VmSpend(
            group=_group(groupings, vms[key[0]], key),
            vm=vms[key[0]],
            attribution=key[1],
            provisioning_model=key[2],
            amounts=Amounts._make(figures),
            unpriced=counts[key],
        )
        for key, figures in parts.items()
    ]
    rows.sort(key=_order)
    return tuple(rows), spend(connection, accrual, first, last, [], scope)


def _parts(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by_day: bool
) -> Iterator[tuple[_Key, Sequence[int]]]:
    for vm in charged(connection, first, last, scope, by_day):
        yield (vm.instance_id, vm.attribution, vm.provisioning_model, vm.day), vm.figures
    yield from _running(connection, accrual, first, last, scope)


def _labelled(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope
) -> Iterator[tuple[_Key, Sequence[int]]]:
    """Yields the parts in which the VM had the label's value."""
    for part in label_parts(connection, accrual, first, last, scope):
        _, whose, model = part.kind
        yield (part.instance_id, whose, model, part.day), part.figures


def _running(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope
) -> Iterator[tuple[_Key, Sequence[int]]]:
    """Yields the parts that have accrued since charges were stored. Equal VMs are billed once."""
    start, end = day_start(first), day_start(last) + _DAY
    for span in accruing.accruing_spans(connection, accruing_ids(connection, end)):
        _, whose, model = kind = kind_of(span)
        since, until = max(span.since, start), min(end, span.span.ended_at or accrual.now)
        if since < until and scope.holds(kind[0], whose.preset, whose.owner, whose.job):
            # A run that ended may be billed past its end: its whole minute.
            for day, figures in figures_of(accrual.bill(span.span, since, end)):
                yield (span.instance_id, whose, model, day), figures


def _with_their_storage(parts: Mapping[_Key, Sequence[int]], vms: Mapping[int, SpentVm]) -> dict[_Key, list[int]]:
    """Each VM's rows by its own provisioning model."""
    joined: dict[_Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for key, figures in parts.items():
        add_figures(joined[_with_own_model(key, vms)], figures)
    return joined


def _by_own_model(gaps: Counter[_Key], vms: Mapping[int, SpentVm]) -> Counter[_Key]:
    joined: Counter[_Key] = Counter()
    for key, count in gaps.items():
        joined[_with_own_model(key, vms)] += count
    return joined


def _with_own_model(key: _Key, vms: Mapping[int, SpentVm]) -> _Key:
    return key[0], key[1], vms[key[0]].provisioning_model, key[3]


def _group(groupings: Sequence[Grouping], vm: SpentVm, key: _Key) -> tuple[str, ...]:
    if not groupings:
        return ()
    _, whose, model, day = key
    values = {
        Grouping.DAY: "" if day is None else day.isoformat(),
        Grouping.PROJECT: vm.key.project,
        Grouping.PRESET: whose.preset,
        Grouping.OWNER: whose.owner,
        Grouping.JOB: whose.job,
        Grouping.PROVISIONING_MODEL: model,
    }
    return tuple(values[grouping] for grouping in groupings)


def _order(row: VmSpend) -> tuple[tuple[str, ...], int, str, int]:
    amounts = row.amounts
    return row.group, -(amounts.machine.nanos + amounts.gpu.nanos + amounts.storage.nanos), row.vm.name, row.vm.id


@remembers(instances)
def _vms(connection: Connection, ids: tuple[int, ...]) -> Mapping[int, SpentVm]:
    names = ("id", "project", "gce_id", "name", "zone", "machine_type", "provisioning_model", "labels", "keeper")
    query = select(*(instances.c[name] for name in names))
    return {
        row.id: SpentVm(
            row.id,
            InstanceKey(row.project, row.gce_id),
            row.name,
            row.zone,
            row.machine_type,
            row.provisioning_model,
            with_keeper(row.labels, row.keeper),
        )
        for some in chunks(ids)
        for row in connection.execute(query.where(instances.c.id.in_(some)))
    }


def _gaps(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by_day: bool
) -> Iterator[_Key]:
    """Each lifetime and disk that has no complete price, on each of its days where rows are by day."""
    unpriced = gaps(connection, accrual, first, last, scope)
    ids = ids_of(connection, {span.key for span in unpriced})
    for span in unpriced:
        days: Iterable[date | None] = days_of_span(span, first, last, accrual.now) if by_day else (None,)
        model = span.provisioning_model if span.kind == "lifetime" else ProvisioningModel.STANDARD.value
        for day in days:
            yield ids[span.key], span.attribution, str(model), day
