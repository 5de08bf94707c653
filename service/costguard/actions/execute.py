"""The one executor: intents committed under the lease, Google called with no transaction open, outcomes committed.

Stops, launches, starts and deletes are its steps. A call that timed out has an unknown outcome, which the next
observation settles.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from itertools import islice
from math import inf
from typing import Generic, Protocol, TypeVar

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CloudError, CloudUnavailable, RateLimited
from costguard.isolation import Isolated
from costguard.model.ports import Clock

log = structlog.get_logger(__name__)

WORKERS = 16
_AT_ONCE = 96  # steps between two commits
_FRESH_S = 20.0


class Urgency(IntEnum):
    """The order where calls are scarce: first calls that bring work back, then those that end billing, then
    mere looks.
    """

    LAUNCH = 1
    STOP = 2
    LOOK = 3


class CallKind(StrEnum):
    """Google limits them separately, so that reads never keep VMs from being launched."""

    READ = "read"
    WRITE = "write"


class Note(Protocol):
    """A change of the ledger alone. It may be written again after a transaction that was rolled back."""

    @property
    def subject(self) -> str:
        """Names its subject, such as a job's id."""
        ...

    def write(self, connection: Connection, now: datetime) -> bool:
        """Writes the note, and says whether anything changed."""
        ...


class Step(Protocol):
    """`intend` and `settle` may run again after a transaction that was rolled back; `call` runs at most once."""

    @property
    def subject(self) -> str: ...

    @property
    def project(self) -> str: ...

    @property
    def urgency(self) -> Urgency: ...

    @property
    def begins_with(self) -> CallKind:
        """Returns the kind as which its first call counts for Google."""
        ...

    @property
    def fresh_s(self) -> float | None:
        """Returns the seconds after its intent within which it may still be called; None where the call changes
        nothing.
        """
        ...

    @property
    def following(self) -> Step | None:
        """The step whose intent `settle` has committed: it is called next."""
        ...

    def intend(self, connection: Connection, now: datetime) -> bool:
        """Commit what is about to be done. False: it must not be done any more."""
        ...

    def call(self) -> None:
        """Call Google, and keep the answer. Raises CloudError."""
        ...

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        """Record the outcome. Whether its subject must be decided on again at once."""
        ...


class StepDefaults:
    """The parts that most steps share: they look first, and their intent was committed when they were decided on."""

    __slots__ = ()

    fresh_s: float | None = _FRESH_S
    following: Step | None = None

    @property
    def begins_with(self) -> CallKind:
        return CallKind.READ

    def intend(self, connection: Connection, now: datetime) -> bool:  # noqa: ARG002 as all steps have it
        return True


_Item = TypeVar("_Item", Note, Step)


@dataclass(slots=True)
class Done:
    """The result of carrying out steps. `changed` are the subjects to decide on again at once."""

    changed: set[str] = field(default_factory=set)
    calls: int = 0
    troubles: list[str] = field(default_factory=list)
    failed: dict[int, Exception] = field(default_factory=dict)  # why it was not recorded, by the id() of note or step
    left: int = 0  # steps that there was no time for
    paused: dict[str, datetime] = field(default_factory=dict)  # until when, by subject: Google's limit is reached


@dataclass(frozen=True, slots=True)
class _Committed(Generic[_Item]):
    """`began_s` is the monotonic time before it was written: what it rests on is not older."""

    item: _Item
    accepted: bool
    began_s: float


class Executor:
    """Carries out steps. One run at a time; the caller sees to that.

    What goes wrong with one step is logged, reported in `troubles`, and stops no other. `at_once` steps share a
    transaction. After `budget_s` seconds the rest is left to the next run.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        paused_until: Callable[[str, CallKind], datetime | None] = lambda *_: None,
        workers: int = WORKERS,
        at_once: int = _AT_ONCE,
        budget_s: float = inf,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._paused_until = paused_until
        self._workers = workers
        self._at_once = at_once
        self._budget_s = budget_s
        self._monotonic = monotonic

    def carry_out(
        self,
        notes: Sequence[Note],
        steps: Sequence[Step],
        fence: Lease | None,
        stop: threading.Event | None = None,
    ) -> Done:
        """Notes first: steps rest on them. Raises LeaseLost and StoreError; what was begun is settled later."""
        done = Done()
        for some in _batches(notes, self._at_once):
            if stop is not None and stop.is_set():
                break
            written = self._commit(some, lambda c, note: note.write(c, self._clock.now()), fence, done)
            done.changed |= {result.item.subject for result in written if result.accepted}
        begun = self._monotonic()
        waiting = sorted(steps, key=lambda step: step.urgency)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="actions") as pool:
            for number, batch in enumerate(_batches(waiting, self._at_once)):
                if (stop is not None and stop.is_set()) or self._monotonic() - begun > self._budget_s:
                    done.left = len(waiting) - number * self._at_once
                    break
                self._take(batch, pool, fence, done)
        return done

    def _take(self, steps: Sequence[Step], pool: ThreadPoolExecutor, fence: Lease | None, done: Done) -> None:
        steps = [step for step in steps if not self._is_paused(step, done)]
        intended = self._commit(steps, lambda c, step: step.intend(c, self._clock.now()), fence, done)
        ready = [(result.item, result.began_s) for result in intended if result.accepted]
        while ready:
            errors = list(pool.map(lambda item: self._call(item[0], item[1], fence), ready))
            outcomes = {id(step): error for (step, _), error in zip(ready, errors, strict=True)}
            called = [step for step, _ in ready if not isinstance(outcomes[id(step)], _StoodStill)]
            settled = self._settle(called, outcomes, fence, done)
            done.calls += len(called)
            done.changed |= {result.item.subject for result in settled if result.accepted}
            done.troubles += [
                str(error) for error in errors if error is not None and not isinstance(error, RateLimited)
            ]
            ready = [(step, result.began_s) for result in settled if (step := result.item.following) is not None]

    def _settle(
        self, called: Sequence[Step], outcomes: dict[int, CloudError | None], fence: Lease | None, done: Done
    ) -> list[_Committed[Step]]:
        return self._commit(called, lambda c, step: step.settle(c, self._clock.now(), outcomes[id(step)]), fence, done)

    def _is_paused(self, step: Step, done: Done) -> bool:
        """Says whether calls are paused: then nothing of it is begun or recorded."""
        until = self._paused_until(step.project, step.begins_with)
        if until is not None:
            done.paused[step.subject] = until
        return until is not None

    def _call(self, step: Step, began_s: float, fence: Lease | None) -> CloudError | None:
        if step.fresh_s is not None and (
            self._monotonic() - began_s > step.fresh_s or not (fence is None or fence.is_certain)
        ):
            # Another guard may have taken over meanwhile.
            return _StoodStill("This process stood still right before it was to call Google.")
        with Isolated("step_failed", passing=(), subject=step.subject, step=type(step).__name__) as failure:
            try:
                step.call()
            except CloudError as error:
                if not isinstance(error, RateLimited):
                    log.warning("step_not_done", subject=step.subject, step=type(step).__name__, error=str(error))
                return error
            return None
        # Whether it was done is not known, and a look will tell.
        return CloudUnavailable(f"{failure.words}. The log holds the trace to report.")

    def _commit(
        self,
        items: Sequence[_Item],
        write: Callable[[Connection, _Item], bool],
        fence: Lease | None,
        done: Done,
    ) -> list[_Committed[_Item]]:
        """Commits items, and returns those that were written. Where one fails, each has its own transaction."""
        if not items:
            return []
        first, step = items[0].subject, type(items[0]).__name__
        with Isolated("step_not_recorded", subject=first, step=step, together=len(items)) as failure:
            with self._database.write(fence) as connection:
                written = []
                for item in items:
                    began_s = self._monotonic()
                    written.append(_Committed(item, write(connection, item), began_s))
            return written
        if len(items) > 1:
            return [result for item in items for result in self._commit([item], write, fence, done)]
        assert failure.error is not None
        done.failed[id(items[0])] = failure.error
        done.troubles.append(f"{first}: {failure.words}.")
        return []


class _StoodStill(CloudUnavailable):
    """The call was not made. Its intent stands, and is settled like any other unknown outcome."""


def _batches(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
