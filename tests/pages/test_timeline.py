"""A job's life on a canvas: what stands where."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW

from costguard.jobs.decide.measures.histogram import histogram as counted
from costguard.model.attempt import AgentState, Attempt, AttemptState, Interruption, Notice, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.pages import charts
from costguard.pages.job.timeline import AttemptPhase, Timeline, draw

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
FIRST = NOW - 10 * HOUR
WORKED = Attempt(
    id=1,
    job_id="j1",
    number=1,
    name="cg-j1-1",
    project="lab",
    zone="us-a",
    provisioning_model=ProvisioningModel.SPOT,
    request_uuid="",
    max_run=24 * HOUR,
    state=AttemptState.OVER,
    intended_at=FIRST,
    outcome=Outcome.PREEMPTED,
    ended_at=FIRST + 3 * HOUR,
    agent=AgentState(started_at=FIRST + 10 * MINUTE, run=1),
)
RUNS = replace(
    WORKED,
    id=2,
    number=2,
    zone="us-b",
    state=AttemptState.RUNNING,
    outcome=None,
    ended_at=None,
    intended_at=FIRST + 3 * HOUR,
    agent=AgentState(started_at=FIRST + 4 * HOUR, run=1),
)
CUT = Interruption(
    1, "j1", 1, Outcome.PREEMPTED, FIRST + 3 * HOUR, FIRST + 3 * HOUR, Notice.NOTICE,
    resumed_at=FIRST + 4 * HOUR, lost=30 * MINUTE,
)  # fmt: skip


def drawn(attempts: list[Attempt], cuts: list[Interruption], saved: Any = ()) -> Timeline:
    return draw(attempts, cuts, saved, FIRST, NOW)


def phases(timeline: Timeline) -> list[tuple[int, AttemptPhase, timedelta, timedelta]]:
    return [
        (stretch.attempt, stretch.phase, stretch.since - FIRST, stretch.until - FIRST) for stretch in timeline.stretches
    ]


def test_waiting_working_and_what_was_lost_follow_each_other() -> None:
    """Nothing overlaps, nothing is missing from the launch to now."""
    assert phases(drawn([WORKED, RUNS], [CUT])) == [
        (1, AttemptPhase.WAITING, 0 * HOUR, 10 * MINUTE),
        (1, AttemptPhase.WORKING, 10 * MINUTE, 2.5 * HOUR),
        (1, AttemptPhase.LOST, 2.5 * HOUR, 3 * HOUR),
        (2, AttemptPhase.WAITING, 3 * HOUR, 4 * HOUR),
        (2, AttemptPhase.WORKING, 4 * HOUR, 10 * HOUR),
    ]


def test_each_zone_has_a_lane_and_the_way_leads_from_one_to_the_next() -> None:
    """The way leads from where it was interrupted to where it worked again."""
    made = drawn([WORKED, RUNS], [CUT])
    assert [lane.name for lane in made.lanes] == ["us-a", "us-b"]
    (cut,) = made.interruptions
    works = made.stretches[-1]
    assert cut.to == (works.x, works.y + made.bar / 2)
    assert cut.x < works.x
    assert cut.y < works.y


def test_a_vm_that_is_started_again_stays_in_its_lane() -> None:
    """The rest counts as waiting, and only its last start is known."""
    again = replace(RUNS, id=1, zone="us-a", intended_at=FIRST, restarts=1)
    made = drawn([again], [CUT])
    assert phases(made) == [
        (2, AttemptPhase.WORKING, 0 * HOUR, 2.5 * HOUR),
        (2, AttemptPhase.LOST, 2.5 * HOUR, 3 * HOUR),
        (2, AttemptPhase.WAITING, 3 * HOUR, 4 * HOUR),
        (2, AttemptPhase.WORKING, 4 * HOUR, 10 * HOUR),
    ]
    assert made.interruptions[0].to is not None
    assert made.interruptions[0].to[1] == made.interruptions[0].y


def test_an_attempt_that_never_worked_only_waited() -> None:
    """A stockout is a moment, and still wide enough to be seen."""
    none_left = replace(WORKED, outcome=Outcome.STOCKOUT, ended_at=FIRST + MINUTE, agent=AgentState())
    (stretch,) = drawn([none_left], []).stretches
    assert stretch.phase is AttemptPhase.WAITING
    assert stretch.width >= 0.4


def test_checkpoints_stand_with_whoever_wrote_them() -> None:
    """Checkpoints from before the job are left out."""
    saved = [(FIRST - HOUR, 1), (FIRST + HOUR, 100), (FIRST + 9 * HOUR, None)]
    made = drawn([WORKED, RUNS], [CUT], saved)
    assert [(checkpoint.step, checkpoint.y) for checkpoint in made.checkpoints] == [
        (100, made.stretches[0].y + made.bar / 2),
        (None, made.stretches[-1].y + made.bar / 2),
    ]


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        (5 * MINUTE, ["0", "1 min", "2 min", "3 min", "4 min", "5 min"]),
        (4 * HOUR, ["0", "30 min", "1 h", "1 h 30 min", "2 h", "2 h 30 min", "3 h", "3 h 30 min", "4 h"]),
        (timedelta(days=20), ["0", "4 d", "8 d", "12 d", "16 d", "20 d"]),
        (timedelta(), ["0"]),
    ],
)
def test_time_is_told_since_the_job_was_submitted(span: timedelta, labels: list[str]) -> None:
    """The marks are in round steps, eight at most."""
    made = draw([], [], [], FIRST, FIRST + span)
    assert [tick.label for tick in made.ticks] == labels


def test_places_are_shares_of_the_width_that_there_is() -> None:
    """Places go from 0 to 100 percent, on a phone as on a wide screen; labels at the edges stay within it."""
    made = drawn([WORKED, RUNS], [CUT])
    assert made.stretches[0].x == 0
    assert made.stretches[-1].x + made.stretches[-1].width == 100
    assert (made.ticks[0].anchor, made.ticks[1].anchor, made.ticks[-1].anchor) == ("start", "middle", "end")
    assert [number.is_wide for number in made.numbers] == [True, True]


def test_bars_of_a_histogram_are_as_high_as_what_they_count() -> None:
    """The tallest fills its column; what is empty has no height."""
    assert not charts.histogram("Back", counted([timedelta(seconds=0.4)] * 9 + [timedelta(hours=2)])).is_drawn
    three = counted([timedelta(seconds=0.4), timedelta(minutes=9), timedelta(hours=2)])
    assert charts.histogram("Back", three).is_drawn
    made = charts.histogram("Back", counted([timedelta(seconds=0.4)] * 4 + [timedelta(hours=2)] * 2))
    heights = {bar.label: bar.height for bar in made.bars if bar.count}
    assert heights == {"1 s": made.base - made.top, "more": (made.base - made.top) / 2}
    assert sum(bar.height for bar in made.bars) == sum(heights.values())
    assert (made.median, made.p90) == ("0.4 s", "2 h")
    assert made.words == "Back: 4 up to 1 s, 2 up to more."
