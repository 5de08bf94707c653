"""The guard's own state in a simulated life: its clock, what it saw, when it acted, and what went wrong."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from costguard_sandbox.clock import ManualClock

_PRODUCT = "/service/costguard/"


class GuardClock:
    """The clock of the guard's machine, which may be wrong."""

    def __init__(self, world: ManualClock) -> None:
        self._world = world
        self._error = timedelta()
        self.worst = timedelta()  # by how much it ever was wrong

    def now(self) -> datetime:
        return self._world.now() + self._error

    def set_wrong(self, by: timedelta) -> None:
        self._error = by
        self.worst = max(self.worst, abs(by))


def raised_by_the_guard(error: BaseException) -> str | None:
    """The innermost module of the product that an error came through; None: it is the simulation's own."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ours = [name.partition(_PRODUCT)[2] for name in frames if _PRODUCT in name]
    is_a_judges = any("/tests/" in name for name in frames[-1:])
    return None if not ours or is_a_judges else ours[-1]


def _dropped(_logger: object, _method: str, _event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    raise structlog.DropEvent


@contextmanager
def kept_errors() -> Iterator[list[str]]:
    """Collects, within the block, errors that the guard keeps from its other work and did not foresee: each a
    sentence.
    """
    unforeseen: list[str] = []

    def look(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        error = event.get("exc_info")
        if isinstance(error, BaseException) and (where := raised_by_the_guard(error)) is not None:
            unforeseen.append(f"{event['event']}: {type(error).__name__} in {where}: {error}")
        return event

    before = structlog.get_config()
    quiet, errors = (structlog.make_filtering_bound_logger(level) for level in (logging.CRITICAL, logging.ERROR))
    if before["wrapper_class"] is quiet:
        structlog.configure(processors=[look, _dropped], wrapper_class=errors)
    else:
        structlog.configure(processors=[look, *before["processors"]])
    try:
        yield unforeseen
    finally:
        structlog.configure(**before)


@dataclass(frozen=True, slots=True)
class Look:
    """The fleet as a guard read it. `is_whole`: nothing of Google's was wrong, and all of it could be read."""

    at: datetime
    is_whole: bool
    unread_zones: frozenset[str]


@dataclass(frozen=True, slots=True)
class Step:
    """The guard's work from one moment to another, and what was wrong meanwhile."""

    began: datetime
    ended: datetime
    bad: frozenset[str]
