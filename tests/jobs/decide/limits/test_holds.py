"""Spent budgets hold jobs: which of them count, what holds, and the words for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.jobs.job_rows import job

from costguard.jobs.decide.limits.holds import BudgetHold, BudgetUse, counts, held, problem, why
from costguard.model.budget import AtLimit, Budget, LabelFilter, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team
from costguard.spend.budget import bounds

HOUR = timedelta(hours=1)
TEAMS = (Team("vision", frozenset({"ada@lab.example"})), Team("speech", frozenset({"bob@lab.example"})))

LABELS = {"experiment": "a"}


def budget(at_limit: AtLimit = AtLimit.REFUSE, period: Period = Period.DAY, **scope: Any) -> Budget:
    return Budget(f"{at_limit.value}-{period.value}", Scope(**scope), Money.of(100), period, at_limit=at_limit)


def standing(setting: Budget, spent: int | str, **given: Any) -> BudgetUse:
    return BudgetUse(setting, Money.of(spent), *bounds(setting.period, NOW), **given)


@pytest.mark.parametrize(
    ("scope", "is_counted"),
    [
        ({}, True),
        ({"project": "lab", "preset": "t4", "owner": "Ada@lab.example", "team": "vision", "job": "j7k2m9q4"}, True),
        ({"label": LabelFilter("experiment", "a")}, True),
        ({"label": LabelFilter("experiment", "")}, False),
        ({"label": LabelFilter("experiment", None)}, False),
        ({"label": LabelFilter("cost-center", None)}, True),
        ({"project": "other"}, False),
        ({"preset": "a100"}, False),
        ({"owner": "bob@lab.example"}, False),
        ({"team": "speech"}, False),
        ({"job": "j0000000"}, False),
        ({"project": "lab", "team": "speech"}, False),
    ],
)
def test_what_counts(scope: dict[str, Any], is_counted: bool) -> None:
    """A job counts against a budget when all parts of the scope are its own."""
    assert counts(replace(budget(), scope=Scope(**scope)), job().spec, "j7k2m9q4", LABELS, TEAMS) is is_counted


def test_a_new_job_is_no_job_of_a_scope() -> None:
    """A job that was not stored yet has no id, and counts against no other job's budget."""
    assert not counts(budget(job="j7k2m9q4"), job().spec, "", LABELS, TEAMS)


def test_only_a_spent_budget_holds() -> None:
    """A budget refuses at its limit; below it, or where it only notifies, nothing is held."""
    assert held([standing(budget(), "99.99"), standing(budget(AtLimit.TELL), 200)], NOW) == BudgetHold()
    result = held([standing(budget(), 100)], NOW)
    assert result.hold == ("budget refuse-day is spent: $100.00 of $100.00 today; the next period begins Sat 00:00 UTC")
    assert (result.pause, result.pause_at) == ("", None)


def test_the_one_that_lasts_longest_is_named() -> None:
    """The budget whose period ends last says when there is money again; Spot VMs stop by their own."""
    day, month = budget(AtLimit.STOP_SPOT, Period.DAY), budget(AtLimit.REFUSE, Period.MONTH)
    result = held([standing(day, 120, reached_at=NOW - HOUR), standing(month, 130)], NOW)
    assert result.hold == why(standing(month, 130), NOW)
    assert "this month; the next period begins Tue 1 Dec 00:00 UTC" in result.hold
    assert result.pause == why(standing(day, 120), NOW)
    assert result.pause_at == NOW - HOUR


def test_what_is_refused_at_once() -> None:
    """A spent budget lets no job in; one that only tells lets every job in."""
    assert problem(standing(budget(AtLimit.TELL), 200), job().spec, Money.of(50), NOW) is None
    reported = problem(standing(budget(), 120), job().spec, None, NOW)
    assert reported is not None
    assert reported.startswith("The budget refuse-day is spent: $120.00 of $100.00 today")
    assert reported.endswith("Launch it then, or have the budget's limit raised.")


@pytest.mark.parametrize(
    ("spent", "cost", "expected", "ceiling", "is_refused"),
    [
        (40, "60", 6 * HOUR, None, False),
        (40, "60.01", 6 * HOUR, None, True),
        (40, None, 6 * HOUR, None, False),  # what it costs is not known
        (40, "120", 24 * HOUR, None, False),  # half of it falls into this day
        (40, "122", 24 * HOUR, None, True),
        (40, "200", 6 * HOUR, "60", False),  # it says itself that it stops there
        (40, "200", 6 * HOUR, "61", True),
    ],
)
def test_what_is_left_must_be_enough(
    spent: int, cost: str | None, expected: timedelta, ceiling: str | None, is_refused: bool
) -> None:
    """A job whose cost is known must fit into what its budgets have left, as far as it falls into their period."""
    spec = job(work=expected, ceiling=None if ceiling is None else Money.of(ceiling)).spec
    reported = problem(standing(budget(), spent), spec, None if cost is None else Money.of(cost), NOW)
    assert (reported is not None) is is_refused
    if reported is not None:
        assert "budget refuse-day has $60.00 of $100.00 left until then" in reported
