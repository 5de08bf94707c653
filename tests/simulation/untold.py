"""Bounds a VM's bill in the ledger where nobody could report the exact moment.

A graceful stop has no moment of its own at which billing ended. What Google no longer keeps an operation of is known
from the VM's stamps, or from the look that found it gone. While a project is not watched its account is closed: what
ended meanwhile ended with the last look before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, select
from tests.simulation.settings import WILD

from costguard.db import tables
from costguard_sandbox.gce.vm import VM, Run

_SHUTS_DOWN_FOR = timedelta(minutes=4)  # at most, until the stamp of a stop is written and its operation ends
_GRACE = timedelta(minutes=10)
_ENDS_WITHIN = timedelta(minutes=3)  # the operation that tells of a start, a stop or a delete


@dataclass(frozen=True, slots=True)
class PassRecord:
    """When the guard's passes began, oldest first, and for how long Google keeps operations.

    `stamps` are what each pass could see of when each VM had stopped last. `unwatched`: from the last pass before the
    second project was taken out of the settings until it was put back.
    """

    passes: Sequence[datetime]
    keeps: timedelta
    unwatched: Sequence[tuple[datetime, datetime]] = ()
    stamps: Mapping[datetime, Mapping[int, datetime | None]] = field(default_factory=dict)

    def closed_at(self, began: datetime, ended: datetime | None) -> datetime | None:
        """When the account of what lasted from then to then was closed, where it ended before anybody looked again."""
        for since, until in self.unwatched:
            if ended is not None and began <= since < ended <= (self.next_after(until) or ended):
                return since
        return None

    def was_reported(self, at: datetime) -> bool:
        """Says whether the operation of that moment was there when the guard looked next."""
        seen_at = self.next_after(at + _ENDS_WITHIN)
        return seen_at is not None and seen_at <= at + self.keeps

    def next_after(self, at: datetime) -> datetime | None:
        place = bisect_left(self.passes, at)
        return self.passes[place] if place < len(self.passes) else None

    def saw(self, run: Run) -> bool:
        seen_at = self.next_after(run.began)
        return seen_at is not None and (run.ended is None or seen_at < run.ended)


def is_certain(vm: VM, witness: PassRecord) -> bool:
    """Says whether operations tell all that it did, to the millisecond."""
    moments = [moment for run in vm.runs for moment in (run.began, run.ended) if moment is not None]
    moments += [vm.deleted_at] if vm.deleted_at is not None else []
    spans = [(run.began, run.ended) for run in vm.runs] + [(use.began, use.ended) for use in vm.disk_uses]
    if vm.project == WILD and any(witness.closed_at(*span) for span in spans):
        return False
    return not stops_gracefully(vm) and all(map(witness.was_reported, moments))


def stops_gracefully(vm: VM) -> bool:
    return bool((vm.scheduling.get("gracefulShutdown") or {}).get("enabled"))


def earliest_end(vm: VM, run: Run, witness: PassRecord) -> datetime | None:
    """The earliest moment at which a ledger may have it ended: of a VM that is gone, nothing tells of any grace."""
    if vm.project == WILD and (closed_at := witness.closed_at(run.began, run.ended)) is not None:
        return closed_at
    if run.ended is None or not stops_gracefully(vm) or vm.deleted_at is None:
        return run.ended
    return max(run.began, run.ended - _GRACE)


def latest_end(vm: VM, run: Run, witness: PassRecord) -> datetime | None:
    """The latest moment at which a ledger may have it ended."""
    if run.ended is None:
        return None
    seen_at = witness.next_after(run.ended)
    if witness.was_reported(run.ended):
        return run.ended + _SHUTS_DOWN_FOR if stops_gracefully(vm) else run.ended
    stamp = witness.stamps.get(seen_at, {}).get(vm.id) if seen_at is not None else None
    is_stamped = stamp is not None and run.ended <= stamp <= run.ended + _SHUTS_DOWN_FOR
    return run.ended + _SHUTS_DOWN_FOR if is_stamped and _next_start_shows(vm, run, witness) else seen_at or run.ended


def _next_start_shows(vm: VM, run: Run, witness: PassRecord) -> bool:
    """Says whether a ledger can tell this run from the next: its start has an operation, or is the VM's latest."""
    later = [one for one in vm.runs if one.began > run.began]
    if not later or witness.was_reported(later[0].began):
        return True
    seen_at = witness.next_after(later[0].began)
    return len(later) == 1 or seen_at is None or later[1].began > seen_at


def least_and_most(vm: VM, witness: PassRecord) -> tuple[VM, VM]:
    """The VM as a ledger may have it that knows the least of it, and the most: their bills are the bounds."""
    if is_certain(vm, witness):
        return vm, vm
    least_runs = [
        run
        for run in vm.runs
        if witness.saw(run) or (witness.was_reported(run.began) and _end_was_reported(run, witness))
    ]
    least = replace(
        vm,
        runs=[replace(run, ended=earliest_end(vm, run, witness)) for run in least_runs],
        saved_memory=[],
        disk_uses=[replace(use, ended=witness.closed_at(use.began, use.ended) or use.ended) for use in vm.disk_uses],
    )
    most = replace(
        vm,
        runs=_merged([replace(run, ended=latest_end(vm, run, witness), preempted=False) for run in vm.runs]),
        saved_memory=[replace(held, ended=_seen(held.ended, witness)) for held in vm.saved_memory],
        disk_uses=[replace(use, ended=_seen(use.ended, witness)) for use in vm.disk_uses],
    )
    return least, most


def _end_was_reported(run: Run, witness: PassRecord) -> bool:
    return run.ended is None or witness.was_reported(run.ended)


def _seen(ended: datetime | None, witness: PassRecord) -> datetime | None:
    """Returns the next look, until which a ledger may have what was let go then."""
    if ended is None:
        return None
    return ended if witness.was_reported(ended) else witness.next_after(ended) or ended


def _merged(runs: Sequence[Run]) -> list[Run]:
    """No moment is billed twice."""
    merged: list[Run] = []
    for run in runs:
        if merged and (merged[-1].ended is None or merged[-1].ended >= run.began):
            before = merged.pop()
            ended = None if before.ended is None or run.ended is None else max(before.ended, run.ended)
            run = replace(before, ended=ended)
        merged.append(run)
    return merged


def first_looks(connection: Connection) -> dict[str, datetime]:
    """Returns when each project was looked at first."""
    rows = connection.execute(select(tables.projects.c.project, tables.projects.c.first_seen_at))
    return {row.project: row.first_seen_at for row in rows}


def came_and_went_before(vm: VM, first_look: datetime | None) -> bool:
    """Says whether it was gone before a project was first looked at: it is none of the ledger's."""
    return first_look is None or (vm.deleted_at is not None and vm.deleted_at <= first_look)
