"""Decides how many projects a replica should claim or hand over, so that all replicas hold about as many. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ShareChange(NamedTuple):
    """The number of projects to claim, and of those to hand over; one of them is 0."""

    claim: int = 0
    hand_over: int = 0


def change(replica: str, held: Mapping[str, int], projects: int) -> ShareChange:
    """Returns what this replica should do so that all come to their shares.

    `held` is how many projects each living replica holds, this one and those that hold none among them; `projects` is
    how many there are.
    """
    missing = share(replica, held, projects) - held[replica]
    return ShareChange(claim=missing) if missing > 0 else ShareChange(hand_over=-missing)


def share(replica: str, held: Mapping[str, int], projects: int) -> int:
    """Returns how many projects this replica should hold: all shares differ by at most one, and add up to all projects.

    The larger ones are for those that hold most, so that as few projects as possible change hands; all replicas that
    see the same numbers come to the same shares.
    """
    least, larger = divmod(projects, len(held))
    first = sorted(held, key=lambda one: (-held[one], one))
    return least + (first.index(replica) < larger)
