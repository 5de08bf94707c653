"""A VM that works on a job is its job's to end: no rule stops it, and who stops it cancels the job."""

from __future__ import annotations

import pytest
from tests.builders import at
from tests.reminders.reminded import ANA, DUE, asked, decided, planned, rules, sent, stopping, vm

from costguard.model.action import CancelJob, RefuseRequest, StopInstance
from costguard.model.reminder import Enforcement, RequestKind

WARNED = tuple(sent(stage, at(f"{10 + 4 * stage}:00")) for stage in range(3))
NOW = at("19:00")


def test_no_rule_stops_a_vm_that_works_on_a_job() -> None:
    """It is reminded of as any other, and it says why it goes on; without a job it would be stopped now."""
    busy = vm(sent=WARNED, job="j7k2m9q4")
    assert any(isinstance(action, StopInstance) for action in planned(vm(sent=WARNED), NOW, rules(stopping())).actions)
    assert not any(isinstance(action, StopInstance) for action in planned(busy, NOW, rules(stopping())).actions)
    decision = decided(busy, NOW, rules(stopping()))
    assert decision.reason.endswith("; job j7k2m9q4, which it works on, has its own limits; it is only reminded of")
    assert decision.stop_at is None


@pytest.mark.parametrize("enforcement", list(Enforcement))
def test_who_stops_it_cancels_its_job(enforcement: Enforcement) -> None:
    """The job would start another one in its place otherwise."""
    one = vm(job="j7k2m9q4", requests=(asked(RequestKind.STOP, reason="wrong data"),))
    plan = planned(one, DUE, rules(stopping(enforcement=enforcement)))
    (action,) = plan.actions
    assert isinstance(action, CancelJob)
    assert (action.job, action.request.by) == ("j7k2m9q4", ANA)
    assert plan.decisions[0].reason == (
        f"asked for in Slack by {ANA}, so job j7k2m9q4 is cancelled; its command gets time to save first: wrong data"
    )


def test_those_who_may_not_stop_it_may_not_cancel_its_job() -> None:
    """The same people may do both."""
    stranger = vm(job="j7k2m9q4", requests=(asked(RequestKind.STOP, by="eve@example.com"),))
    assert any(isinstance(action, RefuseRequest) for action in planned(stranger, DUE).actions)
    assert not any(isinstance(action, CancelJob) for action in planned(stranger, DUE).actions)
