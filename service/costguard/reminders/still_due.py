"""The last check before a stop: what a pass would decide about this VM at this moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.ledger.classify import classify
from costguard.model.action import RefuseRequest, StopInstance
from costguard.model.observation import Sighting
from costguard.reminders import gather
from costguard.reminders.stop_case import StopCase
from costguard.reminders.stop_rows import StopRecord
from costguard.reminders.watched import Decision, FleetPlan, WatchedVm, subject_of


@dataclass(frozen=True, slots=True)
class StopHold:
    """Why a stop is not asked of Google now. Final: it is over; else it is checked again soon."""

    reason: str
    is_final: bool = True


class StillDue(Protocol):
    def __call__(self, connection: Connection, case: StopCase, sighting: Sighting, now: datetime, /) -> StopHold | None:
        """Why this stop must not be carried out now; None where it must. `sighting` is of this moment."""
        ...


class ByTheRules:
    """Asks the decision of a pass, with the ledger as it is now and the VM as Google shows it now."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, connection: Connection, case: StopCase, sighting: Sighting, now: datetime) -> StopHold | None:
        stop, rules = case.stop, self._rules
        fleet = gather.gather(connection, rules, now, [stop.subject.instance_id], without_stop=stop.id)
        if not fleet:
            return StopHold("it is gone already")
        presets = tuple(rules.presets.values())
        labels = sighting.labels
        preset = classify(labels, case.vm.record.shape, presets)
        vm = replace(fleet[0], labels=labels, status=sighting.status, preset=preset)
        if subject_of(vm) != stop.subject:
            return StopHold("it does not run any more, or was started again since")
        if stop.request_id is None:
            return _of_rule(stop, gather.decide_about(connection, [vm], rules, now))
        return self._of_request(connection, vm, stop, now)

    def _of_request(self, connection: Connection, vm: WatchedVm, stop: StopRecord, now: datetime) -> StopHold | None:
        """Judged alone: what others ask of the VM is settled by passes, in the order in which it came."""
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
