"""Reports of agents are recorded once, in their order, by the guard's clock, whatever a VM may make of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.jobs.reports.agent_report import MOST_OUTPUT, AgentEvent, AgentUpdate, apply_events
from costguard.model.attempt import AgentState, AttemptState, Exit

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BOOTING, RUNNING = AttemptState.BOOTING, AttemptState.RUNNING


def event(seq: int, kind: str, ago: int = 0, **fields: Any) -> AgentEvent:
    return AgentEvent(seq, kind, NOW - ago * SECOND, {"run": 1, **fields})


def agent(
    *events: AgentEvent, before: AgentState | None = None, state: AttemptState = BOOTING, late: timedelta | None = None
) -> AgentUpdate:
    """Applies events to an agent; the VM's clock is `late` by so much."""
    late = late or timedelta()
    reported = [AgentEvent(item.seq, item.kind, item.at - late, item.fields) for item in events]
    return apply_events(before or AgentState(), state, reported, NOW, NOW - late)


def test_a_number_far_ahead_silences_no_agent() -> None:
    """The agent's next report is heard; after a restored backup its numbers run ahead by less."""
    for number in (2**63 - 1, 1_000_007 + 1):
        planted = agent(event(number, "heartbeat", step=9), before=AgentState(accepted_through=7))
        assert planted.agent.accepted_through == 7
        assert planted.agent.step is None
        assert agent(event(8, "heartbeat", step=3), before=planted.agent).agent.step == 3
    assert agent(event(500_000, "heartbeat", step=9)).agent.step == 9


WHOLE = (
    event(1, "boot", 90),
    event(2, "start", 60, started_at=(NOW - 61 * SECOND).isoformat()),
    event(4, "heartbeat", 45, step=7, step_at=(NOW - 50 * SECOND).isoformat(), output="step 7", machine={"cpu": 0.5}),
    event(5, "notice", 30, what="preemption", value="TRUE"),
    event(6, "stopping", 30, why="preemption", grace_s=22),
    event(7, "exit", 5, reason="exited", code=0, asked="preemption", ended_at=(NOW - 6 * SECOND).isoformat()),
)


def test_a_run_is_heard_from_its_boot_to_its_exit() -> None:
    """Events count in the order of their numbers, however they come; the exit keeps what was reported before it."""
    reported = agent(*reversed(WHOLE))
    assert reported.agent == AgentState(
        at=NOW,
        run=1,
        booted_at=NOW - 90 * SECOND,
        started_at=NOW - 61 * SECOND,
        noticed_at=NOW - 30 * SECOND,
        step=7,
        step_at=NOW - 50 * SECOND,
        machine={"cpu": 0.5},
        output="step 7",
        exit=Exit("exited", NOW - 6 * SECOND, code=0, asked="preemption"),
        accepted_through=7,
    )
    assert (reported.state, reported.is_news) == (None, True)


def test_what_was_told_before_is_passed_over() -> None:
    """A repeat changes nothing but when the agent was heard, and wakes nobody; nor does a heartbeat."""
    first = agent(*WHOLE)
    again = agent(*WHOLE, before=first.agent)
    assert (again.agent, again.is_news, again.started_run) == (first.agent, False, False)
    beat = agent(event(8, "heartbeat", step=7, output=""), before=first.agent)
    assert (beat.is_news, beat.agent.accepted_through, beat.agent.step_at) == (False, 8, first.agent.step_at)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (AttemptState.BOOTING, RUNNING),
        (AttemptState.RESTARTING, RUNNING),
        (AttemptState.ASKED, None),  # its VM's id is to be learnt yet
        (AttemptState.RUNNING, None),
        (AttemptState.ENDING, None),
    ],
)
def test_a_start_makes_it_run(state: AttemptState, expected: AttemptState | None) -> None:
    """A start makes the attempt run where its VM is known; and not when the same report ends the run."""
    assert agent(*WHOLE[:2], state=state).state is expected
    assert agent(*WHOLE, state=state).state is None


def test_the_next_run_begins_anew() -> None:
    """The next run keeps nothing of the run before but the output and the step that it had come to.

    Late reports of that run are ignored.
    """
    before = agent(*WHOLE).agent
    reported = agent(event(8, "boot", 9, run=2), before=before).agent
    assert (reported.run, reported.exit, reported.started_at, reported.noticed_at, reported.step) == (
        2,
        None,
        None,
        None,
        7,
    )
    late = agent(event(9, "exit", run=1, reason="cut_off"), event(10, "start", 8, run=2), before=reported)
    assert (late.agent.exit, late.agent.started_at, late.state) == (None, NOW - 8 * SECOND, RUNNING)
    assert late.agent.step is None


@pytest.mark.parametrize("late", [timedelta(days=-400), timedelta(hours=7)])
def test_a_wrong_clock_on_the_vm_misleads_nobody(late: timedelta) -> None:
    """Moments are given relative to when the VM sent them; none is to come."""
    reported = agent(event(1, "boot", 90), event(2, "notice", -5, what="preemption"), late=late).agent
    assert (reported.booted_at, reported.noticed_at) == (NOW - 90 * SECOND, NOW)


def test_first_words_about_a_run_count() -> None:
    """An agent that crashed between telling and noting it tells start and exit twice."""
    twice = (event(8, "start", 1), event(9, "exit", reason="cut_off"), event(10, "boot", 1))
    assert agent(*WHOLE, *twice).agent.exit == Exit("exited", NOW - 6 * SECOND, code=0, asked="preemption")
    assert agent(*WHOLE, *twice).agent.started_at == NOW - 61 * SECOND


def test_output_is_told_line_by_line() -> None:
    """It is kept as the text that it was."""
    assert agent(event(1, "heartbeat", output=["step 1", "", "step 2"])).agent.output == "step 1\n\nstep 2"
    assert agent(event(1, "heartbeat", output=[])).agent.output == ""


def test_what_is_too_much_is_cut() -> None:
    """The end of a long output is kept, and the machine's figures that fit; numbers that no database holds are none."""
    machine = {
        "cpu": 1,
        "nan": float("nan"),
        "deep": {"er": 1},
        "gpus": [{"index": 0, "more": [1]}, 7],
        "long": "x" * 20_000,
    }
    reported = agent(event(1, "heartbeat", output="é" * 20_000 + "end", machine=machine, step=2**63)).agent
    assert reported.machine == {"cpu": 1, "gpus": [{"index": 0}]}
    assert reported.output.endswith("éend")
    assert len(reported.output.encode()) <= MOST_OUTPUT
    assert reported.step is None


def test_words_of_later_agents_are_passed_over() -> None:
    """Kinds and fields that nobody knows here, and notices of other things; each number is accepted all the same."""
    news = (
        event(1, "dance", steps=3),
        event(2, "notice", what="lunch"),
        AgentEvent(3, "start", NOW),
        event(4, "boot", mood=1),
    )
    reported = agent(*news)
    assert reported.agent == AgentState(at=NOW, run=1, booted_at=NOW, accepted_through=4)


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("2026-11-20T12:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_FIELDS = ("run", "step", "step_at", "output", "machine", "reason", "code", "error", "asked", "ended_at", "started_at")


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from(["start", "exit", "notice"]), st.dictionaries(st.sampled_from(_FIELDS), _JUNK)))
)
def test_whatever_a_vm_says_is_taken(words: list[tuple[str, dict[str, Any]]]) -> None:
    """Nothing of it raises, and all of it is accepted."""
    events = [
        AgentEvent(number, kind, NOW, {"run": 1, **fields}) for number, (kind, fields) in enumerate(words, start=1)
    ]
    assert apply_events(AgentState(), BOOTING, events, NOW, NOW).agent.accepted_through == len(words)


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("10.128.0.7", "10.128.0.7"),
        ("fd20::7", "fd20::7"),
        ("fe80::1%eth0\nEVIL=1", ""),
        ("10.0.0.1; reboot", ""),
        ("node-0", ""),
        ("", ""),
    ],
)
def test_an_address_that_other_vms_are_given_is_one(address: str, kept: str) -> None:
    """An address stands in the environment and the host file of the others, so whatever a VM says is checked."""
    state = agent(event(1, "heartbeat", round=1, address=address, phase="standing_by")).agent
    assert state.internal_address == kept
    assert state.ready_round == (1 if kept else 0)
