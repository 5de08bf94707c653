"""News of a job's curves for its owner: a loss that went wrong, and a metric that stands still."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.rows import attempts, job_events, job_rows
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.jobs.rows.progress import progress_rows
from costguard.model.attempt import Attempt
from costguard.model.duration import span_text
from costguard.model.event import Event
from costguard.model.job import EarlyEnd, Job
from costguard.model.money import Money
from costguard.model.reported.metric import HIGHER, LOWER, better_of
from costguard.model.reported.progress import EVALUATION, LOSS, NAMED, SeriesPoint
from costguard.spend import burning
from costguard_vm.progress.curve import FEWEST, judge
from costguard_vm.progress.loss import LossTrouble, loss_trouble
from costguard_vm.progress.series import rewound

_LOSS_POINTS = 100  # that are looked at, the new ones included


@dataclass(frozen=True, slots=True)
class Standstill:
    """A metric whose last evaluations, since `since`, brought `gained` of all its gain, as a share."""

    name: str
    gained: float
    since: datetime
    until: datetime
    best: float
    best_at: datetime
    unit: str | None  # of `best_done`
    best_done: float | None
    saved_in: str  # the checkpoint nearest to the best; "" where none is known
    cost: Money | None  # of the time since then, at the last VM's rate

    @property
    def span(self) -> timedelta:
        return self.until - self.since

    @property
    def place(self) -> str:
        """`step 41,000`, of the best; "" where it is not known."""
        return f"{self.unit} {self.best_done:,.10g}" if self.unit and self.best_done is not None else ""

    @property
    def text(self) -> str:
        """Describes the metric's course, after its name."""
        cost = f" ({self.cost})" if self.cost is not None else ""
        place = f" at {self.place}" if self.place else ""
        saved = f", and the nearest checkpoint is {self.saved_in}" if self.saved_in else ""
        return (
            f"gained {self.gained:.1%} of all its gain in the last {span_text(self.span)}{cost}; "
            f"its best is {self.best:.6g}{place}{saved}"
        )


def record(connection: Connection, reports: Iterable[tuple[Attempt, Sequence[SeriesPoint]]], now: datetime) -> None:
    """Stores points, and events of what they show; each happening once."""
    waiting = [(attempt, points) for attempt, points in reports if points]
    while waiting:
        turn = {one[0].job_id: one for one in reversed(waiting)}  # the first of each job
        _record(connection, list(turn.values()), now)
        waiting = [one for one in waiting if turn[one[0].job_id] is not one]


def _record(connection: Connection, reports: Collection[tuple[Attempt, Sequence[SeriesPoint]]], now: datetime) -> None:
    """Records reports of different jobs; the new points of each were stored last."""
    new = [progress_rows.NewPoints(attempt.job_id, attempt.id, points) for attempt, points in reports]
    counts = progress_rows.add(connection, new)
    better = job_rows.metrics_better(connection, counts)
    for attempt, points in reports:
        _announce(connection, attempt, points, _chosen(better.get(attempt.job_id), counts.get(attempt.job_id, {})), now)


def _announce(
    connection: Connection, attempt: Attempt, points: Sequence[SeriesPoint], chosen: ChosenCurve | None, now: datetime
) -> None:
    """Announces what the new points show, which are stored already. `chosen` is the curve that may stand still."""
    new = [point for point in points if point.series == LOSS]
    trouble = _loss_trouble(connection, attempt.job_id, [point.value for point in new]) if new else None
    still = _still(connection, attempt.job_id, chosen) if len(new) < len(points) else None
    if (trouble is None and still is None) or (job := job_rows.read(connection, attempt.job_id)) is None:
        return  # as nearly always
    events: list[Event] = []
    if trouble is not None:
        events.append(job_events.loss_wrong(job, attempt, new[trouble.place], trouble.value, trouble.usual, now))
    if still is not None and (shown := _unsilenced(job, _standstill(connection, job, attempt, still))) is not None:
        if job.spec.stop_when_flat:
            events += _finished_early(connection, job, shown, now)
        else:
            events.append(job_events.stands_still(job, shown.name, shown.text, _mark(shown), now))
    events = [event for event in events if not burning.recorded_at(connection, [event.key])]
    audit_log.append(connection, events, now)


def _finished_early(connection: Connection, job: Job, still: Standstill, now: datetime) -> list[Event]:
    """Stores the wish to finish it, once; no event where it is over or a user cancels it already."""
    reason = f"stopped when flat, as it was to be: its {still.name} {still.text}"
    if not job_rows.end_early(connection, job.id, EarlyEnd.FLAT, reason, now):
        return []
    return [job_events.stopped_when_flat(job, still.name, reason, now)]


def hint_of(connection: Connection, job: Job) -> Standstill | None:
    """The standstill to be hinted at now; None where there is none, a user has decided, or the job is over."""
    if job.state.is_over or job.cancel_asked_at is not None or job.cancel_after_at is not None:
        return None
    tried = attempts.of_jobs(connection, [job.id]).get(job.id, [])
    return _unsilenced(job, standstill(connection, job, tried[-1] if tried else None))


def _unsilenced(job: Job, still: Standstill | None) -> Standstill | None:
    if still is None or (job.never_mind_at is not None and still.best_at <= job.never_mind_at):
        return None
    return still


class _Still(NamedTuple):
    """A curve that stands still: its points with a number, without what was done again."""

    name: str
    better: str
    points: Sequence[SeriesPoint]
    gained: float
    window: int


def standstill(connection: Connection, job: Job, last: Attempt | None) -> Standstill | None:
    """Returns the standstill of the job's own metric, else an evaluation's loss or score, else its training loss; None
    while it improves.
    """
    counts = progress_rows.counts(connection, [job.id]).get(job.id, {})
    still = _still(connection, job.id, _chosen(None if job.spec.metric is None else job.spec.metric.better, counts))
    return None if still is None else _standstill(connection, job, last, still)


def _standstill(connection: Connection, job: Job, last: Attempt | None, still: _Still) -> Standstill:
    finite = still.points
    best = (min if still.better == "lower" else max)(finite, key=lambda point: point.value or 0.0)
    since, until = finite[-min(still.window, len(finite))].at, finite[-1].at
    cost = last.rate.over(until - since) if last is not None and last.rate is not None else None
    saved = _saved(connection, job, best)
    return Standstill(
        still.name, still.gained, since, until, best.value or 0.0, best.at, best.unit, best.done, saved, cost
    )


def _still(connection: Connection, job_id: str, chosen: ChosenCurve | None) -> _Still | None:
    if chosen is None:
        return None
    points = rewound(progress_rows.series_of(connection, job_id, chosen.series))
    finite = [point for point in points if point.value is not None]
    verdict = judge([point.value for point in finite if point.value is not None], chosen.better)
    if not verdict.stands_still or verdict.gained is None:
        return None
    return _Still(chosen.name, chosen.better, finite, verdict.gained, verdict.window)


class ChosenCurve(NamedTuple):
    """The curve by which a training is judged."""

    series: str
    name: str  # for people
    better: str


def _chosen(better: str | None, counts: Mapping[str, int]) -> ChosenCurve | None:
    """Chooses a curve of series with so many points. `better` is that of the job's own metric; None: it has none."""
    chosen = chosen_curve(better, counts)
    return chosen if chosen is not None and counts[chosen.series] >= FEWEST else None


def chosen_curve(better: str | None, series: Collection[str]) -> ChosenCurve | None:
    """Chooses the job's own metric, else an evaluation's loss or score, else the training loss; None: there is none.

    `better` is the direction of the job's own metric; None: it has none.
    """
    if better is not None:
        return ChosenCurve(NAMED, "metric", better) if NAMED in series else None
    evaluations = sorted(name for name in series if name.startswith(EVALUATION))
    for which in (LOWER, HIGHER):
        for name in evaluations:
            if better_of(shown := name[len(EVALUATION) :]) == which:
                return ChosenCurve(name, shown, which)
    if evaluations or LOSS not in series:
        return None
    return ChosenCurve(LOSS, "training loss", "lower")


def _saved(connection: Connection, job: Job, best: SeriesPoint) -> str:
    """The checkpoint whose step is the nearest to the best evaluation's."""
    if best.unit != "step" or best.done is None:
        return ""
    kept = [one for one in checkpoint_rows.checkpoints_of(connection, job.id) if one.step is not None]
    nearest = min(kept, key=lambda one: abs((one.step or 0) - (best.done or 0)), default=None)
    return f"{nearest.resume_from} (step {nearest.step:,})" if nearest is not None else ""


def _mark(still: Standstill) -> str:
    """A new best makes the next standstill another one."""
    return f"{still.name}/{still.best_at:%Y%m%dT%H%M%S}"


def _loss_trouble(connection: Connection, job_id: str, new: Sequence[float | None]) -> LossTrouble | None:
    stored = progress_rows.newest_values(connection, job_id, LOSS, max(_LOSS_POINTS, 2 * len(new)))
    return loss_trouble(stored[: -len(new)], new)
