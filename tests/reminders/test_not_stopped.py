"""The answer to "why was this VM not stopped?", in every case that there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import at
from tests.reminders import reminded
from tests.reminders.reminded import ANA, DUE, HOUR, SUBJECT, stopping, vm

from costguard.access.rules import Protection, Rules
from costguard.model.action import StopOutcome
from costguard.model.instance import Status
from costguard.model.preset import Match, Preset
from costguard.model.reminder import Enforcement, Keep, ReminderRule, Request, RequestKind, Sent, Target
from costguard.model.utilisation import Evidence, IdleState
from costguard.reminders.decide import decide
from costguard.reminders.not_stopped import StopBlocker, StopDiagnosis, why_not_stopped
from costguard.reminders.watched import WatchedVm

RULE = "preset t4: stop after 3 unanswered reminders and 1 h"
LATE = at("13:00")


def _asked(watched: WatchedVm, rules: Rules | None = None, now: Any = LATE, **given: Any) -> StopDiagnosis:
    values = {"measured": None, **given}
    return why_not_stopped(watched, rules or reminded.rules(stopping()), people=reminded.people(), now=now, **values)


def _sent(*accepted: str) -> tuple[Sent, ...]:
    return tuple(Sent(f"r{stage}", 0, stage, Target.OWNER, at(moment)) for stage, moment in enumerate(accepted))


def _request(kind: RequestKind) -> Request:
    return Request("k", kind, SUBJECT, ANA, "", "page", at("12:59"))


@pytest.mark.parametrize(
    ("given", "cause", "said"),
    [
        ({"is_gone": True}, StopBlocker.GONE, "Nothing to stop: it no longer exists."),
        (
            {"status": Status.STOPPED, "running_since": None, "rest_since": at("12:00")},
            StopBlocker.NOT_RUNNING,
            "Nothing to stop: it is already stopped.",
        ),
        (
            {"status": Status.STAGING, "running_since": None},
            StopBlocker.NOT_RUNNING,
            "Nothing to stop: it is staging, not running yet.",
        ),
        ({"status": Status.PENDING_STOP}, StopBlocker.STOPPING, "Not stopped yet: it is shutting down."),
        ({"stop": StopOutcome.ASKED}, StopBlocker.STOPPING, "Not stopped yet: its stop is under way."),
        (
            {"requests": (_request(RequestKind.STOP),)},
            StopBlocker.REQUESTED,
            "Not stopped: ana@example.com asked to stop it, and the next pass carries that out.",
        ),
        (
            {"stop": StopOutcome.FAILED},
            StopBlocker.FAILED,
            "Not stopped: its stop failed; its events say how Google answered.",
        ),
        ({"preset": "other"}, StopBlocker.NO_PRESET, "Not stopped: no rule is set for preset other."),
        (
            {"job": "llama"},
            StopBlocker.JOB,
            f"Not stopped: it works on job llama, which has limits of its own ({RULE}).",
        ),
        (
            {"labels": {"costguard-protect": "nightly-eval"}},
            StopBlocker.PROTECTED,
            f"Not stopped: it is protected by label costguard-protect: nightly-eval ({RULE}).",
        ),
    ],
)
def test_what_the_vm_is_decides_first(given: dict[str, Any], cause: StopBlocker, said: str) -> None:
    """The state, a request, a job or a protection decides: no rule comes into it."""
    result = _asked(vm(**given))
    assert result.cause is cause
    assert result.sentence(LATE) == said


@pytest.mark.parametrize("unread", [{"us-central1-a"}, {"*"}])
def test_vm_in_a_zone_that_was_not_read(unread: set[str]) -> None:
    """Nothing is decided about what nobody saw."""
    result = _asked(vm(unread=frozenset(unread)))
    assert result.cause is StopBlocker.NOT_READ
    assert result.sentence(LATE) == (
        "Not stopped: zone us-central1-a could not be read, so nothing is decided about it."
    )


def test_preset_that_only_reminds() -> None:
    """The most common answer, and what would change it; whether it is late or kept does not matter."""
    keep = Keep(SUBJECT, at("20:00"), ANA, at("12:00"))
    for given in ({}, {"keeps": (keep,)}):
        result = _asked(vm(**given), reminded.rules(reminded.preset()))
        assert result.cause is StopBlocker.REMINDS_ONLY
        assert result.sentence(LATE) == (
            'Not stopped: preset t4 only reminds (presets.t4.when_unanswered = "stop" would change that).'
        )


def test_preset_without_a_limit() -> None:
    """The rule is written down, and never begins."""
    free = Preset("t4", Match(), None, reminders=ReminderRule(enforcement=Enforcement.STOP))
    result = _asked(vm(), reminded.rules(free))
    assert result.cause is StopBlocker.NO_LIMIT
    assert result.sentence(LATE) == (
        "Not stopped: preset t4 sets no limit, so its rule never begins "
        "(preset t4: stop after 3 unanswered reminders and 1 h)."
    )


def test_kept_vm() -> None:
    """The text says by whom, why and until when."""
    keep = Keep(SUBJECT, at("20:00"), ANA, at("12:00"), "long run")
    result = _asked(vm(keeps=(keep,)))
    assert (result.cause, result.at) == (StopBlocker.KEPT, at("20:00"))
    assert result.sentence(LATE) == (
        f"Not stopped: ana@example.com keeps it (long run) ({RULE}); still missing: 3 unanswered reminders and "
        "1 h of grace; the keep ends Mon 20:00 UTC."
    )


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (None, "whether it is idle is not known"),
        (IdleState.UNKNOWN, "whether it is idle is not known"),
        (IdleState.BUSY, "it is busy"),
        (IdleState.IDLE, "it is not known to be idle for long enough"),
    ],
)
def test_vm_within_its_limit(measured: IdleState | None, said: str) -> None:
    """The evidence that there is, what is missing, and when it is due."""
    now = at("09:00")
    evidence = None if measured is None else Evidence(measured, at("08:55"), "GPU under 5 %")
    result = _asked(vm(), now=now, measured=evidence)
    assert (result.cause, result.at) == (StopBlocker.NOT_DUE, DUE)
    assert result.sentence(now) == (
        f"Not stopped: its limit of 8 h has not passed, and {said} ({RULE}); still missing: the limit, "
        "3 unanswered reminders and 1 h of grace; it is due Mon 10:00 UTC."
    )


def test_guard_without_slack() -> None:
    """No reminder can be accepted, so nothing is ever stopped by a rule."""
    result = _asked(vm(), reminded.rules(stopping(), channel=""))
    assert result.cause is StopBlocker.NO_SLACK
    assert "Slack is not set up" in result.sentence(LATE)


def test_weak_evidence_is_not_enough() -> None:
    """Idle by CPU and network alone: reminders go out, and a stop waits for the limit."""
    now = at("08:00")
    weak = reminded.idle(at("05:00"), weak=True)
    result = _asked(vm(idle=weak), now=now, measured=weak)
    assert (result.cause, result.at) == (StopBlocker.WEAK_EVIDENCE, DUE)
    assert result.missing[0] == "firm evidence or the limit"


@pytest.mark.parametrize(
    ("accepted", "count", "left"),
    [((), 0, "3 more unanswered reminders"), (("10:00",), 1, "2 more unanswered reminders")],
)
def test_warnings_that_are_missing(accepted: tuple[str, ...], count: int, left: str) -> None:
    """The text says how many went unanswered, how many are wanted, and when the next one is due."""
    now = at("11:00")
    result = _asked(vm(sent=_sent(*accepted)), now=now)
    assert result.cause is StopBlocker.WARNINGS
    assert result.missing == (left, "1 h of grace")
    assert f"{count} of 3 unanswered reminders have gone without an answer" in result.reason
    assert result.at == (at("14:00") if accepted else now)


def test_warning_that_slack_has_not_accepted() -> None:
    """The text has no moment: it depends on Slack."""
    waits = Sent("r0", 0, 0, Target.OWNER, None)
    result = _asked(vm(sent=(waits,)))
    assert (result.cause, result.step, result.at) == (StopBlocker.WARNINGS, "Slack has to accept the next one", None)


def test_grace_that_is_not_over() -> None:
    """All warnings went out; the moment of the stop is known."""
    result = _asked(vm(sent=_sent("10:00", "11:00", "12:30")))
    assert (result.cause, result.at) == (StopBlocker.GRACE, at("13:30"))
    assert result.sentence(LATE) == (
        f"Not stopped: the grace of 1 h after the last reminder is not over ({RULE}); "
        "if nobody answers, it is stopped Mon 13:30 UTC."
    )


def test_everything_is_there() -> None:
    """The next pass stops it."""
    result = _asked(vm(sent=_sent("10:00", "11:00", "11:30")))
    assert result.cause is StopBlocker.DUE_NOW


def test_shadow_mode_at_the_end_of_the_rule() -> None:
    """Everything is there but the permission; it says how to give it."""
    shadow = reminded.rules(stopping(), is_shadow=True)
    now = _asked(vm(sent=_sent("10:00", "11:00", "11:30")), shadow)
    before = _asked(vm(sent=_sent("10:00", "11:00", "11:30"), stop=StopOutcome.SHADOW), shadow)
    assert [now.cause, before.cause] == [StopBlocker.SHADOW, StopBlocker.SHADOW]
    assert now.sentence(LATE) == (
        f"Not stopped: shadow mode is on, else it would be stopped now ({RULE}); "
        "set enforcement.shadow = false to let rules stop VMs."
    )
    assert "would have been stopped" in before.reason


def test_shadow_mode_before_the_end_of_the_rule() -> None:
    """The first reason stays the first, and shadow mode is named with it."""
    result = _asked(vm(), reminded.rules(stopping(), is_shadow=True), now=at("09:00"))
    assert result.cause is StopBlocker.NOT_DUE
    assert "and shadow mode is on, in which rules stop nothing" in result.reason


def test_answer_agrees_with_what_the_next_pass_does() -> None:
    """The answer is "the next pass stops it" exactly where a pass would stop it, whatever the state."""
    fleets = [
        vm(sent=sent, keeps=keeps, job=job, stop=stop)
        for sent in (_sent(), _sent("10:00"), _sent("10:00", "11:00", "11:30"), _sent("10:00", "11:00", "12:30"))
        for keeps in (
            (),
            (Keep(SUBJECT, at("12:00"), ANA, at("09:30")),),
            (Keep(SUBJECT, at("20:00"), ANA, at("9:30".zfill(5))),),
        )
        for job in ("", "llama")
        for stop in (None, StopOutcome.FAILED)
    ]
    rules = reminded.rules(stopping())
    for fleet in fleets:
        plan = decide([fleet], rules, reminded.people(), LATE)
        stops = [action for action in plan.actions if type(action).__name__ == "StopInstance"]
        assert (_asked(fleet, rules).cause is StopBlocker.DUE_NOW) is bool(stops), fleet


def test_protected_projects_and_names_are_named() -> None:
    """The text says which of the protections it is."""
    rules = replace(reminded.rules(stopping()), protection=Protection(names=("debug-*",)))
    assert _asked(vm(), rules).reason == "it is protected by name debug-*"


def test_moments_are_shown_as_the_view_shows_them() -> None:
    """A page gives its own clock, which follows the viewer's zone."""
    result = _asked(vm(), now=DUE - HOUR)
    assert result.sentence(DUE - HOUR, lambda moment: f"<{moment:%H:%M}>").endswith("; it is due <10:00>.")
    assert result.at == DUE
