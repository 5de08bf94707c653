"""A job's timeline: a lane for each zone with its VMs, of a gang one for each node there, as wide as the screen is.

Across, places are percents of the width, so that letters keep their size on a phone; down, they are pixels. Rounded
for drawing alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.attempt import Attempt, Interruption, Outcome
from costguard.model.duration import span_text

_TOP, _LANE, _BOTTOM = 4, 46, 26
_NAME = 20  # above each bar, for the name of its zone
_BAR = 16
_ROOM, _ROOM_ON_PHONES = 2.5, 8.0  # for the number of an attempt
_LEAST = 0.4  # the narrowest stretch that can be seen
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_TICKS = (
    *(_MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * number for number in (1, 2, 3, 6, 12)),
    *(_DAY * number for number in (1, 2, 4, 7, 14, 28, 56, 112)),
)
_MOST_TICKS = 8
_NEAR = 4.0  # the edge: a label there would be cut off


class AttemptPhase(StrEnum):
    """The phase that a stretch of a bar shows; also its class in the style sheet."""

    WAITING = "waiting"  # requested, booting, or stopped until it is started again
    WORKING = "working"
    LOST = "lost"  # work that had to be repeated


@dataclass(frozen=True, slots=True)
class Stretch:
    phase: AttemptPhase
    x: float
    width: float
    y: float
    attempt: int
    since: datetime
    until: datetime
    words: str  # how it ended; "" while it continues


@dataclass(frozen=True, slots=True)
class InterruptionMark:
    """A run that was interrupted and, where it resumed, the line to that point."""

    outcome: Outcome
    x: float
    y: float
    at: datetime
    to: tuple[float, float] | None
    from_zero: bool


@dataclass(frozen=True, slots=True)
class CheckpointMark:
    x: float
    y: float
    step: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class AttemptNumber:
    """The number of a bar's attempt, in the middle of its widest stretch; left out where there is no room."""

    attempt: int
    x: float
    y: float
    on: AttemptPhase
    is_wide: bool  # it has room on a phone, too


@dataclass(frozen=True, slots=True)
class Lane:
    name: str  # `us-central1-a`, or of a gang `us-central1-a, node 2`
    y: float


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str  # how long after the job was submitted
    anchor: str
    is_main: bool  # it has room on a phone, too


@dataclass(frozen=True, slots=True)
class Timeline:
    lanes: tuple[Lane, ...]
    stretches: tuple[Stretch, ...]
    numbers: tuple[AttemptNumber, ...]
    interruptions: tuple[InterruptionMark, ...]
    checkpoints: tuple[CheckpointMark, ...]
    ticks: tuple[Tick, ...]
    height: int
    bar: int = _BAR


@dataclass(frozen=True, slots=True)
class _Axis:
    first: datetime
    last: datetime

    def x(self, moment: datetime) -> float:
        whole = max(self.last - self.first, timedelta(seconds=1))
        place = min(1.0, max(0.0, (moment - self.first) / whole))
        return round(100 * place, 2)


def draw(
    attempts: Sequence[Attempt],
    interruptions: Sequence[Interruption],
    saved: Sequence[tuple[datetime, int | None]],
    first: datetime,
    last: datetime,
) -> Timeline:
    """`saved` are the moments at which checkpoints were written, with their steps. `last` is its end, or now."""
    axis = _Axis(first, last)
    in_order = sorted(attempts, key=lambda attempt: (attempt.formation, attempt.node))
    lanes = list(dict.fromkeys(_lane(attempt) for attempt in in_order))
    ys = {lane: float(_TOP + _LANE * number + _NAME) for number, lane in enumerate(lanes)}
    stretches: list[Stretch] = []
    for attempt in attempts:
        own = [interruption for interruption in interruptions if interruption.attempt_id == attempt.id]
        for phase, since, until in _phases(attempt, own, last):
            x = axis.x(since)
            width = max(_LEAST, round(axis.x(until) - x, 2))
            x = min(x, 100 - width)
            words = attempt.outcome.value if attempt.outcome is not None else ""
            stretches.append(Stretch(phase, x, width, ys[_lane(attempt)], attempt.number, since, until, words))
    base = _TOP + _LANE * len(lanes)
    return Timeline(
        lanes=tuple(Lane(name, y) for name, y in ys.items()),
        stretches=tuple(stretches),
        numbers=tuple(_numbers(stretches)),
        interruptions=tuple(_interruption_marks(attempts, interruptions, axis, ys)),
        checkpoints=tuple(_checkpoint_marks(attempts, saved, axis, ys)),
        ticks=_ticks(axis),
        height=base + _BOTTOM,
    )


def _lane(attempt: Attempt) -> str:
    return f"{attempt.zone}, node {attempt.node}" if attempt.formation else attempt.zone


def _numbers(stretches: Sequence[Stretch]) -> list[AttemptNumber]:
    widest: dict[int, Stretch] = {}
    for stretch in stretches:
        if stretch.attempt not in widest or stretch.width > widest[stretch.attempt].width:
            widest[stretch.attempt] = stretch
    room = (stretch for stretch in widest.values() if stretch.width >= _ROOM)
    return [
        AttemptNumber(
            stretch.attempt,
            round(stretch.x + stretch.width / 2, 2),
            round(stretch.y + _BAR * 0.76, 2),
            stretch.phase,
            is_wide=stretch.width >= _ROOM_ON_PHONES,
        )
        for stretch in room
    ]


def _phases(
    attempt: Attempt, own: Sequence[Interruption], now: datetime
) -> list[tuple[AttemptPhase, datetime, datetime]]:
    """Divides an attempt into phases.

    Only the last start of a VM is known: where it was started again, earlier runs count from its launch.
    """
    phases: list[tuple[AttemptPhase, datetime, datetime]] = []
    since, started = attempt.intended_at, attempt.agent.started_at
    end = attempt.ended_at or attempt.gone_at or now
    for interruption in own:
        began = started if started is not None and since <= started <= interruption.happened_at else since
        phases += _run(since, began, interruption.happened_at, interruption.lost)
        since = interruption.happened_at
    if since < end and not (own and attempt.outcome is not None and own[-1].outcome is attempt.outcome):
        began = started if started is not None and since <= started <= end else end
        phases += _run(since, began, end, None)
    return phases


def _run(
    since: datetime, began: datetime, end: datetime, lost: timedelta | None
) -> list[tuple[AttemptPhase, datetime, datetime]]:
    worked_until = max(began, end - lost) if lost else end
    parts = (
        (AttemptPhase.WAITING, since, began),
        (AttemptPhase.WORKING, began, worked_until),
        (AttemptPhase.LOST, worked_until, end),
    )
    return [part for part in parts if part[1] < part[2]]


def _interruption_marks(
    attempts: Sequence[Attempt], interruptions: Sequence[Interruption], axis: _Axis, ys: dict[str, float]
) -> list[InterruptionMark]:
    by_id = {attempt.id: attempt for attempt in attempts}
    marks = []
    for interruption in interruptions:
        attempt = by_id.get(interruption.attempt_id)
        if attempt is None:
            continue
        after = next((one for one in attempts if _follows(one, attempt) and one.agent.started_at), None)
        to = None
        if interruption.resumed_at is not None:
            there = attempt if after is None or interruption.resumed_at < after.intended_at else after
            to = (axis.x(interruption.resumed_at), ys[_lane(there)] + _BAR / 2)
        place = axis.x(interruption.happened_at), ys[_lane(attempt)] + _BAR / 2
        marks.append(
            InterruptionMark(interruption.outcome, *place, interruption.happened_at, to, interruption.from_zero)
        )
    return marks


def _follows(later: Attempt, attempt: Attempt) -> bool:
    return later.number > attempt.number and later.node == attempt.node


def _checkpoint_marks(
    attempts: Sequence[Attempt], saved: Sequence[tuple[datetime, int | None]], axis: _Axis, ys: dict[str, float]
) -> list[CheckpointMark]:
    """Marks each checkpoint in the lane of the attempt that was working then.

    Checkpoints from before the job are left out.
    """
    marks = []
    for at, step in saved:
        writers = [attempt for attempt in attempts if attempt.intended_at <= at <= (attempt.ended_at or axis.last)]
        if writers:
            marks.append(CheckpointMark(axis.x(at), ys[_lane(writers[-1])] + _BAR / 2, step, at))
    return marks


def _ticks(axis: _Axis) -> tuple[Tick, ...]:
    span = axis.last - axis.first
    step = next((tick for tick in _TICKS if span <= _MOST_TICKS * tick), _TICKS[-1])
    ticks = []
    for number in range(span // step + 1):
        x, after = axis.x(axis.first + number * step), number * step
        anchor = "start" if x < _NEAR else "end" if x > 100 - _NEAR else "middle"
        ticks.append(Tick(x, span_text(after) if after else "0", anchor, is_main=number % 3 == 0))
    return tuple(ticks)
