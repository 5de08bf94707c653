"""Stops as steps of the executor: a stop is ordered, its VM looked at and checked once more, and Google asked once.

INTENDED: it has certainly not begun. UNKNOWN: it may have. ASKED: Google accepted it. All three are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import CallKind, Step, StepDefaults, Urgency
from costguard.errors import BadAnswer, CloudError, CloudUnavailable, PermissionDenied
from costguard.events import audit_log
from costguard.ledger import lifetimes
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.backoff import Backoff
from costguard.model.observation import Sighting
from costguard.model.ports import Actuator
from costguard.model.record import KnownInstance
from costguard.reminders import stop_case, stop_outcomes, stop_rows, stop_words
from costguard.reminders.still_due import StillDue, StopHold
from costguard.reminders.stop_case import StopCase
from costguard.reminders.stop_rows import NewStop, StopRecord

TRIES = 6
_FRESH_S = 5.0  # after its last look: later the reason for a stop may be over
_BACKOFF = Backoff(timedelta(seconds=30), timedelta(minutes=10))
_AGAIN_SOON = timedelta(seconds=30)

Result = tuple[StopOutcome | None, str]  # None: it is under way, or was settled, already


@dataclass(slots=True)
class LookStep(StepDefaults):
    """A look at a VM before its stop. The last check follows in the transaction that settles it.

    `project` is "" for a stop that is resumed: stops are not paced.
    """

    actuator: Actuator
    still_due: StillDue
    project: str
    subject: str
    case: StopCase | None = None
    sighting: Sighting | None = None
    result: Result | None = None
    asks: AskStep | None = None
    urgency: Urgency = field(default=Urgency.STOP, init=False)
    begins_with: CallKind = field(default=CallKind.READ, init=False)

    @property
    def fresh_s(self) -> float | None:
        return None  # a look changes nothing

    @property
    def following(self) -> Step | None:
        return self.asks

    def call(self) -> None:
        case = _loaded(self.case)
        self.sighting = self.actuator.look(*case.address, case.name)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        """Every VM is addressed by its numeric id, so that no namesake can be stopped in its place."""
        case, self.asks = _loaded(self.case), None
        if error is not None:
            self.result = _troubled(connection, case, error, now, may_have_begun=case.may_have_begun)
            return True
        case = stop_case.load(connection, case.stop.subject, case.stop.id)
        over = stop_outcomes.settled(connection, case, now)
        if over is not None:
            self.result = over
            return True
        hold = self._hold(connection, case, now)
        if hold is not None:
            self.result = _held(connection, case, hold, now)
            return True
        # From here on it may have begun, whatever becomes of us.
        stop_rows.advance(connection, case.stop.id, StopOutcome.UNKNOWN, operation=case.stop.operation, try_after=now)
        self.result = StopOutcome.UNKNOWN, "this process stood still right before it was to call Google"
        self.asks = AskStep(self, case)
        return True

    def _hold(self, connection: Connection, case: StopCase, now: datetime) -> StopHold | None:
        changed = stop_case.unlike(case, self.sighting)
        if changed or self.sighting is None:
            # It may be our own doing; then the ledger will tell at the next look.
            return StopHold(changed, is_final=not case.may_have_begun)
        return self.still_due(connection, case, self.sighting, now)


@dataclass(slots=True)
class OrderStep(LookStep):
    """A stop that was just decided on."""

    action: StopInstance = field(kw_only=True)

    @property
    def outcome(self) -> tuple[str, str] | None:
        """A StopOutcome's value, or "repeated"; and why. None: it was not begun."""
        if self.result is None:
            return None
        outcome, text = self.result
        return outcome.value if outcome is not None else "repeated", text

    def intend(self, connection: Connection, now: datetime) -> bool:
        """Commit the stop, unless one of this run is under way or this one was settled before."""
        action, subject = self.action, self.action.subject
        vm = lifetimes.known(connection, subject.instance_id)
        if vm is None:
            self.result = None, "the VM is not in the ledger"
            return False
        before = stop_rows.of_subjects(connection, [subject]).get(subject, ())
        if any(record.outcome in stop_rows.OPEN for record in before):
            self.result = None, "it is being stopped already"
            return False
        key = _key(action, before)
        stop_id = stop_rows.add(connection, new_stop(connection, key, action, vm, StopOutcome.INTENDED, now))
        if stop_id is None:
            self.result = None, "it was settled before"
            return False
        audit_log.append(connection, [stop_words.ordered(vm, key, action, now)], now)
        self.case = stop_case.load(connection, subject, stop_id)
        return True


@dataclass(slots=True)
class ResumeStep(LookStep):
    """A stop that is open: closed where the ledger shows that the run is over, and asked again where that is due."""

    stop: StopRecord = field(kw_only=True)

    def intend(self, connection: Connection, now: datetime) -> bool:
        self.case = case = stop_case.load(connection, self.stop.subject, self.stop.id)
        self.result = stop_outcomes.settled(connection, case, now)
        return self.result is None and stop_outcomes.is_to_be_asked(connection, case, now)


@dataclass(slots=True)
class AskStep(StepDefaults):
    """The request to Google. Its intent is the settled look before it; the look has its result."""

    look: LookStep
    case: StopCase
    operation: str = ""
    urgency: Urgency = field(default=Urgency.STOP, init=False)
    begins_with: CallKind = field(default=CallKind.WRITE, init=False)

    @property
    def subject(self) -> str:
        return self.look.subject

    @property
    def project(self) -> str:
        return self.look.project

    @property
    def fresh_s(self) -> float | None:
        return _FRESH_S  # another guard may have taken a keep meanwhile

    def intend(self, connection: Connection, now: datetime) -> bool:  # noqa: ARG002 as all steps have it
        return True

    def call(self) -> None:
        case = self.case
        self.operation = self.look.actuator.stop(*case.address, case.vm.record.key.gce_id, case.stop.request_uuid)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        case = self.case
        if error is None:
            stop_rows.advance(connection, case.stop.id, StopOutcome.ASKED, operation=self.operation)
            self.look.result = StopOutcome.ASKED, f"Google accepted it as operation {self.operation}"
        else:
            began = case.may_have_begun or isinstance(error, CloudUnavailable)
            self.look.result = _troubled(connection, case, error, now, may_have_begun=began)
        return True


def new_stop(
    connection: Connection,
    key: str,
    action: StopInstance,
    vm: KnownInstance,
    outcome: StopOutcome,
    now: datetime,
) -> NewStop:
    return NewStop(
        key=key,
        subject=action.subject,
        rule=action.rule,
        reason=action.reason,
        evidence=action.evidence,
        reminder=action.reminder,
        request_id=action.request.id if action.request is not None else None,
        request_uuid=stop_words.uuid_of(key, action, now),
        outcome=outcome,
        intended_at=now,
        rate=stop_case.rate_of(connection, vm, now),
    )


def _loaded(case: StopCase | None) -> StopCase:
    if case is None:
        raise ValueError("a stop was called before it was intended")
    return case


def _troubled(
    connection: Connection, case: StopCase, error: CloudError, now: datetime, *, may_have_begun: bool
) -> tuple[StopOutcome, str]:
    """Asked again later and later; given up where that is of no use, or was in vain six times."""
    stop = case.stop
    tries, words = stop.tries + 1, str(error)
    if isinstance(error, PermissionDenied | BadAnswer) or tries >= TRIES:
        if may_have_begun:
            words += " An earlier request may still stop it: no answer came to that."
        stop_outcomes.fail(connection, case, words, now)
        return StopOutcome.FAILED, words
    outcome = StopOutcome.UNKNOWN if may_have_begun else StopOutcome.INTENDED
    after = now + _BACKOFF.after(tries)
    stop_rows.advance(connection, stop.id, outcome, stop.operation, words, try_after=after)
    return outcome, words


def _held(connection: Connection, case: StopCase, hold: StopHold, now: datetime) -> tuple[StopOutcome, str]:
    if hold.is_final:
        return stop_outcomes.leave_alone(connection, case, hold.reason, now)
    # Without an error: to wait is no try.
    stop = case.stop
    stop_rows.advance(connection, stop.id, stop.outcome, operation=stop.operation, try_after=now + _AGAIN_SOON)
    return stop.outcome, hold.reason


def _key(action: StopInstance, before: Sequence[StopRecord]) -> str:
    """Of what was not needed once, and is due again in the same cycle, the next of its kind."""
    key = stop_words.key_of(action)
    mine = [record for record in before if record.key == key or record.key.startswith(f"{key}/")]
    if action.request is None and mine and all(record.outcome is StopOutcome.NOT_NEEDED for record in mine):
        return f"{key}/{len(mine) + 1}"
    return key
