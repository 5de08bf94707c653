"""Days of simulated trainings, look by look, for the rule that tells hangs.

What a training does is a list of spans, each with its life: how many processors it uses, whether it prints or writes.
Steps have long-tailed gaps; evaluations print a bar or nothing at all; saves write; epochs begin with still seconds,
while loaders start; storage stalls for minutes; a curriculum makes steps slower. Where the recorded loss curves are at
hand, a part of the days has the gaps between evaluations of real MLPerf runs, which print nothing in between.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costguard_vm.progress.alive import AliveRule, HangVerdict, Signs

DAY_S = 86_400.0
LOOK_S = 15.0


@dataclass(frozen=True)
class Span:
    """`ends_step`: at its end a step is printed."""

    seconds: float
    cores: float = 2.0
    prints: bool = False
    writes: bool = False
    is_evaluation: bool = False
    ends_step: bool = False


@dataclass(frozen=True)
class Habits:
    """The habits of one training, in seconds."""

    step: float
    jitter: float
    epoch_steps: int
    evaluation_every: int
    evaluation: float
    evaluation_prints: bool
    save_every: int
    save: float
    stall_chance: float
    loading: float
    has_gpu: bool


def habits(chance: random.Random) -> Habits:
    step = 10 ** chance.uniform(-1, 2.3)  # 0.1 s to 200 s from one printed step to the next
    prints = chance.random() < 0.6
    return Habits(
        step=step,
        jitter=chance.uniform(0.03, 0.5),
        epoch_steps=max(3, int(10 ** chance.uniform(2.5, 4.5) / step)),
        evaluation_every=max(2, int(10 ** chance.uniform(2.8, 4.3) / step)),
        evaluation=10 ** chance.uniform(1, 3.4) if prints else 10 ** chance.uniform(1, 2.95),
        evaluation_prints=prints,
        save_every=max(2, int(10 ** chance.uniform(2.8, 4.3) / step)),
        save=10 ** chance.uniform(0, 2.9),
        stall_chance=10 ** chance.uniform(-6, -4),
        loading=10 ** chance.uniform(1, 3.2),
        has_gpu=chance.random() < 0.7,
    )


def training(own: Habits, chance: random.Random) -> Iterator[Span]:
    """Yields spans without end."""
    yield Span(own.loading * 0.3, cores=chance.choice([0.1, 1.0]), prints=True)
    yield Span(own.loading * 0.7, cores=chance.choice([0.1, 1.0, 4.0]))
    slower = 1.0
    step = 0
    while True:
        step += 1
        seconds = own.step * slower * chance.lognormvariate(0, own.jitter)
        if chance.random() < 0.001:
            seconds += min(600, seconds * (min(20, chance.paretovariate(1.5)) - 1))
        yield Span(seconds, ends_step=True)
        if chance.random() < own.stall_chance * own.step:
            yield Span(chance.uniform(20, 240), cores=0.0)  # the storage answers nothing
        if step % own.epoch_steps == 0:
            yield Span(chance.uniform(5, 90), cores=chance.choice([0.01, 0.5, 4.0]))  # loaders start
            slower *= chance.choice([1, 1, 1, 1.5])
            if slower * own.step > 600:
                slower = 1.0
        if step % own.evaluation_every == 0:
            seconds = own.evaluation * chance.lognormvariate(0, 0.15)
            yield Span(seconds, prints=own.evaluation_prints, is_evaluation=own.evaluation_prints)
        if step % own.save_every == 0:
            yield Span(own.save * chance.lognormvariate(0, 0.3), cores=0.3, writes=True)


def replayed(gaps: Sequence[float], chance: random.Random) -> Iterator[Span]:
    """A training that prints nothing but evaluations, with a real run's gaps, again and again."""
    yield Span(chance.uniform(60, 900), cores=1.0)
    while True:
        for gap in gaps:
            yield Span(gap * chance.uniform(0.97, 1.03), ends_step=True)


def looks(spans: Iterator[Span], chance: random.Random, has_gpu: bool, seconds: float = DAY_S) -> Iterator[Signs]:
    """Yields what the agent would see of it every 15 s."""
    at = ends_at = chance.uniform(0, LOOK_S)
    cpu, written, printed, step = 0.0, 0, 0, 0
    span = Span(0.0)
    cursor = 0.0
    while at < seconds:
        while ends_at <= at:
            cpu += span.cores * max(0.0, ends_at - max(cursor, ends_at - span.seconds))
            written += int(span.writes and max(0.0, ends_at - cursor) * 50e6)
            if span.ends_step:
                step, printed = step + 1, printed + 1
            cursor = ends_at
            span = next(spans)
            ends_at += max(span.seconds, 0.01)
        passed = at - cursor
        cpu += span.cores * passed
        written += int(span.writes and passed * 50e6)
        printed += int(span.prints)
        cursor = at
        mark = (float(step),) if step else None
        gpu = (0.9 if span.cores > 1 else 0.0) if has_gpu else None
        yield Signs(at, mark, span.is_evaluation, False, printed, written, 0, cpu, gpu)
        at += LOOK_S


def hangs_in_a_day(seed: int, gaps: Sequence[Sequence[float]] = ()) -> list[HangVerdict]:
    """The alarms of one simulated day without a hang: there should be none. Every third day replays a real run."""
    chance = random.Random(seed)
    own = habits(chance)
    real = chance.choice(gaps) if gaps and seed % 3 == 0 else None
    spans = replayed(real, chance) if real is not None else training(own, chance)
    rule, alarms = AliveRule(), []
    was_hung = False
    for signs in looks(spans, chance, own.has_gpu):
        hang = rule.look(signs)
        if hang is not None and not was_hung:
            alarms.append(hang)
        was_hung = hang is not None
    return alarms
