"""The job of a run: a schedule's template, filled in for a due time; and what is wrong with a template. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from costguard.jobs.submit.check.checks import LONGEST_NAME
from costguard.jobs.submit.placeholders import LATER, all_names_in, each_text, fill
from costguard.jobs.submit.submission import JobRefusal, Submission
from costguard.model.duration import span_text
from costguard.model.job import JobKind, destinations_of
from costguard.model.moments import utc_text
from costguard.schedules.schedule import Recurrence

GIVEN = ("schedule", "date", "time")
LEAST_LATE, MOST_LATE = timedelta(minutes=1), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ScheduleOrder:
    """The request for a schedule. Either `cron`, or `every` with `at`, says when; `late` is None for the default."""

    template: Submission
    every: str = ""
    at: str = ""
    cron: str = ""
    time_zone: str = "UTC"
    name: str = ""
    overlaps: bool = False
    late: timedelta | None = None


def submission_at(
    template: Submission, schedule_id: str, title: str, recurrence: Recurrence, due_at: datetime
) -> Submission:
    """Returns the job of the run that is due then. Its deadline counts from the due time, also where it starts late."""
    local = due_at.astimezone(ZoneInfo(recurrence.time_zone))
    values = {"schedule": schedule_id, "date": f"{local:%Y-%m-%d}", "time": f"{local:%H%M}"}
    made: Submission = each_text(template, lambda text: fill(text, values))
    name = made.spec.name
    if not name or name == template.spec.name:
        name = f"{name or title} {values['date']} {local:%H:%M}"
    within = made.spec.deadline_in
    spec = replace(
        made.spec,
        name=name[:LONGEST_NAME].strip(),
        schedule=schedule_id,
        deadline=made.spec.deadline if within is None else due_at + within,
        deadline_in=None,
    )
    return replace(made, spec=spec)


def problems(order: ScheduleOrder) -> Iterator[JobRefusal]:
    """Lists what keeps an order from being a schedule; what is wrong with its job is not looked at."""
    spec = order.template.spec
    if spec.kind is JobKind.DEV:
        yield JobRefusal("job.kind", "A schedule runs commands, and a development VM has none: launch it by itself.")
    if spec.deadline is not None:
        message = (
            "A deadline at one moment cannot hold for all runs: give it as a time from each due time, such as 24h."
        )
        yield JobRefusal("job.deadline", message)
    if len(order.name) > LONGEST_NAME or not order.name.isprintable() or order.name != order.name.strip():
        message = f"Use at most {LONGEST_NAME} printable characters, with no line break and no space at either end."
        yield JobRefusal("name", message)
    if order.late is not None and not LEAST_LATE <= order.late <= MOST_LATE:
        span = f"{span_text(LEAST_LATE)} to {span_text(MOST_LATE)}"
        yield JobRefusal("late", f"A run can be late by {span}: choose a time between them.")
    for name in all_names_in(order.template):
        if name in LATER or name in GIVEN:
            continue
        given = ", ".join(f"{{{one}}}" for one in GIVEN)
        message = f"{{{name}}} stands for nothing here: a schedule's job has {given}"
        yield JobRefusal("job", f"{message}; write {{{{{name}}}}} where the braces are meant.")


def warnings(order: ScheduleOrder, following: Sequence[Submission]) -> Iterator[str]:
    """Says what runs that follow each other share and perhaps should not."""
    hint = "put {date}, or {date}-{time}, into it where each is to begin from nothing"
    for one, other in pairwise(made.spec for made in following):
        plan, next_plan = one.checkpoint, other.checkpoint
        if plan is not None and next_plan is not None and plan.location == next_plan.location and not plan.is_on_disk:
            yield f"Runs save to the same place, {plan.location}, so that each resumes what the last saved: {hint}."
            if order.overlaps:
                yield "Runs that overlap would save to that place at the same time."
            break
    for one, other in pairwise(made.spec for made in following):
        both = set(destinations_of(one).values()) & set(destinations_of(other).values())
        if both:
            yield f"Runs publish to the same place, {min(both)}, each over what the last published: {hint}."
            break


def waits(next_due: datetime | None) -> str:
    """The reason of a schedule that is active."""
    return "No day fits its times any more." if next_due is None else f"The next run is due at {utc_text(next_due)}."
