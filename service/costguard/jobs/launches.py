"""The only place that makes, starts and deletes VMs: intents committed in batches, Google asked in parallel,
outcomes committed in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CloudError, CloudUnavailable, LeaseLost, RateLimited, StoreError
from costguard.jobs.launch_pace import PacedLauncher
from costguard.jobs.vm_step import Note, Step
from costguard.model.ports import Clock

log = structlog.get_logger(__name__)

WORKERS = 16
_AT_ONCE = 96  # steps between two commits
_FROZEN_S = 20.0  # so long after its intent was committed, what it rests on may be over
_BUDGET_S = 20.0  # after which the rest is left to the next turn, so that news is not kept waiting

_Item = TypeVar("_Item", Note, Step)


@dataclass(slots=True)
class Done:
    """What was carried out. `changed` are the jobs to be decided on again at once."""

    changed: set[str] = field(default_factory=set)
    calls: int = 0
    troubles: list[str] = field(default_factory=list)
    left: int = 0  # steps that there was no time for
    paused: dict[str, datetime] = field(default_factory=dict)  # until when, by job: Google's limit is reached


class Launching:
    """Carries out what was decided about jobs. One at a time; the caller sees to that.

    What goes wrong with one job is logged, told in `troubles`, and stops no other.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        paced: PacedLauncher,
        workers: int = WORKERS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._paced = paced
        self._workers = workers
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
        for some in _batches(notes, _AT_ONCE):
            changed = self._commit(some, lambda c, note: note.write(c, self._clock.now()), fence, done)
            done.changed |= {note.job_id for note in changed}
        begun = self._monotonic()
        waiting = sorted(steps, key=lambda step: step.urgency)
        with ThreadPoolExecutor(self._workers, thread_name_prefix="jobs") as pool:
            for number, batch in enumerate(_batches(waiting, _AT_ONCE)):
                if (stop is not None and stop.is_set()) or self._monotonic() - begun > _BUDGET_S:
                    done.left = len(waiting) - number * _AT_ONCE
                    break
                self._take(batch, pool, fence, done)
        return done

    def _take(self, steps: Sequence[Step], pool: ThreadPoolExecutor, fence: Lease | None, done: Done) -> None:
        steps = [step for step in steps if not self._is_paused(step, done)]
        intended = self._commit(steps, lambda c, step: step.intend(c, self._clock.now()), fence, done)
        committed_s = self._monotonic()
        errors = list(pool.map(lambda step: self._ask(step, committed_s, fence), intended))
        came_of = {id(step): error for step, error in zip(intended, errors, strict=True)}
        asked = [step for step in intended if not isinstance(came_of[id(step)], _StoodStill)]
        settled = self._commit(asked, lambda c, step: step.settle(c, self._clock.now(), came_of[id(step)]), fence, done)
        done.calls += len(asked)
        done.changed |= {step.job_id for step in settled}
        done.troubles += [str(error) for error in errors if error is not None and not isinstance(error, RateLimited)]

    def _is_paused(self, step: Step, done: Done) -> bool:
        """Then nothing of it is begun, nor written down."""
        until = self._paced.paused_until(step.project, step.begins_with)
        if until is not None:
            done.paused[step.job_id] = until
        return until is not None

    def _ask(self, step: Step, committed_s: float, fence: Lease | None) -> CloudError | None:
        if self._monotonic() - committed_s > _FROZEN_S or not (fence is None or fence.is_certain):
            # Another guard may have taken over meanwhile.
            return _StoodStill("This process stood still right before it was to ask Google.")
        try:
            step.call()
        except CloudError as error:
            if not isinstance(error, RateLimited):
                log.warning("job_step_not_done", job=step.job_id, step=type(step).__name__, error=str(error))
            return error
        except Exception as error:  # an oddity of one job: nobody knows what was done, and a look will tell
            log.exception("job_step_failed", job=step.job_id, step=type(step).__name__)
            return CloudUnavailable(f"{type(error).__name__}: {error}. The log holds the trace to report.")
        return None

    def _commit(
        self,
        items: Sequence[_Item],
        write: Callable[[Connection, _Item], bool],
        fence: Lease | None,
        done: Done,
    ) -> list[_Item]:
        """Those that `write` says yes of, once it is committed. Where one fails, each has its own transaction."""
        if not items:
            return []
        try:
            with self._database.write(fence) as connection:
                accepted = [item for item in items if write(connection, item)]
        except (LeaseLost, StoreError):
            raise
        except Exception as error:
            if len(items) > 1:
                return [item for one in items for item in self._commit([one], write, fence, done)]
            log.exception("job_step_not_written", job=items[0].job_id, step=type(items[0]).__name__)
            done.troubles.append(f"Job {items[0].job_id}: {type(error).__name__}: {error}.")
            return []
        return accepted


class _StoodStill(CloudUnavailable):
    """Not asked. Its intent stands, and is settled like any other doubt."""


def _batches(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
