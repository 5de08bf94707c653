"""A look at the operation that a keeper's own stop began: Google accepts some, and then does not do them.

Operations of VMs come with each look at a project; those of groups, Workbench and Cloud Workstations do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import StepDefaults, Urgency
from costguard.errors import CloudError
from costguard.keepers.reading import keeper_of
from costguard.model.action import StopOutcome
from costguard.model.keeper import Keeper
from costguard.model.launch import OperationAnswer
from costguard.model.ports import Actuator
from costguard.reminders import stop_case, stop_rows
from costguard.reminders.stop_case import StopCase
from costguard.reminders.stop_rows import StopRecord
from costguard.reminders.stops import LONGEST, fail

_AGAIN = timedelta(seconds=30)
_UNREAD_AGAIN = timedelta(minutes=5)


@dataclass(slots=True)
class OperationStep(StepDefaults):
    """A stop whose operation ended in error has failed; one whose operation cannot be read is waited for."""

    fresh_s = None  # a look changes nothing
    actuator: Actuator
    stop: StopRecord
    case: StopCase | None = None
    keeper: Keeper | None = None
    answer: OperationAnswer | None = None
    urgency: Urgency = field(default=Urgency.STOP, init=False)

    @property
    def subject(self) -> str:
        return str(self.stop.subject)

    @property
    def project(self) -> str:
        return ""  # stops are not paced

    def intend(self, connection: Connection, now: datetime) -> bool:
        case = stop_case.load(connection, self.stop.subject, self.stop.id)
        record = case.vm.record
        self.case, self.keeper = case, keeper_of(record.labels, record.origin, record.zone)
        is_waited_for = case.stop.outcome is StopOutcome.ASKED and case.stop.try_after <= now
        return is_waited_for and self.keeper is not None and self.keeper.has_own_stop

    def call(self) -> None:
        if self.case is None or self.keeper is None:
            raise ValueError("an operation was read before it was intended")
        address = (*self.case.address, self.case.name)
        self.answer = self.actuator.kept_operation(self.keeper, address, self.case.stop.operation)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        case = stop_case.load(connection, self.stop.subject, self.stop.id)
        if case.stop.outcome is not StopOutcome.ASKED:
            return False
        answer = self.answer
        if error is None and answer is not None and answer.is_done and (answer.error_code or answer.error_message):
            fail(connection, case, answer.error_message or answer.error_code, now)
            return True
        is_over = error is None and (answer is None or answer.is_done)  # Google forgets old ones
        after = LONGEST if is_over else _AGAIN if error is None else _UNREAD_AGAIN
        stop = case.stop
        stop_rows.advance(connection, stop.id, stop.outcome, stop.operation, stop.error, try_after=now + after)
        return False
