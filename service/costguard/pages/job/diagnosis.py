"""The bottleneck of a job, as its page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.jobs.reports.diagnosis import JobDiagnosis, diagnosis_of
from costguard.ledger.narrate import sentence
from costguard.pages.page import ShownJob
from costguard_vm.diagnosis.words import headline, value_text

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class BoundRow:
    since: datetime
    until: datetime
    text: str
    share: str


@dataclass(frozen=True, slots=True)
class DiagnosisShown:
    """`numbers` are pairs of a figure and what it is of; texts are empty where there is nothing to say."""

    headline: str
    is_current: bool
    why: str
    numbers: Sequence[tuple[str, str]]
    advice: str
    saving: str
    achieved: str
    rows: Sequence[BoundRow]
    why_none: str
    straggler: str
    straggler_numbers: Sequence[tuple[str, str]]
    cures: Sequence[str]  # that its profile names
    has_profile: bool


def diagnosis_of_job(shown: ShownJob) -> DiagnosisShown | None:
    """Returns the diagnosis; None while there is nothing to show: its command has not run, or its agent reports
    nothing.
    """
    answer, jobs = diagnosis_of(shown.connection, shown.accrual, shown.id), shown.source.jobs
    if answer is not None and jobs is not None:
        answer = jobs.with_next_machine(answer, shown.accrual)
    return (
        None
        if answer is None or not (answer.held or answer.minutes or answer.straggler or answer.has_profile)
        else _shown(answer)
    )


def _shown(answer: JobDiagnosis) -> DiagnosisShown:
    verdict = None if answer.held is None else answer.held.verdict
    straggler = answer.straggler
    return DiagnosisShown(
        headline=answer.headline,
        is_current=answer.is_current,
        why="" if verdict is None else sentence(verdict.why),
        numbers=[] if verdict is None else [(value_text(one), one.name) for one in verdict.numbers],
        advice=sentence(answer.advice) if answer.advice else "",
        saving=answer.saving_text,
        achieved=sentence(answer.achieved_text) if answer.achieved_text else "",
        rows=[
            BoundRow(one.since, one.until, headline(one.verdict), _percent(one.verdict.share))
            for one in answer.stretches[:_SHOWN]
        ],
        why_none=answer.why_none,
        straggler="" if straggler is None else sentence(straggler.text),
        straggler_numbers=[]
        if straggler is None
        else [(value_text(one), one.name) for one in straggler.verdict.numbers],
        cures=[sentence(cure.text) for cure in answer.cures],
        has_profile=answer.has_profile,
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
