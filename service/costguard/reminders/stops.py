"""Stopping VMs: the intent committed before Google is asked, the outcome after, and what is unknown settled later.

INTENDED: it has certainly not begun. UNKNOWN: it may have. ASKED: Google accepted it. All three are open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import BadAnswer, CloudError, CloudUnavailable, PermissionDenied, StoreError
from costguard.events import facts
from costguard.ledger import lifetimes
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.observation import Sighting
from costguard.model.ports import Actuator, Clock
from costguard.model.record import KnownInstance
from costguard.model.reminder import Subject
from costguard.reminders import stop_case, stop_outcomes, stop_rows, stop_words
from costguard.reminders.still_due import Hold, StillDue
from costguard.reminders.stop_case import Case
from costguard.reminders.stop_rows import NewStop, Stop

_FROZEN_S = 5.0  # so long after its last look, what a stop rests on may be over

log = structlog.get_logger(__name__)

TRIES = 6
_FIRST_WAIT = timedelta(seconds=30)
_LONGEST_WAIT = timedelta(minutes=10)
_AGAIN_SOON = timedelta(seconds=30)


class Stopping:
    """Every VM is addressed by its numeric id, so that no namesake can be stopped in its place."""

    def __init__(
        self,
        database: Database,
        actuator: Actuator,
        clock: Clock,
        still_due: StillDue,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._database = database
        self._actuator = actuator
        self._clock = clock
        self._still_due = still_due

    def order(self, action: StopInstance, fence: Lease | None) -> tuple[StopOutcome | None, str]:
        """What came of it, and why. None: it is under way, or was settled, already."""
        now, subject = self._clock.now(), action.subject
        with self._database.write(fence) as connection:
            vm = lifetimes.known(connection, subject.instance_id)
            if vm is None:
                return None, "the VM is not in the ledger"
            before = stop_rows.of_subjects(connection, [subject]).get(subject, ())
            if any(each.outcome in stop_rows.OPEN for each in before):
                return None, "it is being stopped already"
            key = _key(action, before)
            new = new_stop(connection, key, action, vm, StopOutcome.INTENDED, now)
            stop_id = stop_rows.add(connection, new)
            if stop_id is None:
                return None, "it was settled before"
            facts.append(connection, [stop_words.ordered(vm, key, action, now)], now)
            case = stop_case.load(connection, subject, stop_id)
        return self._attempt(case, fence)

    def settle(self, fence: Lease | None, stop: threading.Event | None = None) -> None:
        """Close what the ledger shows to be over, and ask again where it is not known whether Google was asked."""
        with self._database.read() as connection:
            waiting = [(each.subject, each.id) for each in stop_rows.open_stops(connection)]
        for subject, stop_id in waiting:
            if stop is not None and stop.is_set():
                return
            try:
                self._settle(subject, stop_id, fence)
            except StoreError:
                raise
            except Exception:  # one VM's oddity must not keep the others open
                log.exception("stop_not_settled", subject=str(subject))

    def _settle(self, subject: Subject, stop_id: int, fence: Lease | None) -> None:
        now = self._clock.now()
        with self._database.write(fence) as connection:
            case = stop_case.load(connection, subject, stop_id)
            over = stop_outcomes.settled(connection, case, now)
            again = over is None and stop_outcomes.is_to_be_asked(connection, case, now)
        if again:
            self._attempt(case, fence)

    def _attempt(self, case: Case, fence: Lease | None) -> tuple[StopOutcome, str]:
        """Look, check once more, ask once. Nothing is held open while Google answers."""
        try:
            sighting = self._actuator.look(*case.address, case.name)
        except CloudError as error:
            return self._troubled(case, error, fence, may_have_begun=case.may_have_begun)
        now = self._clock.now()
        with self._database.write(fence) as connection:
            claimed_s = self._monotonic()
            case = stop_case.load(connection, case.stop.subject, case.stop.id)
            over = stop_outcomes.settled(connection, case, now)
            if over is not None:
                return over
            hold = self._hold(connection, case, sighting, now)
            if hold is not None:
                return _held(connection, case, hold, now)
            # From here on it may have begun, whatever becomes of us.
            stop_rows.advance(
                connection, case.stop.id, StopOutcome.UNKNOWN, operation=case.stop.operation, try_after=now
            )
        if self._monotonic() - claimed_s > _FROZEN_S or not (fence is None or fence.is_certain):
            # Another guard may have taken a keep meanwhile. The next look settles it like any other doubt.
            return StopOutcome.UNKNOWN, "this process stood still right before it was to ask Google"
        try:
            operation = self._actuator.stop(*case.address, case.vm.record.key.gce_id, case.stop.request_uuid)
        except CloudError as error:
            began = case.may_have_begun or isinstance(error, CloudUnavailable)
            return self._troubled(case, error, fence, may_have_begun=began)
        now = self._clock.now()
        with self._database.write(fence) as connection:
            stop_rows.advance(connection, case.stop.id, StopOutcome.ASKED, operation=operation)
        return StopOutcome.ASKED, f"Google accepted it as operation {operation}"

    def _hold(self, connection: Connection, case: Case, sighting: Sighting | None, now: datetime) -> Hold | None:
        changed = stop_case.unlike(case, sighting)
        if changed or sighting is None:
            # It may be our own doing; then the ledger will tell at the next look.
            return Hold(changed, is_final=not case.may_have_begun)
        return self._still_due(connection, case, sighting, now)

    def _troubled(
        self, case: Case, error: CloudError, fence: Lease | None, *, may_have_begun: bool
    ) -> tuple[StopOutcome, str]:
        """Asked again later and later; given up where that is of no use, or was in vain six times."""
        now, stop = self._clock.now(), case.stop
        tries, words = stop.tries + 1, str(error)
        log.warning("stop_not_asked", stop=stop.key, tries=tries, error=words)
        with self._database.write(fence) as connection:
            if isinstance(error, PermissionDenied | BadAnswer) or tries >= TRIES:
                if may_have_begun:
                    words += " An earlier request may still stop it: no answer came to that."
                stop_outcomes.fail(connection, case, words, now)
                return StopOutcome.FAILED, words
            outcome = StopOutcome.UNKNOWN if may_have_begun else StopOutcome.INTENDED
            after = now + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (tries - 1))
            stop_rows.advance(connection, stop.id, outcome, stop.operation, words, try_after=after)
        return outcome, words


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


def _held(connection: Connection, case: Case, hold: Hold, now: datetime) -> tuple[StopOutcome, str]:
    if hold.is_final:
        return stop_outcomes.leave_alone(connection, case, hold.reason, now)
    # Without an error: to wait is no try.
    stop = case.stop
    stop_rows.advance(connection, stop.id, stop.outcome, operation=stop.operation, try_after=now + _AGAIN_SOON)
    return stop.outcome, hold.reason


def _key(action: StopInstance, before: Sequence[Stop]) -> str:
    """Of what was not needed once, and is due again in the same cycle, the next of its kind."""
    key = stop_words.key_of(action)
    mine = [each for each in before if each.key == key or each.key.startswith(f"{key}/")]
    if action.request is None and mine and all(each.outcome is StopOutcome.NOT_NEEDED for each in mine):
        return f"{key}/{len(mine) + 1}"
    return key
