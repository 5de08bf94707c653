"""The preemption drills on a job's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.jobs.submit.submission import drill_refusal
from costguard.model.job import Job
from costguard.model.reported.drill import Drill, SavedOnNotice, in_words, seconds_text


@dataclass(frozen=True, slots=True)
class DrillRow:
    number: int
    began_at: datetime | None
    title: str  # its result, or where it stands
    took: str  # from the notice until it was saved; "" where it was not
    text: str


@dataclass(frozen=True, slots=True)
class DrillTable:
    rows: Sequence[DrillRow]  # the newest first
    count: str  # `saved on notice 3 of 5 times, ...`; "" where there was no notice
    may_begin: bool  # the job can be drilled now
    save: str = ""  # whether a save fits in the notice of a preemption; "" where it is not known

    @property
    def is_shown(self) -> bool:
        return bool(self.rows) or self.may_begin


def drill_table(job: Job, drills: Sequence[Drill], on_notice: SavedOnNotice) -> DrillTable:
    is_open = any(not drill.is_over for drill in drills) or job.state.is_over or job.cancel_asked_at is not None
    rows, may_begin = [_row(drill) for drill in drills], not is_open and not drill_refusal(job.spec)
    return DrillTable(rows, _count(on_notice), may_begin, on_notice.save)


def _row(drill: Drill) -> DrillRow:
    took = drill.uploaded or drill.saved
    stands = drill.state.value if drill.result is None else drill.result.value
    return DrillRow(
        drill.number, drill.began_at, stands, seconds_text(took) if took is not None else "", in_words(drill)
    )


def _count(on_notice: SavedOnNotice) -> str:
    real = on_notice.times - on_notice.drills
    if not real or not on_notice.drills:
        return on_notice.text
    drilled = f"{on_notice.drills} {'drill' if on_notice.drills == 1 else 'drills'}"
    return f"{on_notice.text}, in {drilled} and {real} announced {'preemption' if real == 1 else 'preemptions'}"
