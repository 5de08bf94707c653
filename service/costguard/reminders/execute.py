"""Carries out a plan, or records it in shadow mode."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from costguard.actions.execute import Done, Executor
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger import lifetimes
from costguard.model.action import (
    Action,
    AssignOwner,
    CancelJob,
    KeepLifetime,
    RefuseRequest,
    StopInstance,
    StopOutcome,
)
from costguard.model.keeper import KeeperKind
from costguard.model.ports import Actuator, Clock
from costguard.reminders import answering, stop_rows
from costguard.reminders.kept_operation import OperationStep
from costguard.reminders.stop_case import StillDue
from costguard.reminders.stops import OrderStep, ResumeStep, new_stop


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The outcome of one action. `result` is a StopOutcome's value, "settled", "repeated" or "broken"."""

    action: Action
    result: str
    text: str = ""


class PlanExecutor(Protocol):
    def carry_out(
        self, actions: Sequence[Action], fence: Lease | None = None, stop: threading.Event | None = None
    ) -> Sequence[ActionOutcome]:
        """Do what was decided, answers first. What was done before is not done again.

        Reminders are not sent from here. When `stop` is set, the rest is left to the next pass. Raises
        LeaseLost and StoreError; what Google does not do is an outcome.
        """
        ...

    def settle(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        """Find out what became of the stops that are open; ask again where that is not known."""
        ...


class LiveExecutor:
    """Carries out everything, one stop at a time."""

    def __init__(
        self,
        database: Database,
        actuator: Actuator,
        clock: Clock,
        still_due: StillDue,
        monotonic: Callable[[], float] = time.monotonic,
        through: Collection[KeeperKind] = (),
    ) -> None:
        """`through`: the keepers whose VMs are stopped by the keeper's own API."""
        self._database = database
        self._actuator = actuator
        self._still_due = still_due
        self._through = through
        self._executor = _one_by_one(database, clock, monotonic)

    def carry_out(
        self, actions: Sequence[Action], fence: Lease | None = None, stop: threading.Event | None = None
    ) -> list[ActionOutcome]:
        notes = [_AnswerNote(action) for action in actions if isinstance(action, _Answer)]
        steps = [self._order(action) for action in sorted(_stops(actions), key=_is_by_rule)]
        done = self._executor.carry_out(notes, steps, fence, stop)
        return [*_outcomes(notes, done), *_outcomes(steps, done)]

    def settle(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        with self._database.read() as connection:
            waiting = stop_rows.open_stops(connection)
        if not waiting:
            return
        steps = [
            ResumeStep(self._actuator, self._still_due, "", str(record.subject), stop=record, through=self._through)
            for record in waiting
        ]
        accepted = [record for record in waiting if record.outcome is StopOutcome.ASKED]
        looks = [OperationStep(self._actuator, record) for record in accepted]
        self._executor.carry_out((), [*steps, *looks], fence, stop)

    def _order(self, action: StopInstance) -> OrderStep:
        project, subject = action.key.project, str(action.subject)
        return OrderStep(self._actuator, self._still_due, project, subject, action=action, through=self._through)


class ShadowExecutor:
    """Records what rules would have stopped. What people ask for is done by the executor that it is given."""

    def __init__(self, database: Database, clock: Clock, live: PlanExecutor) -> None:
        self._live = live
        self._executor = _one_by_one(database, clock)

    def carry_out(
        self, actions: Sequence[Action], fence: Lease | None = None, stop: threading.Event | None = None
    ) -> list[ActionOutcome]:
        requested = [action for action in actions if not _is_by_rule(action)]
        outcomes = [*self._live.carry_out(requested, fence, stop)]
        notes = [_ShadowNote(action) for action in _stops(actions) if _is_by_rule(action)]
        done = self._executor.carry_out(notes, (), fence, stop)
        return [*outcomes, *_outcomes(notes, done)]

    def settle(self, fence: Lease | None = None, stop: threading.Event | None = None) -> None:
        self._live.settle(fence, stop)


_Answer = KeepLifetime | AssignOwner | CancelJob | RefuseRequest


@dataclass(slots=True)
class _AnswerNote:
    action: _Answer
    outcome: tuple[str, str] | None = None

    @property
    def subject(self) -> str:
        return str(self.action.request.subject)

    def write(self, connection: Connection, now: datetime) -> bool:
        text = answering.settle(connection, self.action, now)
        self.outcome = "settled" if text else "repeated", text
        return bool(text)


@dataclass(slots=True)
class _ShadowNote:
    """A stop that a rule would have begun."""

    action: StopInstance
    outcome: tuple[str, str] | None = None

    @property
    def subject(self) -> str:
        return str(self.action.subject)

    def write(self, connection: Connection, now: datetime) -> bool:
        # Not the key of a real stop: what was a shadow can be done once shadow is turned off.
        action, key = self.action, stop_rows.key_of(self.action, "shadow")
        vm = lifetimes.known(connection, action.subject.instance_id)
        if vm is None:
            self.outcome = "repeated", "the VM is not in the ledger"
            return False
        if stop_rows.add(connection, new_stop(connection, key, action, vm, StopOutcome.SHADOW, now)) is None:
            self.outcome = "repeated", "it was recorded before"
            return False
        event = stop_rows.shadowed(vm, key, action, now)
        audit_log.append(connection, [event], now)
        self.outcome = StopOutcome.SHADOW.value, event.text
        return True


def _one_by_one(database: Database, clock: Clock, monotonic: Callable[[], float] = time.monotonic) -> Executor:
    """Each stop is checked right before it is asked for, so none waits for others."""
    return Executor(database, clock, workers=1, at_once=1, monotonic=monotonic)


class _Carried(Protocol):
    @property
    def action(self) -> Action: ...

    @property
    def outcome(self) -> tuple[str, str] | None: ...


def _outcomes(items: Sequence[_Carried], done: Done) -> Iterator[ActionOutcome]:
    """Yields the outcomes in the order of actions; an action that was not begun has none."""
    for item in items:
        error = done.failed.get(id(item))
        outcome = item.outcome if error is None else ("broken", f"{type(error).__name__}: {error}")
        if outcome is not None:
            yield ActionOutcome(item.action, *outcome)


def _stops(actions: Sequence[Action]) -> list[StopInstance]:
    return [action for action in actions if isinstance(action, StopInstance)]


def _is_by_rule(action: Action) -> bool:
    """Says whether a rule made the stop: requested stops come before these."""
    return isinstance(action, StopInstance) and action.request is None
