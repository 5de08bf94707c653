"""What nobody could tell the guard: within which bounds a VM's bill in the ledger lies then.

A graceful stop has no moment of its own at which billing ended. What Google no longer keeps an operation of is known
from the VM's stamps, or from the look that found it gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from costguard_sandbox.gce.vm import VM, Run

_SHUTS_DOWN_FOR = timedelta(minutes=4)  # at most, until the stamp of a stop is written and its operation ends
_ENDS_WITHIN = timedelta(minutes=3)  # the operation that tells of a start, a stop or a delete


@dataclass(frozen=True, slots=True)
class Witness:
    """When the guard's passes were over, oldest first, and for how long Google keeps operations."""

    passes: Sequence[datetime]
    keeps: timedelta

    def was_told(self, at: datetime) -> bool:
        """Whether the operation of that moment was there when the guard looked next."""
        seen_at = self.next_after(at + _ENDS_WITHIN)
        return seen_at is not None and seen_at <= at + self.keeps

    def next_after(self, at: datetime) -> datetime | None:
        place = bisect_left(self.passes, at)
        return self.passes[place] if place < len(self.passes) else None

    def saw(self, run: Run) -> bool:
        seen_at = self.next_after(run.began)
        return seen_at is not None and (run.ended is None or seen_at < run.ended)


def is_certain(vm: VM, witness: Witness) -> bool:
    """Whether all that it did was told, to the millisecond."""
    moments = [moment for run in vm.runs for moment in (run.began, run.ended) if moment is not None]
    moments += [vm.deleted_at] if vm.deleted_at is not None else []
    return not stops_gracefully(vm) and all(map(witness.was_told, moments))


def stops_gracefully(vm: VM) -> bool:
    return bool((vm.scheduling.get("gracefulShutdown") or {}).get("enabled"))


def latest_end(vm: VM, run: Run, witness: Witness) -> datetime | None:
    """The latest moment at which a ledger may have it ended."""
    if run.ended is None:
        return None
    seen_at = witness.next_after(run.ended)
    if witness.was_told(run.ended):
        return run.ended + _SHUTS_DOWN_FOR if stops_gracefully(vm) else run.ended
    ended_last = not any(one.ended is not None and run.ended < one.ended <= (seen_at or one.ended) for one in vm.runs)
    is_there = vm.deleted_at is None or (seen_at is not None and seen_at < vm.deleted_at)
    return run.ended + _SHUTS_DOWN_FOR if ended_last and is_there else max(seen_at or run.ended, run.ended)


def least_and_most(vm: VM, witness: Witness) -> tuple[VM, VM]:
    """The VM as a ledger may have it that knows the least of it, and the most: their bills are the bounds."""
    if is_certain(vm, witness):
        return vm, vm
    known = [
        run for run in vm.runs if witness.saw(run) or (witness.was_told(run.began) and _end_was_told(run, witness))
    ]
    least = replace(vm, runs=known, saved_memory=[])
    most = replace(
        vm,
        runs=_merged([replace(run, ended=latest_end(vm, run, witness), preempted=False) for run in vm.runs]),
        saved_memory=[replace(held, ended=_seen(held.ended, witness)) for held in vm.saved_memory],
        disk_uses=[replace(use, ended=_seen(use.ended, witness)) for use in vm.disk_uses],
    )
    return least, most


def _end_was_told(run: Run, witness: Witness) -> bool:
    return run.ended is None or witness.was_told(run.ended)


def _seen(ended: datetime | None, witness: Witness) -> datetime | None:
    """What was let go then, a ledger may have until the next look."""
    if ended is None:
        return None
    return ended if witness.was_told(ended) else witness.next_after(ended) or ended


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
