"""Checks when VMs ran: the runs in the ledger are those that Google bills, each from its start to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import zip_longest

from sqlalchemy import Connection, select
from tests.simulation.untold import PassRecord, earliest_end, is_certain, latest_end, stops_gracefully

from costguard.db.tables import instances, lifetimes
from costguard_sandbox.clock import to_ms
from costguard_sandbox.gce.vm import VM, Run
from costguard_sandbox.world import World

_IN_VAIN = timedelta(minutes=1)  # a start that something ended before it was done may stand in the ledger as so much
_SAME_START = timedelta(seconds=1)  # a stamp and an operation may tell of it
_Span = tuple[datetime, datetime | None]


def of_the_ledger(connection: Connection) -> dict[tuple[str, str], list[_Span]]:
    """Returns runs by VM: its project and id."""
    rows = connection.execute(
        select(instances.c.project, instances.c.gce_id, lifetimes.c.started_at, lifetimes.c.ended_at)
        .join(lifetimes, lifetimes.c.instance_id == instances.c.id)
        .order_by(lifetimes.c.started_at)
    )
    runs: dict[tuple[str, str], list[_Span]] = {}
    for project, gce_id, started_at, ended_at in rows:
        runs.setdefault((project, gce_id), []).append((started_at, ended_at))
    return runs


def otherwise_than_google(world: World, connection: Connection, witness: PassRecord) -> Iterator[str]:
    """Once both are quiet, of every VM whose starts and ends operations tell."""
    every = of_the_ledger(connection)
    for vm in world.every_vm():
        mine = every.get((vm.project, str(vm.id)))
        if mine is None or not (is_certain(vm, witness) or stops_gracefully(vm)):
            continue
        lasting = [run for run in mine if _is_of(vm, run) or run[1] is None or run[1] - run[0] >= _IN_VAIN]
        pairs: Iterable[tuple[_Span | None, Run | None]] = zip_longest(lasting, vm.runs)
        for run, ran in pairs:
            if run is None or ran is None or not _is_same(vm, run, ran, witness):
                there = None if ran is None else (ran.began, ran.ended)
                yield f"{vm.name} ({vm.id}): the ledger has the run {_shown(run)}, and Google {_shown(there)}"
                break


def over_too_early(world: World, connection: Connection) -> Iterator[str]:
    """Runs that the ledger holds for ended, and that go on at Google, or have ended before they began."""
    running = {(vm.project, str(vm.id)): vm for vm in world.every_vm() if vm.runs and vm.runs[-1].ended is None}
    ended = (
        select(instances.c.project, instances.c.gce_id, lifetimes.c.started_at, lifetimes.c.ended_at)
        .join(lifetimes, lifetimes.c.instance_id == instances.c.id)
        .where(lifetimes.c.ended_at.is_not(None), instances.c.gone_at.is_(None))
    )
    for row in connection.execute(ended):
        vm = running.get((row.project, row.gce_id))
        if row.ended_at < row.started_at or (vm is not None and to_ms(vm.runs[-1].began) == row.started_at):
            yield f"{row.gce_id}: the ledger has the run {_shown((row.started_at, row.ended_at))}, and it goes on"


def _shown(run: _Span | None) -> str:
    return "none" if run is None else " to ".join(f"{at:%d %b %H:%M:%S}" if at else "now" for at in run)


def _is_of(vm: VM, run: _Span) -> bool:
    return any(abs(to_ms(ran.began) - run[0]) < _SAME_START for ran in vm.runs)


def _is_same(vm: VM, run: _Span, ran: Run, witness: PassRecord) -> bool:
    began, ended = run
    earliest, latest = earliest_end(vm, ran, witness), latest_end(vm, ran, witness)
    if abs(to_ms(ran.began) - began) >= _SAME_START:
        return False
    if ended is None or earliest is None or latest is None:
        return ended is None and ran.ended is None
    return to_ms(earliest) <= ended <= max(to_ms(latest), began)
