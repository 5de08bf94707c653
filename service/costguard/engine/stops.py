"""Stopping VMs: the intent committed before Google is asked, the outcome after, and what is unknown settled later.

INTENDED: it has certainly not begun. UNKNOWN: it may have. ASKED: Google accepted it. All three are open.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.engine import history, stop_words
from costguard.engine.accrual import Accrual
from costguard.engine.answering import is_open, refuse
from costguard.engine.ports import Actuator, Clock
from costguard.engine.still_due import StillDue
from costguard.errors import BadAnswer, CloudError, CloudUnavailable, PermissionDenied, StoreError
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.instance import Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.money import Money, Priced
from costguard.model.observation import OperationStatus, SeenOperation, Sighting
from costguard.model.record import KnownInstance
from costguard.model.reminder import Asked, Enforcement, Request
from costguard.policy.price_book import PriceBook
from costguard.store import answers, facts, ledger, operations, prices, requests, stops
from costguard.store.lease import Lease
from costguard.store.stops import NewStop, Stop
from costguard.store.transaction import Database

log = structlog.get_logger(__name__)

TRIES = 6
_FIRST_WAIT = timedelta(seconds=30)
_LONGEST_WAIT = timedelta(minutes=10)
_AGAIN_SOON = timedelta(seconds=30)
_LONGEST_STOP = timedelta(hours=3)  # a graceful one may take an hour
_SAME_START = timedelta(seconds=10)  # Google writes when a VM started as the operation ends, not at the same instant
_SKEW = timedelta(minutes=1)  # between our clock and Google's
_REST = frozenset({Status.STOPPED, Status.SUSPENDED})
_ANSWERS = frozenset({Asked.KEEP, Asked.CLAIM, Asked.DISOWN})


@dataclass(frozen=True, slots=True)
class _Hold:
    """Why it is not asked of Google now. Final: it is over; else it is looked at again soon."""

    reason: str
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class _Case:
    """A stop with all that the ledger knows about it at this moment."""

    stop: Stop
    vm: KnownInstance
    life: Lifetime | None
    request: Request | None  # the person's who asked for it; None: a rule's

    @property
    def may_have_begun(self) -> bool:
        return self.stop.outcome is not StopOutcome.INTENDED

    @property
    def address(self) -> tuple[str, str]:
        return self.vm.record.key.project, self.vm.record.zone


class Stopping:
    """Every VM is addressed by its numeric id, so that no namesake can be stopped in its place."""

    def __init__(self, database: Database, actuator: Actuator, clock: Clock, still_due: StillDue) -> None:
        self._database = database
        self._actuator = actuator
        self._clock = clock
        self._still_due = still_due

    def order(self, action: StopInstance, fence: Lease | None) -> tuple[StopOutcome | None, str]:
        """What came of it, and why. None: it is under way, or was settled, already."""
        now = self._clock.now()
        with self._database.write(fence) as connection:
            vm = ledger.known(connection, action.subject.instance_id)
            if vm is None:
                return None, "the VM is not in the ledger"
            if any(each.subject == action.subject for each in stops.open_stops(connection)):
                return None, "it is being stopped already"
            key = _key(action, stops.of_subjects(connection, [action.subject]).get(action.subject, ()))
            verb, refused = action.verb, stop_words.no_suspend(vm) if action.verb is Enforcement.SUSPEND else ""
            if refused and action.request is None:
                verb = Enforcement.STOP
            stop_id = stops.add(connection, self._new(connection, key, action, vm, verb, now))
            if stop_id is None:
                return None, "it was settled before"
            facts.append(connection, [stop_words.ordered(vm, key, action, verb, refused, now)], now)
            case = self._case(connection, stop_id)
            if refused and action.request is not None:
                self._fail(connection, case, f"{refused}. Ask to stop it.", now)
                return StopOutcome.FAILED, refused
        return self._attempt(case, fence)

    def settle(self, fence: Lease | None, stop: threading.Event | None = None) -> None:
        """Close what the ledger shows to be over, and ask again where it is not known whether Google was asked."""
        with self._database.read() as connection:
            waiting = [each.id for each in stops.open_stops(connection)]
        for stop_id in waiting:
            if stop is not None and stop.is_set():
                return
            try:
                self._settle(stop_id, fence)
            except StoreError:
                raise
            except Exception:  # one VM's oddity must not keep the others open
                log.exception("stop_not_settled", stop=stop_id)

    def _settle(self, stop_id: int, fence: Lease | None) -> None:
        now = self._clock.now()
        with self._database.write(fence) as connection:
            case = self._case(connection, stop_id)
            again = self._settled(connection, case, now) is None and self._is_to_be_asked(connection, case, now)
        if again:
            self._attempt(case, fence)

    def _new(
        self,
        connection: Connection,
        key: str,
        action: StopInstance,
        vm: KnownInstance,
        verb: Enforcement,
        now: datetime,
    ) -> NewStop:
        return NewStop(
            key=key,
            subject=action.subject,
            verb=verb,
            rule=action.rule,
            reason=action.reason,
            evidence=action.evidence,
            reminder=action.reminder,
            request_id=action.request.id if action.request is not None else None,
            request_uuid=stop_words.uuid_of(key, action),
            outcome=StopOutcome.INTENDED,
            intended_at=now,
            rate=rate_of(connection, vm, now),
        )

    def _case(self, connection: Connection, stop_id: int) -> _Case:
        stop = next(each for each in stops.open_stops(connection) if each.id == stop_id)
        vm = ledger.known(connection, stop.subject.instance_id)
        assert vm is not None  # instances are never deleted, and the stop's row refers to one
        life = next((each for each in vm.lifetimes if each.id == stop.subject.lifetime_id), None)
        asked = requests.of_subject(connection, stop.subject) if stop.request_id is not None else []
        request = next((each.request for each in asked if each.request.id == stop.request_id), None)
        return _Case(stop, vm, life, request)

    # One attempt.

    def _attempt(self, case: _Case, fence: Lease | None) -> tuple[StopOutcome, str]:
        """Look, check once more, ask once. Nothing is held open while Google answers."""
        try:
            sighting = self._actuator.look(*case.address, case.vm.record.name)
        except CloudError as error:
            return self._troubled(case, error, fence, may_have_begun=case.may_have_begun)
        now = self._clock.now()
        with self._database.write(fence) as connection:
            case = self._case(connection, case.stop.id)
            over = self._settled(connection, case, now)
            if over is not None:
                return over
            hold = self._hold(connection, case, sighting, now)
            if hold is not None:
                return self._held(connection, case, hold, now)
            as_stop = case.stop.verb is Enforcement.STOP or self._failed_operation(connection, case) is not None
            # From here on it may have begun, whatever becomes of us.
            stops.advance(connection, case.stop.id, StopOutcome.UNKNOWN, operation=case.stop.operation, try_after=now)
        try:
            operation, instead = self._ask(case, as_stop=as_stop)
        except CloudError as error:
            began = case.may_have_begun or isinstance(error, CloudUnavailable)
            return self._troubled(case, error, fence, may_have_begun=began)
        now = self._clock.now()
        with self._database.write(fence) as connection:
            stops.advance(connection, case.stop.id, StopOutcome.ASKED, operation=operation)
            if instead:
                self._tell(connection, case, "InstanceNotSuspended", instead, now)
        return StopOutcome.ASKED, f"Google accepted it as operation {operation}"

    def _ask(self, case: _Case, *, as_stop: bool) -> tuple[str, str]:
        """The operation, and why a VM that was to be suspended is stopped."""
        where, gce_id, uuid = case.address, case.vm.record.key.gce_id, case.stop.request_uuid
        if case.stop.verb is Enforcement.STOP:
            return self._actuator.stop(*where, gce_id, uuid), ""
        if not as_stop:
            try:
                return self._actuator.suspend(*where, gce_id, uuid), ""
            except BadAnswer as refused:
                if case.request is not None:
                    raise
                why = f"{case.vm.record.name} is stopped, for it cannot be suspended: {refused.message}"
                return self._actuator.stop(*where, gce_id, stop_words.fallen_back(uuid)), why
        why = f"{case.vm.record.name} is stopped, for it could not be suspended."
        return self._actuator.stop(*where, gce_id, stop_words.fallen_back(uuid)), why

    def _hold(self, connection: Connection, case: _Case, sighting: Sighting | None, now: datetime) -> _Hold | None:
        unlike = _unlike(case, sighting)
        if unlike:
            # It may be our own doing; then the ledger will tell at the next look.
            return _Hold(unlike, is_final=not case.may_have_begun)
        subject = case.stop.subject
        kept = answers.keeps_of(connection, [subject]).get(subject, ())
        since = case.request.at if case.request is not None else None
        later = [keep for keep in kept if keep.until > now and (since is None or keep.at > since)]
        if later:
            return _Hold(f"{later[-1].by} keeps it until {later[-1].until.isoformat(timespec='minutes')}")
        if case.request is not None:
            return None
        asked = [each for _, each in requests.open_requests(connection) if each.subject == subject]
        if any(each.asked in _ANSWERS for each in asked):
            return _Hold("somebody has just answered", is_final=False)
        assert sighting is not None  # `_unlike` has told so
        why_not = self._still_due(connection, subject, sighting.labels, now)
        return _Hold(why_not) if why_not else None

    def _held(self, connection: Connection, case: _Case, hold: _Hold, now: datetime) -> tuple[StopOutcome, str]:
        if hold.is_final:
            sentence = f"{case.vm.record.name} is left alone: {hold.reason}."
            if case.request is not None and is_open(connection, case.request):
                refuse(connection, case.request, sentence, now)
            return self._not_needed(connection, case, sentence, now)
        stop = case.stop
        # Without an error: to wait is no try.
        stops.advance(connection, stop.id, stop.outcome, operation=stop.operation, try_after=now + _AGAIN_SOON)
        return stop.outcome, hold.reason

    # What became of it.

    def _settled(self, connection: Connection, case: _Case, now: datetime) -> tuple[StopOutcome, str] | None:
        """Its outcome, where the ledger shows that the run is over."""
        life = case.life
        if life is None or life.ended_at is None:
            return None
        if case.may_have_begun and _is_on_its_way(case, life):
            return None
        if not case.may_have_begun or not _is_our_end(case, life):
            sentence = stop_words.ended_otherwise(case.vm, life)
            self._close_request(connection, case, sentence, now)
            return self._not_needed(connection, case, sentence, now)
        sentence = stop_words.done(case.vm, life, _cost(connection, case, now))
        stops.advance(connection, case.stop.id, StopOutcome.DONE, operation=case.stop.operation, settled_at=now)
        self._close_request(connection, case, sentence, now)
        return StopOutcome.DONE, sentence

    def _is_to_be_asked(self, connection: Connection, case: _Case, now: datetime) -> bool:
        stop = case.stop
        if stop.outcome is not StopOutcome.ASKED:
            return stop.try_after <= now
        failed = self._failed_operation(connection, case)
        if failed is None:
            if now - stop.intended_at > _LONGEST_STOP:
                words = "Google accepted the stop hours ago, and the VM still runs. Look at it in Google's console."
                self._fail(connection, case, words, now)
            return False
        if failed.kind == Enforcement.SUSPEND and case.request is None:
            return True
        self._fail(connection, case, failed.error_message or failed.error_code or "Google gave no words.", now)
        return False

    def _failed_operation(self, connection: Connection, case: _Case) -> SeenOperation | None:
        key = case.vm.record.key
        done = operations.of_targets(connection, key.project, [key.gce_id]).get(key.gce_id, [])
        for each in done:
            if each.operation_id == case.stop.operation and each.status is OperationStatus.DONE and each.error_code:
                return each
        return None

    def _troubled(
        self, case: _Case, error: CloudError, fence: Lease | None, *, may_have_begun: bool
    ) -> tuple[StopOutcome, str]:
        now, stop = self._clock.now(), case.stop
        tries = stop.tries + 1
        log.warning("stop_not_asked", stop=stop.key, tries=tries, error=str(error))
        with self._database.write(fence) as connection:
            if isinstance(error, PermissionDenied | BadAnswer) or tries >= TRIES:
                words = str(error)
                if may_have_begun:
                    words += " An earlier request may still stop it: no answer came to that."
                self._fail(connection, case, words, now)
                return StopOutcome.FAILED, words
            outcome = StopOutcome.UNKNOWN if may_have_begun else StopOutcome.INTENDED
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (tries - 1))
            stops.advance(
                connection, stop.id, outcome, operation=stop.operation, error=str(error), try_after=now + wait
            )
        return outcome, str(error)

    def _not_needed(self, connection: Connection, case: _Case, sentence: str, now: datetime) -> tuple[StopOutcome, str]:
        stops.advance(
            connection,
            case.stop.id,
            StopOutcome.NOT_NEEDED,
            operation=case.stop.operation,
            error=sentence,
            settled_at=now,
        )
        self._tell(connection, case, "InstanceStopNotNeeded", sentence, now)
        return StopOutcome.NOT_NEEDED, sentence

    def _fail(self, connection: Connection, case: _Case, words: str, now: datetime) -> None:
        stops.advance(
            connection, case.stop.id, StopOutcome.FAILED, operation=case.stop.operation, error=words, settled_at=now
        )
        sentence = f"{case.vm.record.name} could not be stopped: {words}"
        self._tell(connection, case, "InstanceStopFailed", sentence, now)
        if case.request is not None and is_open(connection, case.request):
            refuse(connection, case.request, sentence, now)

    def _close_request(self, connection: Connection, case: _Case, sentence: str, now: datetime) -> None:
        if case.request is not None and case.request.id is not None and is_open(connection, case.request):
            requests.settle(connection, case.request.id, "done", sentence, now)

    def _tell(self, connection: Connection, case: _Case, kind: str, text: str, now: datetime) -> None:
        stop, by = case.stop, case.request.by if case.request is not None else ""
        data = {"subject": str(stop.subject), "rule": stop.rule, "reminder": stop.reminder}
        told = stop_words.fact(case.vm, f"{kind}:{stop.key}", text, now, data, by)
        facts.append(connection, [told], now)


def _key(action: StopInstance, before: Sequence[Stop]) -> str:
    """Of what was not needed once, and is due again in the same cycle, the next of its kind."""
    key = stop_words.key_of(action)
    mine = [each for each in before if each.key == key or each.key.startswith(f"{key}/")]
    if action.request is None and mine and all(each.outcome is StopOutcome.NOT_NEEDED for each in mine):
        return f"{key}/{len(mine) + 1}"
    return key


def rate_of(connection: Connection, vm: KnownInstance, now: datetime) -> Money | None:
    """What a stop of it saves an hour: the machine; its storage goes on billing."""
    record = vm.record
    accrual = Accrual(PriceBook(prices.load(connection)), now)
    return accrual.rate(record.shape, record.zone, record.provisioning_model)


def _unlike(case: _Case, sighting: Sighting | None) -> str:
    """How the VM at this address differs from the one that was to be stopped; "" where it does not."""
    if sighting is None:
        return "it is not there any more"
    if sighting.gce_id != case.vm.record.key.gce_id:
        return "another VM has its name now"
    if sighting.status is not Status.RUNNING:
        return f"it is {sighting.status.value.replace('_', ' ')} already"
    starts = [case.life.started_at if case.life is not None else None, case.vm.record.last_started_at]
    known = max((start for start in starts if start is not None), default=None)
    if known is None or (sighting.last_started_at is not None and sighting.last_started_at > known + _SAME_START):
        return "it was started again since"
    return ""


def _is_on_its_way(case: _Case, life: Lifetime) -> bool:
    """It does not run any more, it is not at rest yet, and the operation that says why was not read."""
    record = case.vm.record
    return life.end_reason is EndReason.UNKNOWN and record.status not in _REST and record.gone_at is None


def _is_our_end(case: _Case, life: Lifetime) -> bool:
    """An end by a stop since ours was intended; where no operation tells, the VM is at rest."""
    assert life.ended_at is not None  # the caller asks only about ended ones
    if life.ended_at < case.stop.intended_at - _SKEW:
        return False
    if life.end_reason is EndReason.UNKNOWN:
        return case.vm.record.status in _REST
    return life.end_reason in (EndReason.STOPPED, EndReason.SUSPENDED)


def _cost(connection: Connection, case: _Case, now: datetime) -> Priced:
    accrual = Accrual(PriceBook(prices.load(connection)), now)
    for each in history.lifetimes_of(connection, accrual, case.stop.subject.instance_id):
        if each.stored.id == case.stop.subject.lifetime_id:
            return each.cost
    return Priced(whole=False)
