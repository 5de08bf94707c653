"""A stop with the ledger's knowledge about it, and the last check before it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.ledger import history, lifetimes, operations
from costguard.ledger.accrual import accrual_at
from costguard.ledger.owner import classify
from costguard.model.action import RefuseRequest, StopInstance, StopOutcome
from costguard.model.instance import Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.money import Money, Priced
from costguard.model.observation import OperationStatus, SeenOperation, Sighting
from costguard.model.record import KnownInstance
from costguard.model.reminder import Request, Subject
from costguard.reminders import gather, request_rows, stop_rows
from costguard.reminders.stop_rows import StopRecord
from costguard.reminders.watched import Decision, FleetPlan, WatchedVm, subject_of


@dataclass(frozen=True, slots=True)
class StopHold:
    """The reason why a stop is not asked of Google now. Final: it is over; else it is checked again soon."""

    reason: str
    is_final: bool = True


class StillDue(Protocol):
    def __call__(self, connection: Connection, case: StopCase, sighting: Sighting, now: datetime, /) -> StopHold | None:
        """Explains why this stop must not be carried out now; None where it must. `sighting` is of this moment."""
        ...


class ByTheRules:
    """Asks the decision of a pass, with the ledger as it is now and the VM as Google shows it now."""

    def __init__(self, rules: Rules, answers_since: Callable[[], datetime | None] = lambda: None) -> None:
        self._rules, self._answers_since = rules, answers_since

    def __call__(self, connection: Connection, case: StopCase, sighting: Sighting, now: datetime) -> StopHold | None:
        stop, rules = case.stop, self._rules
        fleet = gather.gather(connection, rules, now, [stop.subject.instance_id], without_stop=stop.id)
        if not fleet:
            return StopHold("it is gone already")
        presets = tuple(rules.presets.values())
        labels, origin = sighting.labels, sighting.origin
        preset = classify(labels, case.vm.record.shape, presets)
        vm = replace(fleet[0], labels=labels, origin=origin, status=sighting.status, preset=preset)
        if subject_of(vm) != stop.subject:
            return StopHold("it does not run any more, or was started again since")
        if stop.request_id is None:
            return _of_rule(stop, gather.decide_about(connection, [vm], rules, now, self._answers_since()))
        return self._of_request(connection, vm, stop, now)

    def _of_request(self, connection: Connection, vm: WatchedVm, stop: StopRecord, now: datetime) -> StopHold | None:
        """Judges the request alone: passes settle other requests for the VM, in the order in which they came."""
        request = next((request for request in vm.requests if request.id == stop.request_id), None)
        if request is None:
            return StopHold("the request for it was settled meanwhile")
        plan = gather.decide_about(connection, [replace(vm, requests=(request,))], self._rules, now)
        (decision,) = plan.decisions
        for action in plan.actions:
            if isinstance(action, StopInstance) and action.request == request:
                return None
            if isinstance(action, RefuseRequest):
                return StopHold(action.reason.rstrip("."))
        # The next pass carries the request out in another way, or knows more.
        return StopHold(_reason(decision), is_final=False)


def _of_rule(stop: StopRecord, plan: FleetPlan) -> StopHold | None:
    """A stop rests on its rule and on the reminder whose grace passed: on others it is decided again."""
    (decision,) = plan.decisions
    stops = [action for action in plan.actions if isinstance(action, StopInstance) and action.request is None]
    if not stops or decision.stop_at is None:  # in shadow mode no moment is set
        return StopHold(_reason(decision), is_final=decision.is_known)
    if (stops[0].rule, stops[0].reminder) != (stop.rule, stop.reminder):
        return StopHold(f"it was decided on by {stop.rule}, and what that rested on has changed; the next pass decides")
    return None


def _reason(decision: Decision) -> str:
    return decision.reason.removeprefix("left alone: ")


_SAME_START = timedelta(seconds=10)  # Google writes when a VM started as the operation ends, not at the same instant
_SKEW = timedelta(minutes=1)  # between our clock and Google's
_REST = frozenset({Status.STOPPED, Status.SUSPENDED})


@dataclass(frozen=True, slots=True)
class StopCase:
    """`request` is the person's who asked for it; None where a rule did."""

    stop: StopRecord
    vm: KnownInstance
    life: Lifetime | None
    request: Request | None

    @property
    def name(self) -> str:
        return self.vm.record.name

    @property
    def may_have_begun(self) -> bool:
        return self.stop.outcome is not StopOutcome.INTENDED

    @property
    def address(self) -> tuple[str, str]:
        return self.vm.record.key.project, self.vm.record.zone


def load(connection: Connection, subject: Subject, stop_id: int) -> StopCase:
    stop = next(record for record in stop_rows.of_subjects(connection, [subject])[subject] if record.id == stop_id)
    vm = lifetimes.known(connection, subject.instance_id)
    assert vm is not None  # instances are never deleted, and the stop's row refers to one
    life = next((lifetime for lifetime in vm.lifetimes if lifetime.id == subject.lifetime_id), None)
    stored = request_rows.of_subject(connection, subject) if stop.request_id is not None else []
    request = next((one.request for one in stored if one.request.id == stop.request_id), None)
    return StopCase(stop, vm, life, request)


def unlike(case: StopCase, sighting: Sighting | None) -> str:
    """Describes how the VM at this address differs from the one that was to be stopped; "" where it does not."""
    if sighting is None:
        return "it is not there any more"
    if sighting.gce_id != case.vm.record.key.gce_id:
        return "another VM has its name now"
    if sighting.status is not Status.RUNNING:
        return f"it is {sighting.status.value.replace('_', ' ')} already"
    starts = [case.life.started_at if case.life is not None else None, case.vm.record.last_started_at]
    last_start = max((start for start in starts if start is not None), default=None)
    if last_start is None or (
        sighting.last_started_at is not None and sighting.last_started_at > last_start + _SAME_START
    ):
        return "it was started again since"
    return ""


def is_on_its_way(case: StopCase, life: Lifetime) -> bool:
    """It is no longer running but not stopped yet, and the operation that says why was not read."""
    record = case.vm.record
    return life.end_reason is EndReason.UNKNOWN and record.status not in _REST and record.gone_at is None


def is_our_end(case: StopCase, life: Lifetime) -> bool:
    """An end by a stop since ours was intended; without an operation, the VM has stopped."""
    if life.ended_at is None or life.ended_at < case.stop.intended_at - _SKEW:
        return False
    if life.end_reason is EndReason.UNKNOWN:
        record = case.vm.record
        # A model that is undeployed is not there any more, and no operation is listed that says so.
        return record.status in _REST or (record.key.kind.is_of_vertex and record.gone_at is not None)
    return life.end_reason in (EndReason.STOPPED, EndReason.SUSPENDED)


def failed_operation(connection: Connection, case: StopCase) -> SeenOperation | None:
    """Returns the operation that Google accepted and then did not do."""
    key = case.vm.record.key
    for operation in operations.of_targets(connection, key.project, [key.gce_id]).get(key.gce_id, []):
        if (
            operation.operation_id == case.stop.operation
            and operation.status is OperationStatus.DONE
            and operation.error_code
        ):
            return operation
    return None


def rate_of(connection: Connection, vm: KnownInstance, now: datetime) -> Money | None:
    """Returns the amount that a stop of it saves an hour: the machine; its storage goes on billing."""
    record = vm.record
    accrual = accrual_at(connection, now)
    return accrual.rate(record.shape, record.zone, record.provisioning_model)


def cost_of(connection: Connection, case: StopCase, now: datetime) -> Priced:
    """Returns the cost of the run that was stopped."""
    accrual = accrual_at(connection, now)
    for lifetime in history.lifetimes_of(connection, accrual, case.stop.subject.instance_id):
        if lifetime.stored.id == case.stop.subject.lifetime_id:
            return lifetime.cost
    return Priced(whole=False)
