"""Counts the watched projects by how they were last read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from costguard.daemon.health import ProjectState


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """Each project is counted once: as read, partly read, late or not read. `oldest_age` is of complete reads."""

    watched: int
    completely_read: int
    partly_read: int
    late: int  # no complete read for too long, though Google refuses nothing
    not_read: int
    oldest_age: timedelta | None


def counts_of(states: Sequence[ProjectState]) -> ProjectCounts:
    not_read = sum(state.look.is_unread for state in states)
    late = sum(state.is_late for state in states)
    partly = sum(bool(state.look.unread) and not state.look.is_unread and not state.is_stale for state in states)
    oldest = max((state.age for state in states if state.age is not None), default=None)
    return ProjectCounts(len(states), len(states) - not_read - late - partly, partly, late, not_read, oldest)
