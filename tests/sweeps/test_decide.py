"""A sweep launches members, and ends."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import at

from costguard.model.job import JobState
from costguard.model.money import Money, Priced
from costguard.model.sweep import MemberJob, Sweep, SweepMember, SweepState
from costguard.sweeps.ceiling import CeilingUse, Reservation
from costguard.sweeps.decide import MemberView, SweepView, decide

WAITING = None
RATE = Money.of("2")


def view(
    *states: JobState | None, at_once: int = 2, use: CeilingUse | None = None, is_cancelled: bool = False
) -> SweepView:
    """Makes a view with one member for each state; None: it is to be launched yet."""
    members = [_member(number, state) for number, state in enumerate(states, 1)]
    sweep = Sweep(
        id="s1",
        name="lr",
        owner="ada@lab.example",
        project="lab",
        preset="t4",
        at_once=at_once,
        ceiling=use.ceiling if use is not None else None,
        state=SweepState.RUNNING,
        reason="",
        created_at=at("12:00"),
        via="cli",
        cancel_asked_at=at("13:00") if is_cancelled else None,
        cancel_asked_by="ada@lab.example" if is_cancelled else "",
    )
    return SweepView(sweep, members, Priced(use.spent if use is not None else Money.of("3")), use, RATE)


def _member(number: int, state: JobState | None) -> MemberView:
    member = SweepMember(number, {"lr": str(number)}, 1, () if state is None else (f"j{number}",))
    return MemberView(member, None if state is None else MemberJob(f"j{number}", state, "why"))


def test_as_many_as_may_run_at_once_are_launched() -> None:
    """The order is that of their numbers; a member that recovers from a preemption keeps its place."""
    assert decide(view(WAITING, WAITING, WAITING)).launch == (1, 2)
    assert decide(view(JobState.RECOVERING, WAITING, WAITING)).launch == (2,)
    assert decide(view(JobState.RUNNING, JobState.QUEUED, WAITING)).launch == ()


def test_failed_member_makes_room_for_the_next() -> None:
    """A sweep goes on whatever becomes of one member."""
    assert decide(view(JobState.FAILED, WAITING, at_once=1)).launch == (2,)


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ((JobState.SUCCEEDED, JobState.SUCCEEDED), SweepState.SUCCEEDED),
        ((JobState.SUCCEEDED, JobState.FAILED), SweepState.FAILED),
        ((JobState.SUCCEEDED, JobState.CANCELLED), SweepState.SUCCEEDED),
        ((JobState.CANCELLED, JobState.CANCELLED), SweepState.CANCELLED),
        ((JobState.SUCCEEDED, JobState.RUNNING), SweepState.RUNNING),
        ((JobState.SUCCEEDED, WAITING), SweepState.RUNNING),
    ],
)
def test_sweep_is_over_when_no_member_is_left(states: tuple[JobState | None, ...], state: SweepState) -> None:
    """It succeeded where none failed; one that a person cancelled by itself is no failure."""
    assert decide(view(*states)).state is state


def test_reason_names_members_that_failed() -> None:
    """The reason says why, so that nobody has to look for them."""
    assert "failed: member 2 (why)" in decide(view(JobState.SUCCEEDED, JobState.FAILED)).reason


def test_cancelled_sweep_launches_nothing_and_cancels_what_is_open() -> None:
    """The sweep is over once nothing of it runs."""
    decision = decide(view(JobState.RUNNING, JobState.SUCCEEDED, WAITING, is_cancelled=True))
    assert (decision.launch, decision.cancel, decision.state) == ((), ("j1",), SweepState.RUNNING)
    assert (
        decide(view(JobState.CANCELLED, JobState.SUCCEEDED, WAITING, is_cancelled=True)).state is SweepState.CANCELLED
    )


def test_spent_ceiling_launches_nothing_and_ends_the_sweep() -> None:
    """The sweep ends only once nothing runs that could leave something over."""
    spent = CeilingUse(Money.of("10"), Money.of("9.9"))
    over = decide(view(JobState.SUCCEEDED, WAITING, use=spent))
    assert (over.launch, over.state) == ((), SweepState.FAILED)
    assert "its ceiling of $10.00 is spent" in over.reason
    reserved = CeilingUse(Money.of("10"), Money.of("1"), [Reservation("j1", RATE, timedelta(hours=4.5))])
    waits = decide(view(JobState.RUNNING, WAITING, use=reserved))
    assert (waits.launch, waits.state) == ((), SweepState.RUNNING)
    assert "is reserved by those that run" in waits.reason


def test_no_more_are_launched_than_the_ceiling_pays_for() -> None:
    """Each for ten minutes at least: a VM for less would only boot."""
    use = CeilingUse(Money.of("10"), Money.of("9.3"))
    assert decide(view(JobState.SUCCEEDED, WAITING, WAITING, WAITING, at_once=3, use=use)).launch == (2, 3)


STATES = st.sampled_from([None, *JobState])


@given(st.lists(STATES, min_size=1, max_size=8), st.integers(1, 5), st.booleans())
def test_decision_holds_its_limits(states: list[JobState | None], at_once: int, cancelled: bool) -> None:
    """Never more at once than allowed, never a member twice, and over only when nothing is open."""
    decision = decide(view(*states, at_once=at_once, is_cancelled=cancelled))
    opened = sum(state is not None and not state.is_over for state in states)
    assert opened + len(decision.launch) <= max(at_once, opened)
    assert all(states[number - 1] is None for number in decision.launch)
    assert not (decision.state.is_over and opened)
    assert not (cancelled and decision.launch)
    assert decide(view(*states, at_once=at_once, is_cancelled=cancelled)) == decision


def test_cancel_that_comes_after_the_last_success_changes_nothing() -> None:
    """All that was wanted is there."""
    decision = decide(view(JobState.SUCCEEDED, JobState.SUCCEEDED, is_cancelled=True))
    assert decision.state is SweepState.SUCCEEDED
