"""Checks a page while a guard is at work, or stands still in the middle of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, exists, func, select
from tests.simulation.untold import PassRecord, least_and_most

from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.ledger.accrual import accrual_at, accruing_spans, stand
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.world import World

_SOME = 5_000_000  # nano-dollars


def goes_on_though_gone(world: World, connection: Connection, witness: PassRecord, now: datetime) -> Iterator[str]:
    """A VM that the ledger knows to be gone costs no more than Google bills, charged or not yet.

    Until an operation has been read that tells its end, the end is an estimate: when a look found it gone.
    """
    is_estimate = exists().where(lifetimes.c.instance_id == instances.c.id, lifetimes.c.end_is_estimate)
    columns = instances.c.id, instances.c.gce_id, instances.c.gone_at, is_estimate.label("is_estimate")
    gone = connection.execute(select(*columns).where(instances.c.gone_at.is_not(None))).all()
    vms = {str(vm.id): vm for vm in world.every_vm()}
    shown = Counter[int]()
    for table in (lifetimes, storage_spans):
        sums = (
            select(table.c.instance_id, func.sum(charges.c.amount_nanos))
            .join(charges, charges.c.span_id == table.c.id)
            .where(*stand(table))
            .group_by(table.c.instance_id)
        )
        shown.update({row[0]: int(row[1]) for row in connection.execute(sums)})
    accrual = accrual_at(connection, now)
    present = replace(witness, passes=[*witness.passes, now])  # a look may be under way
    for span in accruing_spans(connection, [row.id for row in gone]):
        shown[span.instance_id] += accrual.bill(span.span, span.since).amount.nanos
    for row in gone:
        vm = vms[row.gce_id]
        longest = least_and_most(vm, present)[1]
        most = bill(_until(longest, row.gone_at) if row.is_estimate else longest, world.prices, now).nanos
        if shown[row.id] > most + _SOME:
            yield f"{vm.name} ({vm.id}) is gone, and costs {shown[row.id]} at {now}, and Google bills {most}"


def _until(vm: VM, found_gone_at: datetime) -> VM:
    """The VM as if it had been there until a look found it gone."""

    def later(ended: datetime | None) -> datetime | None:
        return ended and max(ended, found_gone_at)

    runs = [*vm.runs[:-1], *(replace(run, ended=later(run.ended)) for run in vm.runs[-1:])]
    return replace(vm, runs=runs, disk_uses=[replace(use, ended=later(use.ended)) for use in vm.disk_uses])
