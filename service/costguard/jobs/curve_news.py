"""What a job's curves say to its owner: a loss that went wrong, and a metric that stands still."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs import attempts, job_events, job_rows, progress_rows
from costguard.model.attempt import Attempt
from costguard.model.duration import span_text
from costguard.model.event import Event
from costguard.model.job import Job
from costguard.model.money import Money
from costguard.model.progress import EVALUATION, LOSS, NAMED, SeriesPoint
from costguard.progress.curve import judge
from costguard.progress.loss import loss_trouble
from costguard.progress.series import rewound
from costguard.spend import burning

_LOSS_POINTS = 100  # that are looked at, the new ones included
_LOWER = re.compile(
    r"loss|error|perplexity|ppl|\bwer\b|\bcer\b|\bm[as]e\b|rmse|\bfid\b|\bnll\b|\bbp[bd]\b", re.IGNORECASE
)
_HIGHER = re.compile(r"acc|f1|auc|\bmap|iou|dice|bleu|rouge|score|psnr|ssim|recall|precision|reward", re.IGNORECASE)


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
        """What the metric did, after its name."""
        cost = f" ({self.cost})" if self.cost is not None else ""
        place = f" at {self.place}" if self.place else ""
        saved = f", and the nearest checkpoint is {self.saved_in}" if self.saved_in else ""
        return (
            f"gained {self.gained:.1%} of all its gain in the last {span_text(self.span)}{cost}; "
            f"its best is {self.best:.6g}{place}{saved}"
        )


def record(connection: Connection, attempt: Attempt, points: Sequence[SeriesPoint], now: datetime) -> None:
    """Events of what the new points show, which are stored already; each happening once."""
    names = {point.series for point in points}
    if not names or (job := job_rows.read(connection, attempt.job_id)) is None:
        return
    events: list[Event] = []
    if LOSS in names:
        events += _loss(connection, job, attempt, points, now)
    if names - {LOSS}:
        still = _unsilenced(job, standstill(connection, job, attempt))
        events += [job_events.stands_still(job, still.name, still.text, _mark(still), now)] if still else []
    events = [event for event in events if not burning.recorded_at(connection, [event.key])]
    audit_log.append(connection, events, now)


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


def standstill(connection: Connection, job: Job, last: Attempt | None) -> Standstill | None:
    """Of the job's own metric, else an evaluation's loss or score, else its training loss; None while it improves."""
    chosen = _chosen(job, progress_rows.of_job(connection, job.id))
    if chosen is None:
        return None
    name, better, points = chosen
    values = [point.value for point in points if point.value is not None]
    verdict = judge(values, better)
    if not verdict.stands_still or verdict.gained is None:
        return None
    finite = [point for point in points if point.value is not None]
    best = (min if better == "lower" else max)(finite, key=lambda point: point.value or 0.0)
    since, until = finite[-min(verdict.window, len(finite))].at, finite[-1].at
    cost = last.rate.over(until - since) if last is not None and last.rate is not None else None
    saved = _saved(connection, job, best)
    return Standstill(name, verdict.gained, since, until, best.value or 0.0, best.at, best.unit, best.done, saved, cost)


def _chosen(job: Job, series: Mapping[str, Sequence[SeriesPoint]]) -> tuple[str, str, list[SeriesPoint]] | None:
    """Its name, which way is better, and its points without what was done again."""
    if job.spec.metric is not None:
        return ("metric", job.spec.metric.better, rewound(series[NAMED])) if NAMED in series else None
    evaluations = sorted(name for name in series if name.startswith(EVALUATION))
    for pattern, better in ((_LOWER, "lower"), (_HIGHER, "higher")):
        for name in evaluations:
            if pattern.search(shown := name[len(EVALUATION) :]):
                return shown, better, rewound(series[name])
    if evaluations or LOSS not in series:
        return None
    return "training loss", "lower", rewound(series[LOSS])


def _saved(connection: Connection, job: Job, best: SeriesPoint) -> str:
    """The checkpoint whose step is the nearest to the best evaluation's."""
    if best.unit != "step" or best.done is None:
        return ""
    kept = [one for one in job_rows.checkpoints_of(connection, job.id) if one.step is not None]
    nearest = min(kept, key=lambda one: abs((one.step or 0) - (best.done or 0)), default=None)
    return f"{nearest.resume_from} (step {nearest.step:,})" if nearest is not None else ""


def _mark(still: Standstill) -> str:
    """A new best makes the next standstill another one."""
    return f"{still.name}/{still.best_at:%Y%m%dT%H%M%S}"


def _loss(
    connection: Connection, job: Job, attempt: Attempt, points: Sequence[SeriesPoint], now: datetime
) -> list[Event]:
    new = [point for point in points if point.series == LOSS]
    stored = progress_rows.newest(connection, job.id, LOSS, max(_LOSS_POINTS, 2 * len(new)))
    before = [point.value for point in stored[: -len(new)]]
    trouble = loss_trouble(before, [point.value for point in new])
    if trouble is None:
        return []
    return [job_events.loss_wrong(job, attempt, new[trouble.place], trouble.value, trouble.usual, now)]
