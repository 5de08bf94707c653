"""Divides the common ceiling of a sweep, so that its members together never cost more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from costguard.model.money import ZERO, Money


@dataclass(frozen=True, slots=True)
class Reservation:
    """The amount that a VM of a member may still cost: Google ends it after `time_left`, whatever becomes of the guard.

    `rate` is an hour's; None: its price is not known, so all that is left is reserved. `download` is what it has yet to
    pay for its inputs.
    """

    job_id: str
    rate: Money | None
    time_left: timedelta
    download: Money = ZERO

    @property
    def amount(self) -> Money | None:
        return None if self.rate is None else self.rate.over(self.time_left) + self.download


@dataclass(frozen=True, slots=True)
class CeilingUse:
    """A common ceiling, what all members have cost so far with their downloads, and what their VMs may still cost."""

    ceiling: Money
    spent: Money
    reservations: Sequence[Reservation] = ()

    @property
    def left(self) -> Money:
        return max(self.ceiling - self.spent, ZERO)

    @property
    def reserved(self) -> Money | None:
        """Returns the reserved amount. None: not known."""
        amounts = [reservation.amount for reservation in self.reservations]
        if any(amount is None for amount in amounts):
            return None
        return sum((amount for amount in amounts if amount is not None), start=ZERO)

    @property
    def free(self) -> Money:
        """Returns the amount that no VM has reserved."""
        reserved = self.reserved
        return ZERO if reserved is None else max(self.left - reserved, ZERO)


def shares(use: CeilingUse, open_jobs: Collection[str], slots: int) -> Mapping[str, Money]:
    """Returns the amount that each open job may still spend of a common ceiling.

    A job with a VM has what no other VM has reserved. The others share what is free evenly between all members that may
    yet get a VM, so that those who come first do not take everything. `slots` is how many members may run at once. All
    shares that are used up together come to no more than what is left.
    """
    with_vm = {reservation.job_id for reservation in use.reservations}
    waiting = [job_id for job_id in open_jobs if job_id not in with_vm]
    live = len(open_jobs) - len(waiting)  # a VM of a job that is over is being deleted
    free_slots = max(slots - live, len(waiting), 1)
    result = dict.fromkeys(waiting, Money(use.free.nanos // free_slots))
    for job_id in with_vm:
        result[job_id] = _with_vm(use, job_id)
    return result


def _with_vm(use: CeilingUse, job_id: str) -> Money:
    mine = sum((r.amount or ZERO for r in use.reservations if r.job_id == job_id), start=ZERO)
    reserved = use.reserved
    if reserved is None:
        return use.left
    others = reserved - mine
    if reserved <= use.left:
        return use.left - others
    # A disk that is kept, or a price that rose, has taken from what was reserved: all give up the same part.
    return Money(use.left.nanos * mine.nanos // reserved.nanos)
