"""Silence stops a VM."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builders import at
from tests.reminders.reminded import (
    DUE,
    HOUR,
    REST,
    STARTED,
    SUBJECT,
    decided,
    idle,
    planned,
    preset,
    resting,
    rules,
    sent,
    stopping,
    vm,
)

from costguard.model.action import StopInstance, StopOutcome
from costguard.model.reminder import Sent, Target
from costguard.reminders.enforcement import stop_at
from costguard.reminders.ladder import DueMoment, standing_of
from costguard.reminders.watched import WatchedVm

FIRM = DueMoment(DUE, "late", DUE)
RULE = stopping().reminders
THREE = tuple(sent(stage, at(f"{10 + 4 * stage}:00")) for stage in range(3))
NOW = at("19:00")


def stop_of(one: WatchedVm, now: datetime = NOW) -> StopInstance | None:
    result = [action for action in planned(one, now, rules(stopping())).actions if isinstance(action, StopInstance)]
    return result[0] if result else None


def at_for(messages: tuple[Sent, ...], due: DueMoment | None = FIRM, protection: str = "") -> datetime | None:
    return stop_at(RULE, standing_of(messages, 0), due, protection)


def test_the_grace_follows_the_last_reminder_that_counts() -> None:
    """An hour after the third was accepted; later ones move nothing."""
    assert at_for(THREE[:2]) is None
    assert at_for(THREE) == NOW
    assert at_for((*THREE, sent(3, at("22:00")))) == NOW


def test_the_whole_grace_begins_again_after_a_gap() -> None:
    """The answers were impossible while the guard stood still; a gap before the last reminder moves nothing."""
    standing = standing_of(THREE, 0)
    assert stop_at(RULE, standing, FIRM, "", at("18:40")) == at("19:40")
    assert stop_at(RULE, standing, FIRM, "", at("17:00")) == NOW


def test_stages_count_and_not_messages() -> None:
    """A stage to three targets is one warning; one that failed or waits is none."""
    wide = tuple(sent(0, DUE, target) for target in Target)
    assert at_for(wide) is None
    assert at_for((*THREE[:2], sent(2, failed=True))) is None
    assert at_for((*THREE[:2], sent(2))) is None


def test_protected_vms_and_those_only_reminded_of_are_never_stopped() -> None:
    """The VMs are never stopped, whatever was accepted."""
    assert at_for(THREE, protection="label costguard-protect") is None
    assert stop_at(preset().reminders, standing_of(THREE, 0), FIRM, "") is None
    assert at_for(THREE, due=None) is None
    assert at_for(THREE, DueMoment(DUE, "rests", None)) is None


def test_only_reminders_about_this_count() -> None:
    """Reminders from before it was due for good reason said nothing about it."""
    assert at_for(THREE, DueMoment(DUE, "late", at("10:01"))) is None
    assert at_for((*THREE, sent(3, at("22:00"))), DueMoment(DUE, "late", at("10:01"))) == at("23:00")


def test_the_stop_says_why() -> None:
    """Rule, count, since when, the message and the evidence stand in it."""
    result = stop_of(vm(sent=THREE, idle=idle(at("15:00"))))
    assert result is not None
    assert (result.subject, result.due_at, result.started_at) == (SUBJECT, DUE, STARTED)
    assert result.rule == "preset t4: stop after 3 unanswered reminders and 1 h"
    assert result.reminder == THREE[2].key
    assert result.reason == (
        "past the limit of preset t4 (8 h) by 9 h, idle for 4 h; GPU under 5 % for 3 h; "
        "no answer to 3 reminders since Mon 10:00 UTC, the last at Mon 18:00 UTC"
    )
    assert result.evidence["idle"] == {
        "state": "idle",
        "since": "2026-11-02T15:00:00+00:00",
        "sentence": "GPU under 5 % for 3 h",
    }
    decision = decided(vm(sent=THREE), NOW, rules(stopping()))
    assert decision.reason.startswith("is stopped now: past the limit")
    assert decision.stop_at == NOW


def test_not_before_the_grace_is_over() -> None:
    """Until then people read when it will be, and no other reminder comes between."""
    early = NOW - HOUR / 60
    decision = decided(vm(sent=THREE), early, rules(stopping()))
    assert (decision.stop_at, stop_of(vm(sent=THREE), early)) == (NOW, None)
    assert decision.reason.endswith("; it is stopped Mon 19:00 UTC if nobody answers")


def test_weak_evidence_stops_nothing() -> None:
    """Three reminders by CPU and network alone do not; the same by the GPU's own figures do."""
    messages = tuple(sent(stage, at(f"0{4 + stage}:00")) for stage in range(3))
    one = {"sent": messages, "running_since": at("00:00")}
    assert stop_of(vm(idle=idle(at("02:00"), weak=True), **one), at("07:30")) is None
    assert stop_of(vm(idle=idle(at("02:00"), weak=True), **one), at("09:30")) is None
    assert stop_of(vm(idle=idle(at("02:00")), **one), at("07:30")) is not None


def test_idleness_that_ended_is_forgiven() -> None:
    """Reminders of an idle hour do not count once it worked again, not even when it is idle once more."""
    messages = tuple(sent(stage, at(f"0{4 + stage}:00")) for stage in range(3))
    again = vm(sent=messages, idle=idle(at("07:00")))
    assert stop_of(vm(sent=messages, idle=None), at("09:00")) is None
    assert stop_of(again, at("09:00")) is None


@pytest.mark.parametrize("outcome", [*StopOutcome])
def test_a_stop_is_begun_once(outcome: StopOutcome) -> None:
    """A stop that was begun, recorded or failed in this cycle is not begun again; one that proved not needed may be."""
    again = outcome in (StopOutcome.NOT_NEEDED, StopOutcome.DONE)
    assert (stop_of(vm(sent=THREE, stop=outcome)) is not None) is again
    if outcome in (StopOutcome.INTENDED, StopOutcome.ASKED, StopOutcome.UNKNOWN):
        assert decided(vm(sent=THREE, stop=outcome), NOW).reason.endswith("; it is being stopped")


def test_in_shadow_mode_no_message_promises_a_stop() -> None:
    """The stop is planned, to be recorded; what people read says that it does not happen."""
    shadow = rules(stopping(), is_shadow=True)
    assert [type(action) for action in planned(vm(sent=THREE), NOW, shadow).actions] == [StopInstance]
    before, then = (decided(vm(sent=THREE), moment, shadow) for moment in (at("18:30"), NOW))
    assert (before.stop_at, then.stop_at) == (None, None)
    assert "; it would be stopped Mon 19:00 UTC, were it not for shadow mode" in before.reason
    assert then.reason.startswith("would be stopped now, were it not for shadow mode: ")


def test_protection_is_told() -> None:
    """Reminders go on, and say why nothing more happens."""
    decision = decided(vm(labels={"costguard-protect": "nightly-eval"}, sent=THREE), NOW, rules(stopping()))
    assert decision.reason.endswith("; protected by label costguard-protect: nightly-eval; it is only reminded of")
    assert decision.stop_at is None


def test_what_rests_is_not_stopped() -> None:
    """There is nothing left to stop."""
    messages = tuple(Sent(f"{REST}{stage}", 0, stage, Target.OWNER, DUE) for stage in range(3))
    plan = planned(resting(sent=messages), at("2026-12-02T10:00"), rules(stopping()))
    assert not [action for action in plan.actions if isinstance(action, StopInstance)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(Target), st.none() | st.integers(-20, 40), st.booleans())),
    st.integers(1, 4),
    st.integers(0, 5),
    st.integers(0, 60),
)
@example([(0, Target.OWNER, 1, False), (1, Target.OWNER, 0, False)], 2, 1, 1)  # the second accepted before the first
def test_no_stop_without_warnings_and_the_full_grace(
    messages: list[tuple[int, Target, int | None, bool]], stop_after: int, grace: int, now: int
) -> None:
    """A stop needs as many stages as the rule wants, since it is due, and the grace after them, whatever was sent."""
    moment = DUE + now * HOUR
    history = tuple(
        sent(stage, None if hour is None or hour > now else DUE + hour * HOUR, target, failed=failed and hour is None)
        for stage, target, hour, failed in messages
    )
    by = rules(stopping(stop_after=stop_after, grace=grace * HOUR))
    if any(isinstance(action, StopInstance) for action in planned(vm(sent=history), moment, by).actions):
        accepted = {item.stage for item in history if item.accepted_at is not None and item.accepted_at >= DUE}
        assert len(accepted) >= stop_after
        early = {item.stage for item in history if item.accepted_at and item.accepted_at <= moment - grace * HOUR}
        assert len(early) >= stop_after
