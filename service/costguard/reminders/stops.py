"""Stops as steps of the executor: ordered, the VM looked at and checked once more, then called once.

INTENDED: it has certainly not begun. UNKNOWN: it may have. ASKED: Google accepted it. All three are open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions import ending_vms
from costguard.actions.execute import CallKind, Step, StepDefaults, Urgency
from costguard.errors import BadAnswer, CloudError, CloudUnavailable, KeptByAnother, PermissionDenied
from costguard.events import audit_log
from costguard.ledger import lifetimes
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.backoff import Backoff
from costguard.model.keeper import KeeperKind
from costguard.model.observation import Sighting
from costguard.model.ports import Actuator
from costguard.model.record import KnownInstance
from costguard.reminders import request_rows, stop_case, stop_rows
from costguard.reminders.answering import is_open, refuse
from costguard.reminders.stop_case import (
    StillDue,
    StopCase,
    StopHold,
    cost_of,
    failed_operation,
    is_on_its_way,
    is_our_end,
)
from costguard.reminders.stop_rows import NewStop, StopRecord

LONGEST = timedelta(hours=3)  # a graceful one may take an hour


def settled(connection: Connection, case: StopCase, now: datetime) -> tuple[StopOutcome, str] | None:
    """Returns its outcome, where the ledger shows that the run is over."""
    life = case.life
    if life is None or life.ended_at is None or (case.may_have_begun and is_on_its_way(case, life)):
        return None
    if not case.may_have_begun or not is_our_end(case, life):
        sentence = stop_rows.ended_otherwise(case.vm, life)
        _close_request(connection, case, sentence, now)
        return _not_needed(connection, case, sentence, now)
    sentence = stop_rows.done(case.vm, life, cost_of(connection, case, now))
    stop_rows.advance(connection, case.stop.id, StopOutcome.DONE, operation=case.stop.operation, settled_at=now)
    _close_request(connection, case, sentence, now)
    return StopOutcome.DONE, sentence


def is_to_be_asked(connection: Connection, case: StopCase, now: datetime) -> bool:
    """Says whether to ask Google (again). A stop that Google accepted is waited for, and recorded where it failed."""
    stop = case.stop
    if stop.outcome is not StopOutcome.ASKED:
        return stop.try_after <= now
    failed = failed_operation(connection, case)
    if failed is None:
        if now - stop.intended_at > LONGEST:
            kind = case.vm.record.key.kind.in_words
            words = f"Google accepted it hours ago, and the {kind} still runs. Look at it in Google's console."
            fail(connection, case, words, now)
        return False
    fail(connection, case, failed.error_message or failed.error_code or "Google gave no words.", now)
    return False


def leave_alone(connection: Connection, case: StopCase, why: str, now: datetime) -> tuple[StopOutcome, str]:
    """Right before acting, it was not what had been decided about."""
    sentence = f"{case.name} is left alone: {why}."
    if case.request is not None and is_open(connection, case.request):
        refuse(connection, case.request, sentence, now)
    return _not_needed(connection, case, sentence, now)


def fail(connection: Connection, case: StopCase, words: str, now: datetime) -> None:
    """Gives up: the requester is notified, and the VM still counts as running."""
    operation = case.stop.operation
    stop_rows.advance(connection, case.stop.id, StopOutcome.FAILED, operation, words, settled_at=now)
    sentence = f"{case.name} could not be stopped: {words}"
    tell(connection, case, "InstanceStopFailed", sentence, now)
    if case.request is not None and is_open(connection, case.request):
        refuse(connection, case.request, sentence, now)


def tell(connection: Connection, case: StopCase, kind: str, text: str, now: datetime) -> None:
    stop, by = case.stop, case.request.by if case.request is not None else ""
    data = {"subject": str(stop.subject), "rule": stop.rule, "reminder": stop.reminder}
    audit_log.append(connection, [stop_rows.event(case.vm, kind, stop.key, text, now, data, by)], now)


def _not_needed(connection: Connection, case: StopCase, sentence: str, now: datetime) -> tuple[StopOutcome, str]:
    operation = case.stop.operation
    stop_rows.advance(connection, case.stop.id, StopOutcome.NOT_NEEDED, operation, sentence, settled_at=now)
    tell(connection, case, "InstanceStopNotNeeded", sentence, now)
    return StopOutcome.NOT_NEEDED, sentence


def _close_request(connection: Connection, case: StopCase, sentence: str, now: datetime) -> None:
    if case.request is not None:
        request_rows.settle(connection, case.request.id, "done", sentence, now)


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

    fresh_s = None  # a look changes nothing
    actuator: Actuator
    still_due: StillDue
    project: str
    subject: str
    case: StopCase | None = None
    sighting: Sighting | None = None
    result: Result | None = None
    following: Step | None = None
    through: Collection[KeeperKind] = field(default=(), kw_only=True)  # keepers whose own stop the settings allow
    urgency: Urgency = field(default=Urgency.STOP, init=False)

    def call(self) -> None:
        case = _loaded(self.case)
        key = case.vm.record.key
        if key.kind.is_of_vertex:
            self.sighting = self.actuator.look_at_resource(key)
        else:
            self.sighting = self.actuator.look(*case.address, case.name)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        """Every VM is addressed by its numeric id, so that no namesake can be stopped in its place."""
        case, self.following = _loaded(self.case), None
        if error is not None:
            self.result = _troubled(connection, case, error, now, may_have_begun=case.may_have_begun)
            return True
        case = stop_case.load(connection, case.stop.subject, case.stop.id)
        over = settled(connection, case, now)
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
        assert self.sighting is not None  # else it would have been held
        self.following = AskStep(self, case, self.sighting)
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
        audit_log.append(connection, [stop_rows.ordered(vm, key, action, now)], now)
        self.case = stop_case.load(connection, subject, stop_id)
        return True


@dataclass(slots=True)
class ResumeStep(LookStep):
    """A stop that is open: closed where the ledger shows that the run is over, and asked again where that is due."""

    stop: StopRecord = field(kw_only=True)

    def intend(self, connection: Connection, now: datetime) -> bool:
        self.case = case = stop_case.load(connection, self.stop.subject, self.stop.id)
        self.result = settled(connection, case, now)
        return self.result is None and is_to_be_asked(connection, case, now)


@dataclass(slots=True)
class AskStep(StepDefaults):
    """The request to Google. Its intent is the settled look before it; the look has its result."""

    fresh_s = _FRESH_S  # another guard may have taken a keep meanwhile
    look: LookStep
    case: StopCase
    sighting: Sighting  # of the VM that is stopped, by its numeric id
    operation: str = ""
    urgency: Urgency = field(default=Urgency.STOP, init=False)
    begins_with: CallKind = field(default=CallKind.WRITE, init=False)

    @property
    def subject(self) -> str:
        return self.look.subject

    @property
    def project(self) -> str:
        return self.look.project

    def call(self) -> None:
        case = self.case
        address = (*case.address, case.name)
        by_rule, uuid = case.stop.request_id is None, case.stop.request_uuid
        google = self.look.actuator
        own_stops = ending_vms.OwnStops(google, self.look.through)
        self.operation = ending_vms.stop(google, address, self.sighting, uuid, by_rule=by_rule, own_stops=own_stops)

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
        request_uuid=stop_rows.uuid_of(key, action, now),
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
    """Asks again later and later; gives up where that is of no use, or was in vain six times."""
    stop = case.stop
    tries, words = stop.tries + 1, str(error)
    if isinstance(error, PermissionDenied | BadAnswer | KeptByAnother) or tries >= TRIES:
        if may_have_begun:
            words += " An earlier request may still stop it: no answer came to that."
        fail(connection, case, words, now)
        return StopOutcome.FAILED, words
    outcome = StopOutcome.UNKNOWN if may_have_begun else StopOutcome.INTENDED
    after = now + _BACKOFF.after(tries)
    stop_rows.advance(connection, stop.id, outcome, stop.operation, words, try_after=after)
    return outcome, words


def _held(connection: Connection, case: StopCase, hold: StopHold, now: datetime) -> tuple[StopOutcome, str]:
    if hold.is_final:
        return leave_alone(connection, case, hold.reason, now)
    # Without an error: to wait is no try.
    stop = case.stop
    stop_rows.advance(connection, stop.id, stop.outcome, operation=stop.operation, try_after=now + _AGAIN_SOON)
    return stop.outcome, hold.reason


def _key(action: StopInstance, before: Sequence[StopRecord]) -> str:
    """Returns the stop's key: for one that was not needed once, and is due again in the same cycle, the next of its
    kind.
    """
    key = stop_rows.key_of(action)
    mine = [record for record in before if record.key == key or record.key.startswith(f"{key}/")]
    if action.request is None and mine and all(record.outcome is StopOutcome.NOT_NEEDED for record in mine):
        return f"{key}/{len(mine) + 1}"
    return key
