"""Spend by VM: charges and accrued amounts by day and owner, for export to a spreadsheet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, Connection, Select, Table, cast, func, select

from costguard.db.bulk import chunks
from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.ledger import accrual as accruing
from costguard.ledger import fleet_rows
from costguard.ledger.accrual import Accrual, figures_of, stand, uncharged_instances, within_scope
from costguard.ledger.fleet_rows import FleetInstance
from costguard.ledger.roll_up import parts_of_charges
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.spend.spend import Spend, all_unpriced, days_of_span, kind_of, live, spend
from costguard.spend.spend_rows import Amounts, Grouping, amounts_of, day_start


@dataclass(frozen=True, slots=True)
class VmCharges:
    """Of one VM, of one owner, preset and job; of one day where rows are by day."""

    instance_id: int
    attribution: Attribution
    provisioning_model: str
    day: date | None
    amounts: Amounts


def charged(connection: Connection, first: date, last: date, scope: Scope, by_day: bool) -> list[VmCharges]:
    """The stored charges of the days [first, last], as the roll-up has them: storage counts as standard."""
    charged_vms = []
    for spans in (lifetimes, storage_spans):
        query = _sums(spans).where(charges.c.day.between(first, last), *within_scope(spans, scope))
        if by_day:
            query = query.add_columns(charges.c.day).group_by(charges.c.day)
        for row in connection.execute(query):
            model = row.provisioning_model if spans is lifetimes else ProvisioningModel.STANDARD.value
            whose = Attribution(row.preset, row.owner, row.job)
            amounts = amounts_of((row.machine_nanos, row.gpu_nanos, row.storage_nanos, row.seconds))
            charged_vms.append(VmCharges(row.instance_id, whose, model, row.day if by_day else None, amounts))
    return charged_vms


def _sums(spans: Table) -> Select[Any]:
    names = ("instance_id", "preset", "owner", "job", "provisioning_model")
    kinds = [spans.c[name] for name in names if name in spans.c]
    sums = [cast(func.sum(part), BigInteger).label(name) for name, part in parts_of_charges(spans).items()]
    joined = select(*kinds, *sums).join_from(charges, spans, charges.c.span_id == spans.c.id)
    return joined.where(*stand(spans)).group_by(*kinds)


def accruing_ids(connection: Connection) -> list[int]:
    """VMs with spans that are open, or ended and not charged to their end."""
    instance_ids = uncharged_instances(connection)
    for spans in (lifetimes, storage_spans):
        instance_ids.update(connection.scalars(select(spans.c.instance_id).where(spans.c.ended_at.is_(None))))
    return sorted(instance_ids)


def ids_of(connection: Connection, keys: Collection[InstanceKey]) -> dict[InstanceKey, int]:
    """The rows of these VMs."""
    ids_by_key: dict[InstanceKey, int] = {}
    for some in chunks({key.gce_id for key in keys}):
        query = select(instances.c.id, instances.c.project, instances.c.gce_id).where(instances.c.gce_id.in_(some))
        ids_by_key |= {InstanceKey(row.project, row.gce_id): row.id for row in connection.execute(query)}
    return ids_by_key


_DAY = timedelta(days=1)
_Key: TypeAlias = tuple[int, Attribution, str, date | None]  # of which VM, whose, which model, on which day


@dataclass(frozen=True, slots=True)
class VmSpend:
    """`group` is what was asked for besides VMs. A VM that changed hands has one row for each of its owners."""

    group: tuple[str, ...]
    vm: FleetInstance
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
    for vm_charges in charged(connection, first, last, scope, by_day):
        amounts = vm_charges.amounts
        figures = [amounts.machine.nanos, amounts.gpu.nanos, amounts.storage.nanos, amounts.seconds]
        _add(
            parts,
            (vm_charges.instance_id, vm_charges.attribution, vm_charges.provisioning_model, vm_charges.day),
            figures,
        )
    for (instance_id, whose, model, day), accrued in _running(connection, accrual, first, last, scope):
        _add(parts, (instance_id, whose, model, day if by_day else None), accrued)
    gaps = Counter(_gaps(connection, accrual, first, last, scope, by_day))
    for key in gaps:
        _add(parts, key, ())  # what has no price is listed, too
    vms = {vm.id: vm for vm in fleet_rows.known(connection, sorted({key[0] for key in parts}))}
    if not by_model:
        parts = _with_their_storage(parts, vms)
        gaps = _by_own_model(gaps, vms)
    rows = [
        VmSpend(
            group=_group(groupings, vms[key[0]], key),
            vm=vms[key[0]],
            attribution=key[1],
            provisioning_model=key[2],
            amounts=amounts_of(figures),
            unpriced=gaps[key],
        )
        for key, figures in parts.items()
    ]
    rows.sort(key=lambda row: (row.group, -row.amounts.total.nanos, row.vm.name, row.vm.id))
    return tuple(rows), spend(connection, accrual, first, last, [], scope)


def _running(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope
) -> Iterator[tuple[_Key, Sequence[int]]]:
    """What has accrued since charges were stored. Equal VMs are billed once."""
    start, end = day_start(first), day_start(last) + _DAY
    for span in accruing.accruing_spans(connection, accruing_ids(connection)):
        _, whose, model = kind = kind_of(span)
        since, until = max(span.since, start), min(end, span.span.ended_at or accrual.now)
        if since < until and scope.holds(kind[0], whose.preset, whose.owner, whose.job):
            # A run that ended may be billed past its end: its whole minute.
            for day, figures in figures_of(accrual.bill(span.span, since, end)):
                yield (span.instance_id, whose, model, day), figures


def _with_their_storage(parts: Mapping[_Key, Sequence[int]], vms: Mapping[int, FleetInstance]) -> dict[_Key, list[int]]:
    """Each VM's rows by its own provisioning model."""
    joined: dict[_Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for key, figures in parts.items():
        _add(joined, _with_own_model(key, vms), figures)
    return joined


def _by_own_model(gaps: Counter[_Key], vms: Mapping[int, FleetInstance]) -> Counter[_Key]:
    joined: Counter[_Key] = Counter()
    for key, count in gaps.items():
        joined[_with_own_model(key, vms)] += count
    return joined


def _with_own_model(key: _Key, vms: Mapping[int, FleetInstance]) -> _Key:
    return key[0], key[1], vms[key[0]].provisioning_model.value, key[3]


def _add(parts: dict[_Key, list[int]], key: _Key, figures: Sequence[int]) -> None:
    of_key = parts[key]
    for place, figure in enumerate(figures):
        of_key[place] += figure


def _group(groupings: Sequence[Grouping], vm: FleetInstance, key: _Key) -> tuple[str, ...]:
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


def _gaps(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, by_day: bool
) -> Iterator[_Key]:
    """Each lifetime and disk that has no complete price, on each of its days where rows are by day."""
    running = live(connection, accrual, first, last, scope, ("project", "preset", "owner", "job"))
    unpriced = all_unpriced(connection, running, first, last, scope)
    ids = ids_of(connection, {span.key for span in unpriced})
    for span in unpriced:
        days: Iterable[date | None] = days_of_span(span, first, last, accrual.now) if by_day else (None,)
        model = span.provisioning_model if span.kind == "lifetime" else ProvisioningModel.STANDARD.value
        for day in days:
            yield ids[span.key], span.attribution, str(model), day
