"""Tests how much work is left of what an owner expects, in jobs of several VMs whose rounds had different numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.builders import at
from tests.jobs.jobbed import HOUR, NOW, agent, attempt, job

from costguard.jobs.decide.measures.work_left import work_left
from costguard.jobs.decide.view import AttemptView, JobView
from costguard.model.attempt import GangRound
from costguard.model.job import JobState, SeenCheckpoint


def over(number: int, began: str, ended: str, vms: int | None, lost: timedelta | None = None) -> GangRound:
    return GangRound(number, at(began), at(ended), at(began), lost=lost, vms=vms)


def gang(*rounds: GangRound, vms: int, since: datetime | None, work_h: float = 10) -> JobView:
    """Shows a gang of 2 to 4 VMs, so many of which run since then in the round after these; None: they begin."""
    present = len(rounds) + 1
    said = replace(agent(), started_at=since)
    members = [
        AttemptView(attempt(number=number, node=number, formation=1, round=present, agent=said))
        for number in range(1, vms + 1)
    ]
    elastic = job(JobState.RUNNING, nodes=4, least_nodes=2, work=work_h * HOUR)
    return JobView(elastic, tuple(members), rounds=rounds)


def hours_left(view: JobView) -> float:
    left = work_left(view, NOW)
    assert left is not None
    return left.likely / HOUR


def test_each_round_counts_at_its_own_number_of_vms() -> None:
    """Two hours of four VMs and an hour of two are two and a half of four; what is left takes two VMs twice as long."""
    two = gang(over(1, "09:00", "11:00", 4), vms=2, since=at("11:00"))
    assert hours_left(two) == pytest.approx((10 - 2 - 0.5) * 2)
    four = gang(over(1, "09:00", "11:00", 2), vms=4, since=at("11:00"))
    assert hours_left(four) == pytest.approx(10 - 1 - 1)


def test_lost_work_counts_in_the_round_that_did_it() -> None:
    """An hour that four VMs lost is not one of two; what a round lost beyond its own is of the rounds before it."""
    lost = gang(over(1, "09:00", "11:00", 4, lost=HOUR), vms=2, since=at("11:00"))
    assert hours_left(lost) == pytest.approx((10 - 1 - 0.5) * 2)
    more = gang(over(1, "08:00", "10:00", 4), over(2, "10:00", "11:00", 2, lost=2 * HOUR), vms=4, since=at("11:00"))
    assert hours_left(more) == pytest.approx(10 - 1 - 1)


def test_work_that_will_be_done_again_counts_in_the_round_that_did_it() -> None:
    """The last round saved after an hour of two, and the next has not begun."""
    view = gang(over(1, "08:00", "10:00", 2), vms=4, since=None)
    seen = SeenCheckpoint(NOW, step=1, written_at=at("09:00"), resume_from="gs://runs/one/1")
    ended = replace(view.attempts[-1].attempt, agent=replace(agent(), started_at=None))
    view = replace(view, checkpoint=seen, attempts=(*view.attempts[:-1], AttemptView(ended)))
    assert hours_left(view) == pytest.approx(10 - 1 + 0.5)


def test_a_round_that_is_recorded_is_not_counted_again_before_its_agents_begin_the_next() -> None:
    """Until they do, they still say since when they ran it."""
    view = gang(over(1, "09:00", "11:00", 4), vms=4, since=at("09:00"))
    members = [AttemptView(replace(seen.attempt, round=1)) for seen in view.attempts]
    assert hours_left(replace(view, attempts=tuple(members))) == pytest.approx(8)


def test_a_round_of_an_earlier_version_counts_at_the_present_number() -> None:
    """It was not recorded how many VMs ran it."""
    view = gang(over(1, "09:00", "11:00", None), vms=2, since=at("11:00"))
    assert hours_left(view) == pytest.approx((10 - 1 - 0.5) * 2)
