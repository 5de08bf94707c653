"""Reminders of a VM begin at a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at
from tests.reminders.reminded import DAY, DUE, HOUR, REST, STARTED, idle, keep, preset

from costguard.model.reminder import Keep, StorageRule
from costguard.model.utilisation import Evidence, IdleState
from costguard.reminders.ladder import DueMoment, due_of_rest, due_of_run

NOW = at("12:00")
T4 = preset()


def due(evidence: Evidence | None = None, *keeps: Keep, now: datetime = NOW) -> DueMoment:
    result = due_of_run(T4, STARTED, evidence, keeps, now)
    assert result is not None
    return result


def test_the_limit_makes_it_due() -> None:
    """The moment is the start and the limit, whatever was learned later."""
    assert due() == DueMoment(DUE, "past the limit of preset t4 (8 h) by 2 h", DUE)


def test_idleness_makes_it_due_sooner() -> None:
    """The VM is due as soon as the window has shown it, and never later than the limit; it says so."""
    assert due(idle(at("03:00"))).at == at("04:00")
    assert due(idle(at("09:30"))).at == DUE
    assert due(idle(at("03:00")), now=at("05:00")).why == "running for 3 h (limit of preset t4: 8 h), idle for 2 h"


def test_idleness_before_the_run_is_none() -> None:
    """Evidence reaches back to the start at most."""
    assert due(idle(STARTED - DAY)).at == STARTED + HOUR


@pytest.mark.parametrize("state", [IdleState.BUSY, IdleState.UNKNOWN])
def test_what_is_not_known_to_be_idle_changes_nothing(state: IdleState) -> None:
    """Missing figures are no idleness."""
    assert due(replace(idle(at("03:00")), state=state)) == due()


def test_without_an_idle_rule_nobody_asks_about_idleness() -> None:
    """Evidence of a preset that had a rule before counts no more."""
    result = due_of_run(replace(T4, idle=None), STARTED, idle(at("03:00")), (), NOW)
    assert result is not None
    assert result.at == DUE


def test_weak_evidence_is_due_and_not_firm() -> None:
    """Someone is asked by it; what may stop the VM waits for the limit."""
    early = due(idle(at("03:00"), weak=True), now=at("05:00"))
    assert (early.at, early.firm_at, early.is_weak) == (at("04:00"), DUE, True)
    assert not due(idle(at("03:00"), weak=True)).is_weak
    assert due(idle(at("03:00"))).firm_at == at("04:00")


def test_no_limit_is_never_due() -> None:
    """Neither a preset without one, nor one that the settings do not know."""
    assert due_of_run(replace(T4, limit=None), STARTED, idle(STARTED), (), NOW) is None
    assert due_of_run(None, STARTED, None, (), NOW) is None


@given(st.lists(st.integers(0, 200), max_size=4), st.integers(0, 60))
def test_never_within_a_keep(hours: list[int], since: int) -> None:
    """The latest keep holds, firm or not, idle or not."""
    keeps = tuple(keep(STARTED + hour * HOUR) for hour in hours)
    result = due(idle(STARTED + since * HOUR), *keeps)
    assert result.firm_at is not None
    assert all(one.until <= result.at <= result.firm_at for one in keeps)


def test_a_rest_is_due_after_a_while() -> None:
    """Storage of a stopped VM; a keep moves that too, no rule stops it, and the settings may ask for none."""
    result = due_of_rest(StorageRule(), STARTED, (), "stopped", STARTED + 4 * DAY)
    assert result == DueMoment(STARTED + 3 * DAY, "stopped for 4 d, and its storage is billed", None)
    kept = (Keep(REST, STARTED + 9 * DAY, "ana", NOW),)
    assert due_of_rest(StorageRule(), STARTED, kept, "stopped", NOW) == replace(
        result, at=STARTED + 9 * DAY, why="stopped for 10 h, and its storage is billed"
    )
    assert due_of_rest(StorageRule(None), STARTED, (), "stopped", NOW) is None
