"""Tips that were followed: the evidence that counts, the saving, and the calendar of quarters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.builders import at

from costguard.model.lifetime import EndReason
from costguard.model.money import ZERO, Money, Priced
from costguard.spend.tips.quarter import Quarter
from costguard.spend.tips.rules import (
    HintedJob,
    Judged,
    PacedRun,
    RemindedRun,
    Tip,
    TipKind,
    TipOutcome,
    account,
    judge_diagnosis,
    judge_reminder,
    judge_standstill,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = at("12:00") + 10 * DAY
REMINDED = at("12:00")
ANA = "ana@example.com"
ROBOT = "costguard@acme.iam.gserviceaccount.com"


# Quarters.


def test_a_quarter_is_of_the_calendar_of_the_time_zone() -> None:
    """The fourth one of 2026 begins while it is summer in Berlin, two hours before it does in UTC."""
    quarter, berlin = Quarter.parse("2026-Q4"), ZoneInfo("Europe/Berlin")
    assert quarter.begins_at(berlin) == datetime(2026, 9, 30, 22, tzinfo=UTC)
    assert quarter.ends_at(berlin) == datetime(2026, 12, 31, 23, tzinfo=UTC)
    assert quarter.days == (date(2026, 10, 1), date(2026, 12, 31))
    assert Quarter.at(datetime(2026, 9, 30, 22, tzinfo=UTC), berlin) == quarter
    assert Quarter.at(datetime(2026, 9, 30, 21, 59, tzinfo=UTC), berlin) == Quarter(2026, 3)
    assert quarter.next == Quarter(2027, 1)
    assert str(Quarter.parse("2026q1")) == "2026-Q1"


@pytest.mark.parametrize("text", ["2026", "2026-Q5", "Q4-2026", "2026-10"])
def test_what_is_no_quarter_is_refused(text: str) -> None:
    """The error says what to write."""
    with pytest.raises(ValueError, match="write 2026-Q4"):
        Quarter.parse(text)


# Reminders.


def reminded(hours: float | None = 2, **given: Any) -> RemindedRun:
    """A run that a user stopped so many hours after its reminder, at $1.50 an hour."""
    ended_at = None if hours is None else REMINDED + hours * HOUR
    values = {"end_reason": EndReason.STOPPED, "ended_by": ANA, "rate": Money.of("1.5"), **given}
    return RemindedRun([REMINDED], ended_at, **values)


@pytest.mark.parametrize(
    ("run", "outcome", "saved"),
    [
        (reminded(), "followed", "36"),  # 24 hours
        (reminded(ran_again_at=REMINDED + 6 * HOUR), "followed", "6"),  # until it ran again
        (reminded(ended_by=ROBOT, asked_by=ANA), "followed", "36"),  # by a click in Slack
        (reminded(end_reason=EndReason.DELETED), "followed", "36"),
        (reminded(24), "followed", "36"),
        (reminded(24.1), "not_followed", None),
        (reminded(end_reason=EndReason.PREEMPTED), "not_followed", None),
        (reminded(end_reason=EndReason.RUN_TIME_LIMIT), "not_followed", None),
        (reminded(ended_by=ROBOT, by_rule=True), "not_followed", None),
        (reminded(-1), "not_followed", None),  # its message came too late
        (reminded(None), "not_followed", None),  # it runs on
        (reminded(ended_by=ROBOT), "unknown", None),
        (reminded(ended_by=""), "unknown", None),
        (reminded(end_reason=EndReason.GUEST_SHUTDOWN), "unknown", None),
    ],
)
def test_a_reminder_is_followed_where_a_user_stopped_the_vm_within_a_day(
    run: RemindedRun, outcome: str, saved: str | None
) -> None:
    """A stop by a rule or by Google follows nothing; whether one by an unknown account does is not known."""
    judged = judge_reminder(run, NOW)
    assert judged.outcome is TipOutcome(outcome)
    assert judged.saved == (None if saved is None else Priced(Money.of(saved)))


def test_the_last_reminder_before_the_stop_counts() -> None:
    """The first was not followed within a day, the second was; a saving ends now at the latest."""
    run = replace(reminded(30), reminded=[REMINDED, REMINDED + 26 * HOUR, REMINDED + 31 * HOUR])
    judged = judge_reminder(run, REMINDED + 34 * HOUR)
    assert (judged.outcome, judged.saved) == (TipOutcome.FOLLOWED, Priced(Money.of(6)))


def test_a_saving_without_a_price_is_unknown_and_a_fresh_reminder_pends() -> None:
    """Unknown is never zero, and a tip of an hour ago is not given up."""
    judged = judge_reminder(reminded(rate=None), NOW)
    assert judged.saved == Priced(ZERO, whole=False)
    assert judge_reminder(reminded(None), REMINDED + HOUR).outcome is TipOutcome.PENDING


# Standstills.


def hinted(hours: float | None = 2, **given: Any) -> HintedJob:
    """A job whose owner cancelled it so many hours after the hint, at $4 an hour."""
    cancel_at = None if hours is None else REMINDED + hours * HOUR
    values = {"settled_at": cancel_at, "cancel_asked_by": ANA if cancel_at else "", "rate": Money.of(4), **given}
    return HintedJob(REMINDED, cancel_at, **values)


@pytest.mark.parametrize(
    ("job", "outcome", "saved"),
    [
        (hinted(), "followed", "96"),
        (hinted(again_at=REMINDED + 3 * HOUR), "followed", "4"),
        (hinted(rest=5 * HOUR), "followed", "20"),
        (hinted(rest=timedelta()), "followed", "0"),  # it was about to end
        (hinted(settled_at=None), "pending", None),
        (hinted(25), "not_followed", None),
        (hinted(-1), "not_followed", None),  # it was cancelled for another reason
        (hinted(None, settled_at=REMINDED + HOUR), "not_followed", None),
        (hinted(None), "not_followed", None),
    ],
)
def test_a_hint_is_followed_where_a_user_cancelled_the_job_within_a_day(
    job: HintedJob, outcome: str, saved: str | None
) -> None:
    """The saving ends where the training ran again, or would have ended."""
    judged = judge_standstill(job, NOW)
    assert judged.outcome is TipOutcome(outcome)
    assert judged.saved == (None if saved is None else Priced(Money.of(saved)))


# Diagnoses.

BEFORE = PacedRun("j1", "input", Fraction(3_000), Priced(Money.of(90)))
AFTER = PacedRun("j2", "gpu", Fraction(2_000), Priced(Money.of(50)))


def test_a_diagnosis_is_followed_where_the_next_run_waits_no_more_and_costs_less() -> None:
    """The run of $50 would have cost $75 at the old cost of a step."""
    judged = judge_diagnosis("input", BEFORE, AFTER, REMINDED, NOW)
    assert (judged.outcome, judged.saved) == (TipOutcome.FOLLOWED, Priced(Money.of(25)))
    assert judged.evidence == "a step of job j2 costs 33% less"
    partly = replace(AFTER, cost=Priced(Money.of(50), whole=False))
    assert judge_diagnosis("input", BEFORE, partly, REMINDED, NOW).saved == Priced(Money.of(25), whole=False)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (BEFORE, replace(AFTER, bound="input"), "not_followed"),
        (BEFORE, replace(AFTER, step_cost=Fraction(3_000)), "not_followed"),
        (BEFORE, replace(AFTER, step_cost=None), "unknown"),
        (BEFORE, replace(AFTER, bound=None), "unknown"),
        (replace(BEFORE, step_cost=None), AFTER, "unknown"),
        (BEFORE, None, "pending"),
    ],
)
def test_what_does_not_show_that_it_was_followed_saves_nothing(
    before: PacedRun, after: PacedRun | None, outcome: str
) -> None:
    """A run with the same bound, or with dearer steps, followed nothing; without figures nobody knows."""
    judged = judge_diagnosis("input", before, after, REMINDED, NOW)
    assert (judged.outcome, judged.saved) == (TipOutcome(outcome), None)


def test_a_training_that_did_not_run_again_in_time_followed_nothing() -> None:
    """Two weeks are waited for."""
    assert judge_diagnosis("input", BEFORE, None, REMINDED, REMINDED + 15 * DAY).outcome is TipOutcome.NOT_FOLLOWED


# The account.


def tip(kind: TipKind, hours: int, saved: str | None, effect: str, outcome: str = "followed") -> Tip:
    judged = Judged(TipOutcome(outcome), "because", None if saved is None else Priced(Money.of(saved)))
    return Tip(kind, REMINDED + hours * HOUR, f"vm-{hours}", ANA, judged, effect)


def test_one_effect_is_saved_once() -> None:
    """A job's VM was reminded of, and its metric stood still: the later tip has the saving, and both were followed."""
    tips = [
        tip(TipKind.REMINDER, 1, "10", "job:j1"),
        tip(TipKind.STANDSTILL, 2, "12", "job:j1"),
        tip(TipKind.REMINDER, 3, "5", "run:7"),
        tip(TipKind.REMINDER, 4, None, "run:8", "not_followed"),
        tip(TipKind.DIAGNOSIS, 5, None, "", "pending"),
        tip(TipKind.DIAGNOSIS, 6, None, "steps:j3", "unknown"),
    ]
    made = account(tips)
    assert (made.given, made.followed, made.saved) == (6, 3, Priced(Money.of(17)))
    by_kind = {one.kind: one for one in made.counts}
    assert by_kind[TipKind.REMINDER].saved == Priced(Money.of(5))
    assert (by_kind[TipKind.REMINDER].given, by_kind[TipKind.REMINDER].not_followed) == (3, 1)
    assert (by_kind[TipKind.DIAGNOSIS].pending, by_kind[TipKind.DIAGNOSIS].unknown) == (1, 1)
    assert [one.subject for one in made.tips] == ["vm-6", "vm-5", "vm-4", "vm-3", "vm-2", "vm-1"]
    assert made.tips[-1].judged.evidence == "because; its saving is counted with a later tip"


def test_a_quarter_without_tips_has_an_empty_account() -> None:
    """Nothing given, nothing saved."""
    made = account([])
    assert (made.given, made.followed, made.saved) == (0, 0, Priced())
