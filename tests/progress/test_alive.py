"""A training is judged alive: tests against its own gaps, and against simulated days."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.progress.alive_days import LOOK_S, Habits, Span, hangs_in_a_day, looks, training

from costguard_vm.progress.alive import COMPUTING, LEAST_S, PRINTING, STILL, AliveRule, Gaps, HangVerdict, Signs


def found_in(spans: Iterator[Span], hours: float, has_gpu: bool = False) -> tuple[float, HangVerdict] | None:
    """When the rule spoke, in seconds, and what it said."""
    rule = AliveRule()
    for signs in looks(spans, random.Random(7), has_gpu, hours * 3600):
        hang = rule.look(signs)
        if hang is not None:
            return signs.at, hang
    return None


def steps(count: int, seconds: float, then: Span) -> Iterator[Span]:
    yield Span(60)
    for _ in range(count):
        yield Span(seconds, ends_step=True)
    while True:
        yield then


def test_the_99th_percentile_and_the_longest_gap_bound_a_silence() -> None:
    """The 99th percentile of 1, 2, ... 200 is 198; the longest is remembered when it is no longer among the last."""
    gaps = Gaps()
    for gap in range(1, 201):
        gaps.add(gap)
    assert gaps.percentile(0.99) == 198
    for _ in range(2000):
        gaps.add(1.0)
    assert (gaps.percentile(0.99), gaps.longest) == (1.0, 200)


def test_a_training_that_stands_still_is_found_after_five_minutes() -> None:
    """The steps come every 4 s, and then nothing moves."""
    spoken = found_in(steps(200, 4, Span(3600, cores=0.0)), 3)
    assert spoken is not None
    at, hang = spoken
    assert hang.kind == STILL
    assert hang.bound_s == LEAST_S
    assert LEAST_S <= hang.silent_s <= LEAST_S + 2 * LOOK_S
    assert 60 + 200 * 4 + LEAST_S <= at <= 60 + 200 * 4 + LEAST_S + 3 * LOOK_S


def test_slow_steps_that_wait_get_a_longer_bound() -> None:
    """Steps of ten minutes in which nothing moves, as of work done elsewhere: 8 times their 99th percentile pass."""

    def spans() -> Iterator[Span]:
        for _ in range(12):
            yield Span(590, cores=0.0)
            yield Span(10, ends_step=True)
        yield Span(86400, cores=0.0)

    spoken = found_in(spans(), 10)
    assert spoken is not None
    assert spoken[1].kind == STILL
    assert 8 * 595 <= spoken[1].bound_s <= 8 * 620


def test_slow_steps_that_compute_may_not_stand_still() -> None:
    """Epochs of ten minutes that compute all the time, as those of this training always did."""
    spoken = found_in(steps(12, 600, Span(36000, cores=0.0)), 10)
    assert spoken is not None
    assert spoken[1].bound_s == LEAST_S


def test_an_endless_loop_is_found_later_than_a_standstill() -> None:
    """It may be an evaluation that prints nothing, so that it gets 20 minutes."""
    spoken = found_in(steps(200, 4, Span(36000, cores=1.0)), 3)
    assert spoken is not None
    assert spoken[1].kind == COMPUTING
    assert spoken[1].bound_s == 4 * LEAST_S


def test_a_loop_of_warnings_is_found_after_an_hour() -> None:
    """Output without a step is progress only for an hour."""
    spoken = found_in(steps(200, 4, Span(36000, cores=1.0, prints=True)), 3)
    assert spoken is not None
    assert spoken[1].kind == PRINTING
    assert spoken[1].bound_s == 12 * LEAST_S


@pytest.mark.parametrize(
    "life",
    [
        Span(1500, cores=2.0, prints=True, is_evaluation=True),
        Span(1500, cores=0.2, writes=True),
        Span(900, cores=2.0),
    ],
)
def test_evaluations_and_saves_are_no_hangs(life: Span) -> None:
    """25 minutes of evaluation with a bar, 25 of saving, or 15 of silent computing, after steps of 4 s."""

    def spans() -> Iterator[Span]:
        yield from (Span(4, ends_step=True) for _ in range(300))
        yield life
        while True:
            yield Span(4, ends_step=True)

    assert found_in(spans(), 4) is None


def test_a_command_that_prints_no_steps_is_found_only_where_it_stands_still() -> None:
    """The progress is unknown while it computes; half an hour without any life says something."""
    assert found_in(iter([Span(86400, cores=1.0)]), 20) is None
    spoken = found_in(iter([Span(600, cores=1.0), Span(86400, cores=0.0)]), 20)
    assert spoken is not None
    assert spoken[1].kind == STILL
    assert spoken[1].bound_s == 6 * LEAST_S


def test_a_hang_ends_with_the_next_step_and_is_learned() -> None:
    """The gap of a hang belongs to its gaps: the same silence again is no hang."""
    rule = AliveRule()
    at = 0.0
    for step in range(50):
        at += 15
        assert rule.look(Signs(at, (float(step),), cpu_s=at, printed=step)) is None
    cpu = at
    spoke = []
    for _ in range(100):
        at += 15
        spoke.append(rule.look(Signs(at, (49.0,), cpu_s=cpu, printed=49)))
    assert spoke[-1] is not None
    assert spoke[-1].usual_s == 15
    assert rule.look(Signs(at + 15, (50.0,), cpu_s=cpu, printed=50)) is None
    at += 15
    for _ in range(100):
        at += 15
        assert rule.look(Signs(at, (50.0,), cpu_s=cpu, printed=50)) is None


def test_what_cannot_be_read_is_not_still() -> None:
    """A silent training may compute without figures of processors and GPUs: it gets the longer bound."""
    rule = AliveRule()
    for step in range(50):
        rule.look(Signs(15.0 * step, (float(step),), printed=step))
    first = next(at for at in range(750, 9000, 15) if rule.look(Signs(float(at), (49.0,), printed=49)) is not None)
    assert first - 735 == 4 * LEAST_S


def test_days_of_training_raise_no_alarm() -> None:
    """Twelve of the thousand days of `make alive`."""
    assert [hangs_in_a_day(seed) for seed in range(12)] == [[]] * 12


def test_simulated_days_would_catch_a_rule_without_phases() -> None:
    """The steps of most of them are apart for longer than 5 minutes and 8 times their 99th percentile: the days prove
    something.
    """
    own = Habits(4.0, 0.1, 500, 700, 900.0, True, 900, 400.0, 0.0, 60.0, False)
    gap, longest = 0.0, 0.0
    spans = training(own, random.Random(1))
    for _ in range(3000):
        span = next(spans)
        gap += span.seconds
        if span.ends_step:
            longest, gap = max(longest, gap), 0.0
    assert longest > 600
