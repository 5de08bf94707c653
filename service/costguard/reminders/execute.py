"""The only actor: what a plan asks for is done here, or, in shadow, written down as what would have been done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard.events import facts
from costguard.ledger import lifetimes
from costguard.model.action import (
    Action,
    AssignOwner,
    CancelJob,
    KeepLifetime,
    RefuseRequest,
    SendReminder,
    StopInstance,
    StopOutcome,
)
from costguard.model.ports import Actuator, Clock
from costguard.reminders import answering, stop_rows, stop_words
from costguard.reminders.still_due import StillDue
from costguard.reminders.stops import Stopping, new_stop

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one action. `result` is a StopOutcome's value, "settled", "repeated" or "broken"."""

    action: Action
    result: str
    text: str = ""


class Executor(Protocol):
    def carry_out(
        self, actions: Sequence[Action], fence: Lease | None = None, stop: threading.Event | None = None
    ) -> list[Outcome]:
        """Do what was decided, answers first. What was done before is not done again.

        Reminders are not sent from here. When `stop` is set, the rest is left to the next pass. Raises
        LeaseLost and StoreError; what Google does not do is an outcome.
        """
        ...

    def settle(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        """Find out what became of the stops that are open; ask again where that is not known."""
        ...


class LiveExecutor:
    """Does everything."""

    def __init__(
        self,
        database: Database,
        actuator: Actuator,
        clock: Clock,
        still_due: StillDue,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._stopping = Stopping(database, actuator, clock, still_due, monotonic)

    def carry_out(
        self, actions: Sequence[Action], fence: Lease | None = None, stop: threading.Event | None = None
    ) -> list[Outcome]:
        outcomes = []
        for action in sorted(actions, key=_place):
            if isinstance(action, SendReminder):
                continue
            if stop is not None and stop.is_set():
                break
            try:
                outcomes.append(self._carry_out(action, fence))
            except StoreError:
                raise
            except Exception as error:  # one VM's oddity must not keep the others from being stopped
                log.exception("action_not_carried_out", action=repr(action))
                outcomes.append(Outcome(action, "broken", f"{type(error).__name__}: {error}"))
        return outcomes

    def settle(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        self._stopping.settle(fence, stop)

    def _carry_out(
        self, action: StopInstance | KeepLifetime | AssignOwner | CancelJob | RefuseRequest, fence: Lease | None
    ) -> Outcome:
        if isinstance(action, StopInstance):
            outcome, text = self._stopping.order(action, fence)
            return Outcome(action, outcome.value if outcome is not None else "repeated", text)
        with self._database.write(fence) as connection:
            text = answering.settle(connection, action, self._clock.now())
        return Outcome(action, "settled" if text else "repeated", text)


class ShadowExecutor:
    """Writes down what rules would have stopped. What people ask for is done, by the executor that it is given."""

    def __init__(self, database: Database, clock: Clock, live: Executor) -> None:
        self._database = database
        self._clock = clock
        self._live = live

    def carry_out(
        self, actions: Sequence[Action], fence: Lease | None = None, stop: threading.Event | None = None
    ) -> list[Outcome]:
        asked = [action for action in actions if not _is_by_rule(action)]
        outcomes = self._live.carry_out(asked, fence, stop)
        return outcomes + [
            self._write_down(action, fence)
            for action in actions
            if isinstance(action, StopInstance) and _is_by_rule(action)
        ]

    def settle(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        self._live.settle(fence, stop)

    def _write_down(self, action: StopInstance, fence: Lease | None) -> Outcome:
        # Not the key of a real stop: what was a shadow can be done once shadow is turned off.
        key, now = stop_words.key_of(action, "shadow"), self._clock.now()
        with self._database.write(fence) as connection:
            vm = lifetimes.known(connection, action.subject.instance_id)
            if vm is None:
                return Outcome(action, "repeated", "the VM is not in the ledger")
            new = new_stop(connection, key, action, vm, StopOutcome.SHADOW, now)
            if stop_rows.add(connection, new) is None:
                return Outcome(action, "repeated", "it was written down before")
            told = stop_words.shadowed(vm, key, action, now)
            facts.append(connection, [told], now)
        return Outcome(action, StopOutcome.SHADOW.value, told.text)


def _is_by_rule(action: Action) -> bool:
    return isinstance(action, StopInstance) and action.request is None


def _place(action: Action) -> int:
    """Answers first, so that no rule acts on a silence that is broken; then what people ask to be stopped."""
    if not isinstance(action, StopInstance):
        return 0
    return 2 if action.request is None else 1
