"""Rows of the comparison: a day's are written together, and replaced together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeAlias

from sqlalchemy import Connection, Table, delete

from costguard.bill.lines import (
    EXPLAINED,
    BillLine,
    BillStanding,
    BillState,
    DayComparison,
    Reason,
    Savings,
    UseShare,
)
from costguard.db.bulk import add_rows, stored
from costguard.db.tables import bill_costs, bill_days, bill_differences, bill_others
from costguard.db.types import storable
from costguard.errors import Invalid
from costguard.model.billing.bill import BilledKind
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.price import OF_A_RUN

MOST_DIFFERENCES = 200
"""The most rows of one day, the largest first; sums count all."""
NOT_HELD = frozenset({Reason.NOT_WATCHED, Reason.UNKNOWN_DISK})
"""Differences of what the ledger never holds: they are shown, and are in no total of the comparison."""
NOT_TOTALLED = NOT_HELD | {Reason.VERTEX}
"""Differences that are in no total: NOT_HELD, and sums of Vertex AI, which show no error of either side."""
OUTSIDE, RESERVATION, COMMITMENT = "outside", "reservation", "commitment"
OFFSET = "commitment_offset"
"""The kind of an amount that use took off a fee that says so, zero or less: `commitment` has the whole fee."""
SAVED_OUTSIDE = "commitment_saved"
"""The kind of an amount that commitments took off usage that is in no line of the comparison."""

_MOST = 2**63 - 1

_CostKey: TypeAlias = tuple[str, str, str, Attribution, str]  # project, gce id, name, whose, model
_SAVED = ("sustained", "committed", "contract", "other")


def store_day(
    connection: Connection, comparison: DayComparison, standings: Mapping[str, BillStanding], now: datetime
) -> None:
    """Replace what is stored of the day. `standings` has every project of its lines and of what is outside."""
    for table in (bill_days, bill_costs, bill_differences, bill_others):
        connection.execute(delete(table).where(table.c.day == comparison.day))
    _add(connection, bill_days, _days(comparison, standings, now))
    closed = [line for line in comparison.lines if line.is_compared]
    _add(connection, bill_costs, _costs(comparison.day, closed))
    differing = [line for line in closed if line.state is BillState.DIFFERS]
    differing.sort(key=lambda line: (line.reason in EXPLAINED, -abs(line.difference), line.thing, line.resource))
    _add(
        connection,
        bill_differences,
        [_difference(rank, line) for rank, line in enumerate(differing[:MOST_DIFFERENCES])],
    )
    _add(connection, bill_others, _others(comparison))


def _add(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        names = [column.name for column in table.columns]
        processed = stored(connection, table, names)
        if any(type(value) is int and abs(value) > _MOST for row in rows for value in row.values()):
            raise Invalid(f"Amounts of {table.name} add up to more than can be stored.")
        add_rows(connection, table, names, [processed([storable_text(row[name]) for name in names]) for row in rows])


def storable_text(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _project(line: BillLine) -> str:
    return line.thing.project if line.ledger_nanos is not None else line.bill_project


def _days(comparison: DayComparison, standings: Mapping[str, BillStanding], now: datetime) -> list[dict[str, Any]]:
    lines: dict[str, list[BillLine]] = defaultdict(list)
    for line in comparison.lines:
        lines[_project(line)].append(line)
    outside: dict[str, int] = defaultdict(int)
    for key, nanos in comparison.outside.items():
        outside[key.project] += nanos
    unused: dict[str, int] = defaultdict(int)
    for (project, _), nanos in comparison.unused_reservations.items():
        unused[project] += nanos
    return [
        {
            "day": comparison.day,
            "project": project,
            "standing": standings[project].value,
            **_sums(lines.get(project, ())),
            "outside_nanos": outside.get(project, 0),
            "reservation_nanos": unused.get(project, 0),
            "compared_at": now,
        }
        for project in sorted({*lines, *outside, *unused})
    ]


def _sums(lines: Iterable[BillLine]) -> dict[str, int]:
    held = [line for line in lines if line.reason not in NOT_TOTALLED]
    savings = sum((line.savings for line in held), Savings())
    explained = [line.difference for line in held if line.is_explained]
    others = [line.difference for line in held if not line.is_explained and line.is_compared]
    # The overall error counts each line's difference by itself: a VM billed twice makes up for no missing one.
    return {
        "ledger_nanos": sum(line.ledger_nanos or 0 for line in held),
        "list_nanos": sum(line.list_nanos or 0 for line in held),
        "effective_nanos": sum(line.effective_nanos or 0 for line in held),
        **{f"{name}_nanos": getattr(savings, name) for name in _SAVED[:3]},
        "other_savings_nanos": savings.other,
        "explained_nanos": sum(explained),
        "unexplained_nanos": sum(others),
        "absolute_nanos": sum(abs(line.difference) for line in held if line.is_compared),
        "lines": len(held),
        "differing": len(others),
    }


def _costs(day: date, lines: Sequence[BillLine]) -> list[dict[str, Any]]:
    """Each line is shared out as the ledger's charges of it are; what the ledger lacks is unowned.

    Vertex AI without rows that can be compared was not free: it counts as the ledger has it.
    """
    sums: dict[_CostKey, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for line in lines:
        if line.reason in NOT_HELD:
            continue
        shares = line.shares or (_unowned(line),)
        parts = {
            _part(line): _billed_or_charged(line, line.effective_nanos),
            "ledger_nanos": line.ledger_nanos or 0,
            "list_nanos": _billed_or_charged(line, line.list_nanos),
            **{f"{name}_nanos": getattr(line.savings, name) for name in _SAVED[:3]},
            "other_savings_nanos": line.savings.other,
        }
        for name, nanos in parts.items():
            for share, part in zip(shares, shared_out(nanos, [share.nanos for share in shares]), strict=True):
                sums[_cost_key(line, share)][name] += part
        if line.resource.endswith(OF_A_RUN):
            for share in shares:
                sums[_cost_key(line, share)]["seconds"] += share.seconds
    names = [column.name for column in bill_costs.columns][8:]
    return [
        {
            "day": day,
            "project": project,
            "gce_id": gce_id,
            "name": name,
            "preset": whose.preset,
            "owner": whose.owner,
            "job": whose.job,
            "provisioning_model": model,
            **{name: figures.get(name, 0) for name in names},
        }
        for (project, gce_id, name, whose, model), figures in sorted(sums.items(), key=str)
    ]


def _billed_or_charged(line: BillLine, billed: int | None) -> int:
    if billed is None and line.reason is Reason.VERTEX:
        return line.ledger_nanos or 0
    return billed or 0


def shared_out(nanos: int, weights: Sequence[int]) -> list[int]:
    """Divides an amount in proportion to the weights, to the nano-dollar: the parts add up to the whole."""
    total = sum(weights)
    if not total:
        return [nanos, *[0] * (len(weights) - 1)]
    parts, given, so_far = [], 0, 0
    for weight in weights:
        so_far += weight
        until = nanos * so_far // total
        parts.append(until - given)
        given = until
    return parts


def _unowned(line: BillLine) -> UseShare:
    return UseShare(Attribution("", "", ""), line.billed_model or ProvisioningModel.STANDARD.value, 0, 0)


def _cost_key(line: BillLine, share: UseShare) -> _CostKey:
    name = line.vm_name or line.name
    return _project(line), line.gce_id, name, share.attribution, share.provisioning_model


def _part(line: BillLine) -> str:
    if line.resource.startswith("gpu:"):
        return "gpu_nanos"
    is_storage = line.thing.kind is BilledKind.DISK or line.resource == "suspended-memory"
    return "storage_nanos" if is_storage else "machine_nanos"


def _difference(rank: int, line: BillLine) -> dict[str, Any]:
    return {
        "day": line.day,
        "rank": rank,
        "project": _project(line),
        "kind": line.thing.kind.value,
        "thing_id": line.thing.id,
        "name": line.name,
        "gce_id": line.gce_id,
        "vm_name": line.vm_name,
        "zone": line.zone,
        "resource": line.resource,
        "reason": line.reason.value,
        "bill_project": line.bill_project,
        "billed_model": line.billed_model,
        "ledger_used": str(line.ledger_used),
        "billed_used": str(line.billed_used),
        "sku_ids": list(line.sku_ids),
        "seconds": line.seconds,
        "ledger_nanos": line.ledger_nanos,
        "list_nanos": line.list_nanos,
        "effective_nanos": line.effective_nanos,
        "expected_nanos": line.expected_nanos,
        "difference_nanos": line.difference,
    }


def _others(comparison: DayComparison) -> list[dict[str, Any]]:
    outside = [
        (
            key.project,
            COMMITMENT if key.is_fee else OUTSIDE,
            *(key.sku_id, key.text or key.sku_id),
            nanos - comparison.offsets.get(key, 0),
        )
        for key, nanos in comparison.outside.items()
    ]
    offsets = [
        (key.project, OFFSET, key.sku_id, key.text or key.sku_id, nanos) for key, nanos in comparison.offsets.items()
    ]
    saved_by = Counter(dict(comparison.saved_outside))
    for line in comparison.lines:
        if line.reason in NOT_TOTALLED and line.savings.committed:
            saved_by[_project(line)] += line.savings.committed
    saved = [(project, SAVED_OUTSIDE, "", "", nanos) for project, nanos in saved_by.items()]
    unused = [
        (project, RESERVATION, "", name, nanos) for (project, name), nanos in comparison.unused_reservations.items()
    ]
    names = ("project", "kind", "sku_id", "name", "nanos")
    return [
        {"day": comparison.day, **dict(zip(names, row, strict=True))} for row in (*outside, *offsets, *saved, *unused)
    ]
