"""What every instance costs an hour, stored with it in the ledger and updated with it and with prices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from sqlalchemy import Connection

from costguard.ledger import burn_rate_rows, fleet_rows
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.burn_rate_rows import StoredRate
from costguard.ledger.fleet_rows import Burning, Filters, PresentInstance
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.money import ZERO, Money, Priced

_RULES = 3  # raised when the way rates are computed changes: all are computed again then


def are_current(connection: Connection, accrual: Accrual) -> bool:
    """Whether the rates that are kept are those of this moment: by these prices, and of every instance there is."""
    basis = burn_rate_rows.basis(connection)
    return (
        basis is not None
        and basis.holds(prices_of(accrual.book), accrual.now)
        and burn_rate_rows.are_complete(connection)
    )


def keep(connection: Connection, now: datetime, changed: Collection[int]) -> int:
    """Work out the rates of these instances; how many were written: those that are stored already are not.

    Belongs into the transaction that changed them, so that no reader sees an instance without its rate.
    """
    return (
        burn_rate_rows.save(connection, list(_rates(connection, accrual_at(connection, now), changed)))
        if changed
        else 0
    )


def of_present(
    connection: Connection, accrual: Accrual, filters: Filters, ids: Collection[int] | None = None
) -> Iterator[tuple[PresentInstance, Priced, Priced]]:
    """Those that are not gone with what the machine of each, and its storage, cost an hour now, worked out here."""
    storage: dict[int, Priced] = {}
    for instance_id, resource, size_mib, zone in fleet_rows.open_storage(connection, ids):
        rate = priced(accrual.storage_rate(resource, size_mib, zone))
        storage[instance_id] = storage[instance_id] + rate if instance_id in storage else rate
    for row in fleet_rows.present(connection, filters, ids):
        runs = row.started_at is not None
        machine = priced(accrual.rate(row.shape, row.zone, row.provisioning_model)) if runs else _NOTHING
        yield row, machine, storage.get(row.id, _NOTHING)


def burning(connection: Connection, accrual: Accrual, filters: Filters = Filters()) -> list[Burning]:
    """Present instances in a few groups with what they cost an hour at this moment."""
    if are_current(connection, accrual):
        return fleet_rows.burning_by(connection, filters)
    return grouped(of_present(connection, accrual, filters))


def grouped(present: Iterable[tuple[PresentInstance, Priced, Priced]]) -> list[Burning]:
    groups: dict[tuple[str, str, Status, ProvisioningModel], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for vm, machine, storage in present:
        rate = machine + storage
        is_unpriced = not rate.whole or vm.unpriced != ""
        figures = (1, vm.started_at is not None, rate.amount.nanos, is_unpriced)
        of_group = groups[vm.project, vm.preset, vm.status, vm.provisioning_model]
        of_group[:] = [had + new for had, new in zip(of_group, figures, strict=True)]
    return [
        Burning(*key, count, running, Money(nanos), unpriced)
        for key, (count, running, nanos, unpriced) in sorted(groups.items())
    ]


def priced(amount: Money | None) -> Priced:
    return Priced(ZERO, whole=False) if amount is None else Priced(amount)


_NOTHING = Priced()


def _rates(connection: Connection, accrual: Accrual, ids: Collection[int] | None) -> Iterator[StoredRate]:
    for vm, machine, storage in of_present(connection, accrual, Filters(), ids):
        rate = machine + storage
        yield StoredRate(vm.id, vm.started_at, rate.amount.nanos, machine.amount.nanos, rate.whole)


def prices_of(book: PriceBook) -> str:
    return f"{_RULES}.{book.digest}"
