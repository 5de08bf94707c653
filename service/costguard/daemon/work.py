"""The tasks of a daemon besides its passes, and the signs that it gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from costguard.daemon.reconcile import PassReport
from costguard.db.lease import Lease
from costguard.ledger.idle.watch import IdleWatch
from costguard.model.price import Price

JOBS = "jobs"  # the side task of training jobs


@dataclass(frozen=True, slots=True)
class SideTask:
    """A task with its own interval, run next to the passes by the holder of the lease."""

    every: timedelta
    run: Callable[[Lease, threading.Event], object]


@dataclass(frozen=True, slots=True)
class PriceTask:
    """Reads the list of prices at every interval, and stores it."""

    fetch: Callable[[], Sequence[Price]]
    store: Callable[[Sequence[Price], Lease], None]
    every: timedelta


@dataclass(frozen=True, slots=True)
class DaemonWork:
    """The work of a daemon besides passes and prices.

    `send` returns None where there was nothing to send. `look_up` finds people in Slack, and says whether anybody was
    found. `prepare` loads what acting takes: a replica that waits for its turn calls it once, in a thread.
    """

    after_pass: Mapping[str, Callable[[Lease], object]] = field(default_factory=dict)
    idle_watch: IdleWatch | None = None
    idle_every: timedelta = timedelta(minutes=5)
    send: Callable[[Lease, threading.Event], timedelta | None] | None = None
    side_tasks: Mapping[str, SideTask] = field(default_factory=dict)
    look_up: Callable[[Lease, threading.Event], bool] | None = None
    prepare: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Signs:
    """The daemon calls these to tell how it is doing.

    `passed` hears the seconds that each pass took, and its report if it did not fail; `alive` that the database
    answered about the lease, True without an error; `bark` for how long it has not answered.
    """

    passed: Callable[[float, PassReport | None], None] = lambda _seconds, _report: None
    alive: Callable[[bool], None] = lambda _is_well: None
    bark: Callable[[timedelta], None] | None = None


NO_MORE_WORK = DaemonWork()
NO_SIGNS = Signs()
